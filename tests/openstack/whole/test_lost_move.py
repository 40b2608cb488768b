"""nova-compute is restarted while live moves from and to its host copy memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from hypercobalt.api.eviction import Eviction, EvictionReason, EvictionSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.openstack import computes
from hypercobalt.lab.openstack.client import Json
from tests.openstack.computes import service
from tests.openstack.servers import PLACEMENT
from tests.openstack.whole.site import PATIENT, WITHIN, Site, awaited, outcome, runs

pytestmark = [pytest.mark.real, pytest.mark.timeout(400, func_only=True)]

FIRST, SECOND = "kvm-1", "kvm-2"
_SLOW, _FAST = "1", "1000"  # MiB a second; the guest's system has some 60 MiB
_LEFT_OVER = {
    IssueCode.ORPHAN_PORT_NO_DEVICE,
    IssueCode.ORPHAN_PORT_NO_BINDING,
    IssueCode.ORPHAN_PORT_NO_DOMAIN,
}
_HARD = {"reboot": {"type": "HARD"}}


async def test_restart_of_nova_compute_loses_no_guest_and_the_way_out_is_told(site: Site) -> None:
    """It is the source of one move and the target of another one; the way out is followed."""
    leaves, comes = await asyncio.gather(site.boot_system(FIRST), site.boot_system(SECOND))
    beats = await site.beats(comes)

    async with _slow(site, leaves, FIRST), _slow(site, comes, SECOND):
        await asyncio.gather(_evict(site, leaves, FIRST), _evict(site, comes, SECOND))
        for server, source in ((leaves, FIRST), (comes, SECOND)):
            await awaited(partial(_copies, site, server, source), bool, WITHIN)
        before = await service(site.admin, FIRST)
        await site.restart(FIRST, computes.SERVICE)
        # It looks at its servers before its first report.
        reports = partial(service, site.admin, FIRST)
        await awaited(reports, lambda one: _is_newer(one, before), WITHIN)
        assert await _copies(site, leaves, FIRST)
        assert await _copies(site, comes, SECOND)

    arrived = await site.ended(SECOND, lambda one: one.metadata.name == comes)
    assert outcome(arrived) == EvictionReason.SUCCEEDED
    await _runs_once(site, comes, FIRST)
    await site.until_beats(comes, beats)

    lost = await site.ended(FIRST, lambda one: one.metadata.name == leaves)
    assert outcome(lost) == EvictionReason.FAILED
    (instance,) = lost.status.instances
    assert instance.message is not None
    assert f"virsh destroy {leaves}; virsh undefine --keep-nvram {leaves}" in instance.message
    (emulator,) = site.emulators(leaves)
    assert emulator.machine == site.host(SECOND).machine
    assert await site.servers.host(leaves) == FIRST

    await _follow_the_message(site, leaves)
    await _runs_once(site, leaves, FIRST)
    await site.until_beats(leaves)
    for server in (leaves, comes):
        await site.kube.delete(Eviction, server)


async def _evict(site: Site, server: str, host: str) -> None:
    spec = EvictionSpec(hypervisor=host, reason="test of the whole", instances=(server,))
    await site.kube.create(Eviction(metadata=ObjectMeta(name=server), spec=spec))


@asynccontextmanager
async def _slow(site: Site, server: str, source: str) -> AsyncIterator[None]:
    """Have the memory of a server copied slowly meanwhile."""
    virsh = partial(site.host(source).run, "virsh")
    await virsh("migrate-setspeed", server, _SLOW)
    try:
        yield
    finally:
        await virsh("migrate-setspeed", server, _FAST)


async def _copies(site: Site, server: str, source: str) -> bool:
    """Whether libvirt copies the memory of a server away from a host now."""
    try:
        printed = await site.host(source).run("virsh", "domjobinfo", server)
    except CommandError:
        return False
    return "Outgoing migration" in printed and "Memory remaining" in printed


def _is_newer(now: Json, before: Json) -> bool:
    return bool(now["state"] == "up" and now["updated_at"] > before["updated_at"])


async def _follow_the_message(site: Site, server: str) -> None:
    """Do what the Eviction's message tells people to do, in its order."""
    target = site.host(SECOND)
    await target.run("virsh", "destroy", server)
    await target.run("virsh", "undefine", "--keep-nvram", server)
    (await site.servers.act(server, _HARD)).ok()
    await site.servers.until(
        server,
        lambda one: (one["status"], one["OS-EXT-STS:power_state"]) == ("ACTIVE", 1),
        WITHIN,
    )
    await site.manage_placement("heal_allocations", "--force", "--instance", server)
    move = (await site.servers.migrations(server))[0]["uuid"]
    assert await _shares(site, move)
    await site.manage_placement("audit", "--delete")
    assert not await _shares(site, move)
    # What is left of the guest on the target is its tap, which the OVSNode names.
    named = await awaited(
        partial(site.switch, SECOND), lambda switch: bool(switch.status.issues), WITHIN
    )
    (issue,) = named.status.issues
    assert issue.code in _LEFT_OVER
    await target.run("ovs-vsctl", "del-port", "br-int", str(issue.object), within=PATIENT)


async def _shares(site: Site, consumer: str) -> Json:
    """What Placement has given to a consumer, by resource provider."""
    path = f"/allocations/{consumer}"
    return (await site.admin("placement", "GET", path, version=PLACEMENT)).ok()["allocations"]


async def _runs_once(site: Site, server: str, host: str) -> None:
    await site.until_host(host, partial(runs, server=server))
    await site.bound(server, host)
    await awaited(partial(site.allocated, server), lambda found: found == {host}, WITHIN)
    (emulator,) = site.emulators(server)
    assert emulator.machine == site.host(host).machine
