"""Drills in which a second failure comes while the first one is recovered from."""

from __future__ import annotations

import asyncio

from hypercobalt.drills.configuration import active, configure
from hypercobalt.drills.control_plane import deployment
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.faults import evict, resume, shut_down
from hypercobalt.drills.instances import kill
from hypercobalt.drills.outcomes import (
    RECOVERY,
    all_in_service,
    is_tried,
    none_fenced,
    recovered,
)
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import control
from hypercobalt.lab import operator as lab_operator
from hypercobalt.runtime.tasks import beside

_AWAY = 30.0  # seconds; longer than the operator's Lease
_DARK = 60.0  # seconds; longer than silence of the node agents' Leases and all waits after it
_FLAPS = (0.0, 15.0, 35.0, 45.0)
"""Seconds without power: before and after the Node is Unknown, and about the end of the Lease."""
_DOCUMENTS = (
    "events: {lifecycle: {monitored: false}}\n",
    "limits: {backof: [1s]}\n",
    "limits: {backoff: [1s]}\n",
)
_FLIP = 2.0


async def api_dies(stage: Stage) -> None:
    """Instances that run elsewhere already are not touched, and the rest follows."""
    vms = await stage.vms("kvm-1", 6)
    began = await stage.power_cut("kvm-1")

    async def has_begun() -> bool:
        return bool(stage.pids(vms))

    await stage.until("the first of its guests runs elsewhere", has_begun, within=RECOVERY)
    await stage.do("the API server is killed", stage.kill(control.ROLE))
    pids = stage.pids(vms)

    async def run_on() -> bool:
        return pids <= stage.pids(vms)

    await stage.stays("the guests that run elsewhere run on", run_on, seconds=_AWAY)
    await stage.do("the API server starts again", stage.lab.control.start())
    async with deployment(stage):
        await recovered(stage, "kvm-1", vms, began)
        if not await run_on():
            raise DrillError("a guest that ran elsewhere already was started again")


async def flaps(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    for seconds in _FLAPS:
        await stage.power_cut("kvm-1")
        await asyncio.sleep(seconds)  # the length of the failure itself
        await stage.do(f"kvm-1 boots again, after {seconds:g} s", stage.lab.up_host(host))
    await all_in_service(stage)
    await stage.runs(vms, within=RECOVERY)
    await stage.write(*vms)


async def site(stage: Stage) -> None:
    vms = tuple([vm for host in stage.lab.hosts for vm in await stage.vms(host.name)])
    for host in stage.lab.hosts:
        await stage.power_cut(host.name)
    await asyncio.sleep(_DARK)  # the length of the failure itself
    if stage.pids(vms):
        raise DrillError("a guest runs on a host without power")
    for host in stage.lab.hosts:
        await stage.do(f"{host.name} boots again", stage.lab.up_host(host))
    await stage.runs(vms, within=RECOVERY)
    await stage.write(*vms)
    await all_in_service(stage)
    await none_fenced(stage)


async def second_host(stage: Stage) -> None:
    """A second host fails and boots later; the first host's instances are recovered regardless."""
    first = await stage.vms("kvm-1", 2)
    second = await stage.vms("kvm-2", 2)
    began = await stage.power_cut("kvm-1")

    async def is_being_fenced() -> bool:
        return is_tried(await stage.hypervisor("kvm-1"))

    await stage.until("kvm-1 is being fenced", is_being_fenced, within=RECOVERY)
    await stage.power_cut("kvm-2")
    await asyncio.sleep(_AWAY)  # the length of the failure itself
    await stage.do("kvm-2 boots again", stage.lab.up_host(stage.host("kvm-2")))
    await recovered(stage, "kvm-1", first, began)
    await stage.runs(second, within=RECOVERY)
    await stage.do("kvm-1 boots again", stage.lab.up_host(stage.host("kvm-1")))
    await all_in_service(stage)
    await stage.runs((*first, *second), within=1)


async def operator_away(stage: Stage) -> None:
    """Nothing on the host starts its instances: the operator does when it is there again."""
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    await stage.do("the operator is killed", stage.kill(lab_operator.ROLE))
    await stage.power_cut("kvm-1")
    await stage.do("kvm-1 boots again", stage.lab.up_host(host))
    await stage.do("the operator starts again", stage.lab.operator.start())
    await stage.runs(vms, within=RECOVERY)
    await stage.write(*vms)
    await all_in_service(stage)
    await none_fenced(stage)


async def configuration_flips(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)

    async def flip() -> None:
        while True:
            for document in _DOCUMENTS:
                await configure(stage, document)
                await asyncio.sleep(_FLIP)  # the time for which it holds

    began = stage.record.now
    await stage.do("power cut of kvm-1, while the ConfigMap changes", stage.host("kvm-1").crash())
    async with beside(flip(), name="flip"):
        await recovered(stage, "kvm-1", vms, began)
    await stage.do("the ConfigMap stays as it is", configure(stage, _DOCUMENTS[-1]))
    (emulator,) = stage.emulators(vms[0])
    await active(stage, stage.host_of(emulator), _DOCUMENTS[-1])
    await stage.runs(vms[:1], within=60, not_pids=[kill(stage, vms[0])])


async def cut_while_emptied(stage: Stage) -> None:
    """The host boots before it counts as failed: its guests are started, and then leave."""
    vms = await stage.vms("kvm-1", 6)
    host = stage.host("kvm-1")
    await stage.do("a person empties kvm-1", evict(stage, "kvm-1"))
    await stage.do("power cut of kvm-1", host.crash())
    await stage.do("kvm-1 boots again", stage.lab.up_host(host))
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    await stage.write(*vms)
    await stage.do("kvm-1 goes back into service", resume(stage, "kvm-1"))
    await all_in_service(stage)
    await none_fenced(stage)


async def emptied_while_down(stage: Stage) -> None:
    """A person is faster than high availability, and libvirt knows nothing of the earlier boot."""
    vms = await stage.vms("kvm-1", 3)
    await stage.power_cut("kvm-1")
    await stage.do("a person empties kvm-1", evict(stage, "kvm-1"))
    await stage.do("kvm-1 boots again", stage.lab.up_host(stage.host("kvm-1")))
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    await stage.write(*vms)
    await stage.becomes("kvm-1", "empty", lambda host: host.status.evicted, within=RECOVERY)
    await stage.do("kvm-1 goes back into service", resume(stage, "kvm-1"))
    await all_in_service(stage)
    await none_fenced(stage)


async def shut_down_unseen(stage: Stage) -> None:
    """No operator moves the guests, so the shutdown ends them; they are started after the boot."""
    vms = await stage.vms("kvm-1", 4)
    await stage.do("the operator is killed", stage.kill(lab_operator.ROLE))
    await stage.do("kvm-1 is shut down", shut_down(stage, "kvm-1"))
    await stage.do("kvm-1 boots again", stage.lab.up_host(stage.host("kvm-1")))
    await stage.do("the operator starts again", stage.lab.operator.start())
    await stage.runs(vms, within=RECOVERY)
    await stage.write(*vms)
    await all_in_service(stage)


DRILLS = (
    Drill(
        "api-dies-evacuating",
        "The API server dies while a host is evacuated: what runs is left alone, the rest follows.",
        api_dies,
        in_ci=False,
    ),
    Drill(
        "host-flaps",
        "A host loses power four times, for 0 to 45 s: it is back, its instances run once.",
        flaps,
        in_ci=False,
    ),
    Drill(
        "site-power-cut",
        "All hosts lose power: none is fenced; their instances run once the hosts are back.",
        site,
        in_ci=False,
    ),
    Drill(
        "second-host",
        "A second host loses power while the first is fenced: the instances of both run again.",
        second_host,
        4,
        in_ci=False,
    ),
    Drill(
        "reboot-unseen",
        "A host reboots while the operator is away: its instances run again.",
        operator_away,
        in_ci=False,
    ),
    Drill(
        "config-flips",
        "The ConfigMap changes every 2 s, invalid at times, while a host is evacuated.",
        configuration_flips,
        in_ci=False,
    ),
    Drill(
        "cut-while-emptied",
        "A host loses power while a person empties it, and boots: its instances run elsewhere.",
        cut_while_emptied,
        in_ci=False,
    ),
    Drill(
        "emptied-while-down",
        "A person empties a host that has lost power, and it boots: its instances run elsewhere.",
        emptied_while_down,
    ),
    Drill(
        "shut-down-unseen",
        "A host is shut down while the operator is away, and boots again: its instances run.",
        shut_down_unseen,
        in_ci=False,
    ),
)
