"""Nova, Neutron and our agents and operator on the same hosts: chains from cause to end.

What our objects report is checked with Nova, Neutron, Placement, OVN and the QEMUs themselves.
"""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

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
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab.agents import NODE_AGENT, OVS_AGENT
from hypercobalt.lab.openstack import computes
from hypercobalt.lab.ovn import CONTROLLER, Part
from tests.openstack.computes import service
from tests.whole.site import WITHIN, Site, awaited, condition, runs

pytestmark = pytest.mark.timeout(400, func_only=True)

FIRST, SECOND = "kvm-1", "kvm-2"
_POWER_SYNC = 20  # seconds: Nova compares states every 15 s, and 15 s after an event of libvirt


def _kill_qemu(site: Site, server: str) -> int:
    (emulator,) = site.emulators(server)
    os.kill(emulator.pid, signal.SIGKILL)
    return emulator.pid


def _outcome(eviction: Eviction) -> str:
    found = get_condition(eviction.status.conditions, EvictionConditionType.EVICTING)
    return str(found.reason) if found else ""


async def test_server_is_an_instance_of_its_host_and_its_port_one_of_the_switch(
    site: Site,
) -> None:
    here, there = await asyncio.gather(site.boot(FIRST), site.boot(SECOND))

    await site.until_host(FIRST, lambda hv: runs(hv, here) and not runs(hv, there))
    await site.until_host(SECOND, lambda hv: runs(hv, there) and not runs(hv, here))
    port, other = await site.bound(here, FIRST), await site.bound(there, SECOND)
    tap = f"tap{port['id'][:11]}"
    words = await site.host(FIRST).run("ovs-vsctl", "get", "Interface", tap, "external_ids")
    assert f'iface-id="{port["id"]}"' in words
    assert f'vm-uuid="{here}"' in words
    traced = await site.cobalt("trace", FIRST, f"--from={tap}", f"--to={other['id']}")
    assert (traced.code, traced.stderr) == (0, "")
    assert other["id"] in traced.stdout
    checked = await site.cobalt("network", "check")
    assert checked.code == 0, checked.stdout
    for name in (FIRST, SECOND):
        assert [issue.code for issue in (await site.switch(name)).status.issues] == []


async def test_security_group_that_changes_while_the_southbound_database_is_away_holds_after_it(
    site: Site,
) -> None:
    here, there = await asyncio.gather(site.boot(FIRST), site.boot(SECOND))
    port, other = await site.bound(here, FIRST), await site.bound(there, SECOND)
    traced = partial(site.traced, FIRST, f"tap{port['id'][:11]}", other["id"])
    await awaited(traced, lambda outcome: outcome == "Delivered", WITHIN)
    central = site.openstack.lab.central
    (group,) = other["security_groups"]
    rules = await site.rules_of_members(group)
    assert rules

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
    for name in (FIRST, SECOND):
        switch = partial(site.switch, name)
        await awaited(switch, lambda found: found.status.issues == (), WITHIN)
    assert len(site.emulators(here)) == len(site.emulators(there)) == 1


async def test_crashed_guest_is_started_again_once_whether_nova_finds_it_stopped_or_not(
    site: Site,
) -> None:
    server = await site.boot(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))

    killed = _kill_qemu(site, server)

    ended = await site.ended(FIRST, lambda one: True)
    assert ended.spec.trigger == Trigger.INSTANCE_CRASH
    assert _outcome(ended) == "Succeeded"
    shown = await site.servers.until(server, lambda one: one["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-STS:power_state"]) == ("ACTIVE", 1)
    (emulator,) = site.emulators(server)
    assert emulator.pid != killed
    await site.until_beats(server)
    await site.bound(server, FIRST)

    async def is_left_alone() -> bool:
        pids = {one.pid for one in site.emulators(server)}
        return pids == {emulator.pid}

    await site.stays(is_left_alone, _POWER_SYNC)
    # Nova's power sync, each 15 s, may come first: it stops what it finds stopped.
    actions = await site.servers.actions(server)
    assert actions in (["reboot", "create"], ["start", "stop", "create"])


async def test_guest_that_nova_found_stopped_first_is_started_while_all_daemons_restart(
    site: Site,
) -> None:
    server = await site.boot(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))
    async with site.without_operator():
        _kill_qemu(site, server)
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


async def test_guest_that_its_watchdog_powers_off_is_started_again_once(site: Site) -> None:
    async with site.watched_flavor() as flavor:
        server = await site.boot(FIRST, flavor)
    await site.until_host(FIRST, partial(runs, server=server))
    (before,) = site.emulators(server)

    await site.order(server, FIRST, "pet 2", "starve")

    ended = await site.ended(FIRST, lambda one: True)
    assert ended.spec.trigger == Trigger.WATCHDOG
    assert _outcome(ended) == "Succeeded"
    await site.servers.until(server, lambda one: one["status"] == "ACTIVE")
    await site.until_beats(server)
    (emulator,) = site.emulators(server)
    assert emulator.pid != before.pid
    assert len(await site.evictions(FIRST)) == 1


@pytest.mark.parametrize("part", ["mariadb", "rabbitmq"])
async def test_crash_while_what_nova_stands_on_hangs_is_recovered_once_after_it(
    site: Site, part: str
) -> None:
    server = await site.boot(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))
    async with site.hanging(f"openstack/{part}"):
        killed = _kill_qemu(site, server)

        async def is_left_alone() -> bool:
            return all(one.pid == killed for one in site.emulators(server))

        await awaited(partial(site.evictions, FIRST), bool, WITHIN)
        await site.stays(is_left_alone, 5)

    ended = await site.ended(FIRST, lambda one: True)

    assert _outcome(ended) == "Succeeded"
    await site.servers.until(server, lambda one: one["status"] == "ACTIVE")
    await site.until_beats(server)
    assert len(site.emulators(server)) == 1


async def test_servers_of_a_host_that_is_cut_off_are_evacuated_once_it_is_fenced(
    site: Site,
) -> None:
    server, off = await asyncio.gather(site.boot(FIRST), site.boot(FIRST))
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


async def test_living_servers_of_an_evicted_host_move_with_their_ports_while_agents_restart(
    site: Site,
) -> None:
    *moved, stays = await asyncio.gather(site.boot(FIRST), site.boot(FIRST), site.boot(SECOND))
    beats = {server: await site.servers.beats(server) for server in moved}
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
    assert [one.pid for one in site.emulators(stays)] == [pid]
    for switch in (FIRST, SECOND):
        assert [issue.code for issue in (await site.switch(switch)).status.issues] == []
    await site.kube.delete(Eviction, name)


async def test_host_in_maintenance_is_emptied_and_serves_again(site: Site) -> None:
    server = await site.boot(FIRST)
    await site.until_host(FIRST, partial(runs, server=server))

    await _set_maintenance(site, "auto")
    await site.until_host(FIRST, lambda hv: bool(hv.status.evicted))

    assert await site.servers.host(server) == SECOND
    assert (await service(site.admin, FIRST))["status"] == "disabled"
    await _set_maintenance(site, "")
    await site.all_in_service()


async def _set_maintenance(site: Site, maintenance: str) -> None:
    wanted = {"spec": {"maintenance": maintenance}}
    await site.kube.merge_patch(Hypervisor, FIRST, wanted)
