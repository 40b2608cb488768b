"""nova-compute of the source is restarted in a live move: what an Eviction says stays true.

Nova's part in this has several ends, and which one is chance: its start aborts a move that it has
as running, or finds the guest gone to the target. So these tests check our own claims alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import (
    Eviction,
    EvictionConditionType,
    EvictionInstance,
    EvictionSpec,
    InstancePhase,
    has_ended,
)
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab.openstack import computes
from tests.openstack.whole.site import PATIENT, WITHIN, Site, awaited, runs

pytestmark = [pytest.mark.real, pytest.mark.timeout(500, func_only=True)]

FIRST, SECOND = "kvm-1", "kvm-2"
_NAME = "restarted"
_FASTER = "1000"  # MiB a second


@pytest.mark.parametrize(
    "returns_first", [True, False], ids=["while libvirt copies", "once libvirt has moved it"]
)
async def test_eviction_claims_no_guest_that_does_not_run_when_nova_compute_restarts_in_its_move(
    site: Site, *, returns_first: bool
) -> None:
    server = await site.boot_system(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))
    async with _moving_slowly(site, server):
        await site.host(FIRST).run("systemctl", "stop", computes.SERVICE, within=PATIENT)
        if returns_first:
            await site.start_compute(FIRST)
            await _hurry(site, server)
        else:
            await _hurry(site, server)
            await awaited(partial(_where, site, server), lambda at: at == [SECOND], WITHIN)
            await site.start_compute(FIRST)

        await awaited(partial(_checked, site, server), _has_said_why, 2 * WITHIN)


@asynccontextmanager
async def _moving_slowly(site: Site, server: str) -> AsyncIterator[None]:
    """Have an Eviction move a server that does not get ready; nothing is left of it then."""
    await site.order(server, FIRST, "dirty 8")
    await site.openstack.hinder(server)
    spec = EvictionSpec(hypervisor=FIRST, reason="test of the whole")
    await site.kube.create(Eviction(metadata=ObjectMeta(name=_NAME), spec=spec))
    try:
        await site.servers.until_migrated(server, "running")
        await awaited(partial(_where, site, server), lambda at: at == [FIRST, SECOND], WITHIN)
        yield
    finally:
        await site.host(FIRST).run("systemctl", "start", computes.SERVICE)
        await site.kube.delete(Eviction, _NAME)
        await site.remove_remains(server)


async def _hurry(site: Site, server: str) -> None:
    """Let a move that goes on come to its end."""
    hurry = f"virsh migrate-setspeed {server} {_FASTER}; true"  # where it runs there still
    await site.host(FIRST).run("bash", "-c", hurry)


async def _where(site: Site, server: str) -> list[str]:
    """The hosts that have a QEMU of a server."""
    machines = {one.machine for one in site.emulators(server)}
    return sorted(host.name for host in site.openstack.hosts if host.machine in machines)


async def _checked(site: Site, server: str) -> Eviction:
    """The Eviction, whose claims are compared with the QEMUs that are there."""
    found = await site.kube.get(Eviction, _NAME)
    assert found is not None
    there = await _where(site, server)
    entry = _entry(found, server)
    if entry is None:
        return found
    if entry.phase == InstancePhase.SUCCEEDED:
        assert there == [SECOND], f"{entry} of a guest on {there}"
    if entry.phase == InstancePhase.FAILED:
        astray = f"runs on {SECOND}" in (entry.message or "")
        assert there == [SECOND if astray else FIRST], f"{entry} of a guest on {there}"
    if has_ended(found.status):
        outcome = get_condition(found.status.conditions, EvictionConditionType.EVICTING)
        assert outcome is not None
        assert (outcome.reason == "Succeeded") == (entry.phase == InstancePhase.SUCCEEDED)
        assert outcome.reason == "Succeeded" or server in outcome.message
    return found


def _has_said_why(found: Eviction) -> bool:
    """Whether an Eviction has ended, with a reason for each instance that did not leave."""
    return has_ended(found.status) and all(
        one.message for one in found.status.instances if one.phase == InstancePhase.FAILED
    )


def _entry(found: Eviction, server: str) -> EvictionInstance | None:
    return next((one for one in found.status.instances if one.id == server), None)
