"""Nova, Neutron and our agents and operator on the same hosts: chains from cause to end.

What our objects report is checked with Nova, Neutron, Placement, OVN and the QEMUs themselves.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

import pytest

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import (
    Eviction,
    EvictionConditionType,
    EvictionMode,
    EvictionSpec,
    Trigger,
)
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import IncidentType
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.lab import rights
from hypercobalt.lab.agents import NODE_AGENT, OVS_AGENT
from hypercobalt.lab.openstack import computes, metadata
from hypercobalt.lab.openstack.client import Json
from hypercobalt.lab.ovn import CONTROLLER, Part
from hypercobalt.runtime import ForbiddenError
from tests.openstack.computes import provider_id, service
from tests.openstack.whole.faults import (
    MEMORY,
    kill_metadata_agent,
    kill_qemu,
    run_out_of_memory,
)
from tests.openstack.whole.site import WITHIN, Site, awaited, condition, runs

pytestmark = [pytest.mark.real, pytest.mark.timeout(400, func_only=True)]

FIRST, SECOND = "kvm-1", "kvm-2"
_NOT_FOUND = 404
_POWER_SYNC = 20  # seconds: Nova compares states every 15 s, and 15 s after an event of libvirt


def _outcome(eviction: Eviction) -> str:
    found = get_condition(eviction.status.conditions, EvictionConditionType.EVICTING)
    return str(found.reason) if found else ""


async def test_ports_are_neutrons_and_rules_change_while_the_southbound_database_is_away(
    site: Site,
) -> None:
    here, there = await asyncio.gather(site.boot(FIRST), site.boot(SECOND))
    await _instances_and_ports_are_those_of_nova_and_neutron(site, here, there)

    port, other = await site.bound(here, FIRST), await site.bound(there, SECOND)
    traced = partial(site.traced, FIRST, _tap(port), other["id"])
    await awaited(traced, lambda outcome: outcome == "Delivered", WITHIN)
    central = site.openstack.lab.central
    (group,) = other["security_groups"]
    rules = await site.rules_of_members(group)
    assert rules

    async with site.foreign_port(SECOND, there) as foreign:
        await central.stop((Part.SB,))
        try:
            for rule in rules:
                await site.remove_rule(rule)
        finally:
            await central.repair((Part.SB,))

        await awaited(traced, lambda outcome: outcome == "Dropped", WITHIN)
        for rule in rules:
            await site.add_rule(rule)
        await awaited(traced, lambda outcome: outcome == "Delivered", WITHIN)
        await _only_the_foreign_port_is_left_over(site, SECOND, foreign)
    for name in (FIRST, SECOND):
        switch = partial(site.switch, name)
        await awaited(switch, lambda found: found.status.issues == (), WITHIN)
    assert len(site.emulators(here)) == len(site.emulators(there)) == 1


async def _instances_and_ports_are_those_of_nova_and_neutron(
    site: Site, here: str, there: str
) -> None:
    await site.until_host(FIRST, lambda hv: runs(hv, here) and not runs(hv, there))
    await site.until_host(SECOND, lambda hv: runs(hv, there) and not runs(hv, here))
    port, other = await site.bound(here, FIRST), await site.bound(there, SECOND)
    for name, one, server in ((FIRST, port, here), (SECOND, other, there)):
        shown = {found.name: found for found in await site.ports(name)}[_tap(one)]
        assert (shown.iface_id, shown.instance) == (one["id"], server)
    traced = await site.cobalt("trace", FIRST, f"--from={_tap(port)}", f"--to={other['id']}")
    assert (traced.code, traced.stderr) == (0, "")
    assert other["id"] in traced.stdout
    checked = await site.cobalt("network", "check")
    assert checked.code == 0, checked.stdout
    for name in (FIRST, SECOND):
        assert [issue.code for issue in (await site.switch(name)).status.issues] == []


async def _only_the_foreign_port_is_left_over(site: Site, host: str, foreign: str) -> None:
    """Check that a host names the port that Neutron does not know, and no port of Neutron's."""
    left_over = {(IssueCode.ORPHAN_PORT_NO_BINDING, foreign)}
    await awaited(
        partial(site.switch, host),
        lambda found: {(one.code, one.object) for one in found.status.issues} == left_over,
        WITHIN,
    )
    issues = {one.name: one.issues for one in await site.ports(host) if one.issues}
    assert issues == {foreign: (IssueCode.ORPHAN_PORT_NO_BINDING,)}


def _tap(port: Json) -> str:
    """The name of the device that Nova makes for a port of Neutron's."""
    return f"tap{port['id'][:11]}"


async def test_guest_reads_its_uuid_by_dhcp_and_metadata_agent_also_once_both_have_died(
    site: Site,
) -> None:
    server = await site.boot_system(FIRST)
    host = site.host(FIRST)
    await site.until_introduced(server)
    secret = await host.run("stat", "--format=%a %U", metadata.CONFIGURATION)
    assert secret.split() == ["600", "root"]

    await kill_metadata_agent(host)

    await site.until_knows_itself(server, FIRST)
    network = (await site.port(server))["network_id"]
    (proxy,) = [one for one in await site.ports(FIRST) if one.name == f"tap{network[:10]}0"]
    assert proxy.issues == ()
    await site.bound(server, FIRST)
    assert [issue.code for issue in (await site.switch(FIRST)).status.issues] == []


async def test_operator_on_nova_has_no_right_to_definitions(site: Site) -> None:
    async with site.as_operator() as operator:
        assert await operator.get(Hypervisor, FIRST) is not None
        with pytest.raises(ForbiddenError):
            await operator.get(SealedDefinitions, FIRST, rights.NAMESPACE)


async def test_guests_that_crash_or_are_ended_by_watchdog_or_oom_killer_are_started_again_once(
    site: Site,
) -> None:
    async with site.watched_flavor() as flavor:
        crashed, starved, without_memory = await asyncio.gather(
            site.boot(SECOND), site.boot_system(FIRST, flavor), site.boot_system(FIRST)
        )
    await site.until_host(FIRST, lambda hv: runs(hv, starved) and runs(hv, without_memory))
    await site.until_host(SECOND, partial(runs, server=crashed))
    (watched,) = site.emulators(starved)

    await site.order(starved, FIRST, "pet 2", "starve")
    killed = kill_qemu(site, crashed)
    ends = (
        _End(starved, FIRST, watched.pid, IncidentType.WATCHDOG, Trigger.WATCHDOG),
        _End(crashed, SECOND, killed, IncidentType.CRASH),
    )
    await asyncio.gather(*(_is_started_again_once(site, end) for end in ends))

    # Alone: while the kernel looks for memory, no agent of the host sees anything else in time.
    assert MEMORY.exists(), "memory has no hierarchy of control groups by itself"
    by_kernel = await run_out_of_memory(site, without_memory, site.host(FIRST))
    end = _End(without_memory, FIRST, by_kernel, IncidentType.HOST_OUT_OF_MEMORY)
    await _is_started_again_once(site, end)
    await site.until_knows_itself(without_memory, FIRST)
    assert [len(await site.evictions(host)) for host in (FIRST, SECOND)] == [2, 1]


class _End(NamedTuple):
    """How the QEMU of a server has ended, and what its host reports of it."""

    server: str
    host: str
    pid: int
    type: IncidentType
    trigger: Trigger = Trigger.INSTANCE_CRASH


async def _is_started_again_once(site: Site, end: _End) -> None:
    """Check that a server was started again on its host, and not once more after that."""
    server = end.server
    ended = await site.ended(end.host, partial(_is_about, server))
    assert ended.spec.reason.startswith(f"HA: {end.type} of")  # first: it has the rule, too
    assert ended.spec.trigger == end.trigger
    assert _outcome(ended) == "Succeeded"
    shown = await site.servers.until(server, _is_at_rest)
    assert (shown["status"], shown["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)
    (emulator,) = site.emulators(server)
    assert emulator.pid != end.pid

    async def is_left_alone() -> bool:
        return [one.pid for one in site.emulators(server)] == [emulator.pid]

    await asyncio.gather(
        site.until_beats(server),
        site.bound(server, end.host),
        site.stays(is_left_alone, _POWER_SYNC),
    )
    # Nova's power sync, each 15 s, may come first, also between our look and our call: it stops
    # what it finds stopped.
    actions = await site.servers.actions(server)
    orders = (["reboot", "create"], ["start", "stop", "create"], ["reboot", "stop", "create"])
    assert actions in orders


def _is_about(server: str, eviction: Eviction) -> bool:
    return eviction.spec.instances == (server,)


def _is_at_rest(shown: Json) -> bool:
    return bool(shown["status"] == "ACTIVE" and shown["OS-EXT-STS:task_state"] is None)


async def test_guest_that_nova_found_stopped_first_is_started_while_all_daemons_restart(
    site: Site,
) -> None:
    server = await site.boot(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))
    async with site.without_operator():
        kill_qemu(site, server)
        await awaited(partial(site.evictions, FIRST), bool, WITHIN)
        await site.servers.until(server, lambda one: one["status"] == "SHUTOFF")
    await site.restart(FIRST, "libvirtd.service", computes.SERVICE, NODE_AGENT, OVS_AGENT)

    ended = await site.ended(FIRST, lambda one: True)

    assert _outcome(ended) == "Succeeded"
    await site.servers.until(server, lambda one: one["status"] == "ACTIVE")
    await site.until_beats(server)
    assert len(site.emulators(server)) == 1
    assert len(await site.evictions(FIRST)) == 1
    assert await site.servers.actions(server) == ["start", "stop", "create"]


async def test_crash_while_what_nova_stands_on_hangs_is_recovered_once_after_it(
    site: Site,
) -> None:
    servers = await asyncio.gather(site.boot(FIRST), site.boot(FIRST))
    for part, server in zip(("mariadb", "rabbitmq"), servers, strict=True):
        await site.until_host(FIRST, partial(runs, server=server))
        async with site.hanging(f"openstack/{part}"):
            killed = kill_qemu(site, server)

            await awaited(partial(_evictions_of, site, server), bool, WITHIN)
            await site.stays(partial(_none_but, site, server, killed), 5)

        ended = await site.ended(FIRST, partial(_is_about, server))

        assert _outcome(ended) == "Succeeded", part
        await site.servers.until(server, lambda one: one["status"] == "ACTIVE")
        await site.until_beats(server)
        assert len(site.emulators(server)) == 1


async def _evictions_of(site: Site, server: str) -> list[Eviction]:
    return [one for one in await site.evictions(FIRST) if _is_about(server, one)]


async def _none_but(site: Site, server: str, pid: int) -> bool:
    return all(one.pid == pid for one in site.emulators(server))


async def test_servers_of_a_host_that_is_cut_off_are_evacuated_once_it_is_fenced(
    site: Site,
) -> None:
    volume, off = await asyncio.gather(site.boot_on_volume(FIRST), site.boot_system(FIRST))
    server = volume.server
    (await site.servers.act(off, {"os-stop": None})).ok()
    await site.servers.until(off, lambda one: one["status"] == "SHUTOFF")
    await site.until_host(FIRST, partial(runs, server=server))
    host = site.host(FIRST)

    await host.wire.cut()

    dead = await site.until_host(FIRST, lambda hv: condition(hv, "Fenced") == "True/Proven", 180)
    assert dead.status.fencing is not None
    assert host.leader_pid is None  # its BMC has switched it off
    await site.servers.until(server, lambda one: one["OS-EXT-SRV-ATTR:host"] == SECOND)
    ended = await site.ended(FIRST, lambda one: one.spec.mode == EvictionMode.EVACUATE)
    assert _outcome(ended) == "Succeeded"
    for one, status in ((server, "ACTIVE"), (off, "SHUTOFF")):
        shown = await site.servers.show(one)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == (status, SECOND)
        # Nova keeps the dead host's share until its compute is back.
        assert SECOND in await site.allocated(one)
    port = await site.bound(server, SECOND)
    await site.until_host(SECOND, partial(runs, server=server))
    await site.until_beats(server)

    await site.openstack.lab.up_host(host)

    back = await site.until_host(FIRST, lambda hv: condition(hv, "Ready") == "True/Ready")
    assert back.status.fencing is not None
    assert back.status.fencing.phase == FencingPhase.RELEASED
    assert back.status.instances == ()
    assert (await host.run("virsh", "list", "--all", "--uuid")).split() == []
    taps = await host.run("ovs-vsctl", "--columns=name", "--bare", "find", "Interface", "type=''")
    assert f"tap{port['id'][:11]}" not in taps.split()
    for one in (server, off):
        await site.servers.until_migrated(one, "completed")
    assert not (await site.until_service(FIRST))["forced_down"]
    for one in (server, off):
        await awaited(partial(site.allocated, one), lambda found: found == {SECOND}, WITHIN)
    (emulator,) = site.emulators(server)
    assert emulator.machine == site.host(SECOND).machine
    await site.check_volume(volume, SECOND)


async def test_living_servers_of_an_evicted_host_move_with_port_and_volume_while_agents_restart(
    site: Site,
) -> None:
    volume, other, stays = await asyncio.gather(
        site.boot_on_volume(FIRST), site.boot_system(FIRST), site.boot(SECOND)
    )
    moved = (volume.server, other)
    await site.check_volume(volume, FIRST)
    beats = {server: await site.beats(server) for server in moved}
    (pid,) = (one.pid for one in site.emulators(stays))

    name = "whole"
    await site.kube.create(
        Eviction(
            metadata=ObjectMeta(name=name),
            spec=EvictionSpec(hypervisor=FIRST, reason="test of the whole"),
        )
    )

    moving = partial(site.servers.show, moved[0])
    await awaited(moving, lambda one: one["OS-EXT-STS:task_state"] == "migrating", WITHIN)
    async with site.without_operator():
        agents = (NODE_AGENT, OVS_AGENT, CONTROLLER)
        await asyncio.gather(*(site.restart(host, *agents) for host in (FIRST, SECOND)))
    ended = await site.ended(FIRST, lambda one: one.metadata.name == name)
    assert _outcome(ended) == "Succeeded"
    await site.until_host(FIRST, lambda hv: hv.status.instances == ())
    for server in moved:
        record = await site.servers.until_migrated(server, "completed")
        assert record["migration_type"] == "live-migration"
        await site.until_host(SECOND, partial(runs, server=server))
        await site.until_beats(server, beats[server])
        await site.bound(server, SECOND)
        assert await site.allocated(server) == {SECOND}
        (emulator,) = site.emulators(server)
        assert emulator.machine == site.host(SECOND).machine
        await site.until_knows_itself(server, SECOND)
    await site.check_volume(volume, SECOND)
    assert [one.pid for one in site.emulators(stays)] == [pid]
    for switch in (FIRST, SECOND):
        assert [issue.code for issue in (await site.switch(switch)).status.issues] == []
    await site.kube.delete(Eviction, name)


async def test_host_serves_again_after_maintenance_and_leaves_and_comes_back(site: Site) -> None:
    server = await site.boot_system(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))

    await site.set_maintenance(FIRST, "auto")
    await site.until_host(FIRST, lambda hv: bool(hv.status.evicted))

    assert await site.servers.host(server) == SECOND
    assert (await service(site.admin, FIRST))["status"] == "disabled"
    await site.set_maintenance(FIRST, "")
    await site.all_in_service()

    provider = await provider_id(site.admin, SECOND)
    async with site.pod_of_agents(SECOND):
        await site.set_maintenance(SECOND, "termination")
        waits = "AgentPodsRunning"
        await site.until_host(
            SECOND, lambda hv: condition(hv, "AgentPodsEvicted").endswith(waits), WITHIN
        )
        assert await site.servers.host(server) == FIRST
        assert (await service(site.admin, SECOND))["status"] == "disabled"
    await site.until_host(SECOND, lambda hv: condition(hv, "Offboarded") == "True/Offboarded")
    assert await site.services(SECOND) == []
    assert await site.provider_code(provider) == _NOT_FOUND
    await site.leave(SECOND)
    assert await site.provider_code(provider) == _NOT_FOUND

    await site.join(SECOND)

    assert (await site.servers.show(server))["status"] == "ACTIVE"
    await site.until_beats(server)
    assert await site.allocated(server) == {FIRST}
