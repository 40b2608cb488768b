"""`cobalt lab`: several real hosts on one machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.common_flags import Port, Span
from hypercobalt.cli.lab_command import HERE, Data, run
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import state as records
from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.lab import down as take_down
from hypercobalt.lab.locks import locked, refuse_beside_another
from hypercobalt.lab.machine import facts, packages, preflight
from hypercobalt.lab.machine.preflight import MIB, Demand, Readiness
from hypercobalt.lab.pods import images
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.state import NODE_GRACE, Layout
from hypercobalt.lab.supervision.supervisor import Supervisor
from hypercobalt.lab.vms import missing
from hypercobalt.lab.vms.fleet import Fleet

lab = App(name="lab", help="Several real hosts on one machine.")
_HOSTS = "hypercobalt.cli.lab_hosts"
lab.command(f"{_HOSTS}:hosts_app", name="host", help="Add, break, repair and remove hosts.")
lab.command(f"{_HOSTS}:net_app", name="net", help="Break and repair the network of a host.")
lab.command(
    "hypercobalt.cli.lab_bonds:bonds_app", name="bond", help="Break and repair the bond of a host."
)
lab.command(f"{_HOSTS}:bmc_app", name="bmc", help="Break and repair a host's BMC.")
lab.command(
    "hypercobalt.cli.lab_storage:storage_app",
    name="storage",
    help="Break and repair the shared disks of a host.",
)
lab.command(
    "hypercobalt.cli.lab_ovn:ovn_app", name="ovn", help="Break and repair OVN of the whole lab."
)
lab.command("hypercobalt.cli.lab_vms:vms_app", name="vm", help="Create, list, move and remove VMs.")


@lab.command
def up(
    *,
    hosts: int = 3,
    vms: int = 6,
    openstack: bool = False,
    virt: bool = False,
    data: Data = HERE,
    yes: bool = False,
    port: Port = 6443,
    node_grace: Span = NODE_GRACE,
    supervise: bool = True,
) -> int:
    """Boot hosts with libvirt, Open vSwitch and OVN, and an API server that shows them.

    What is there already is found; what died is started again. Where the machine cannot boot hosts,
    the reason is printed, and the API is served alone.

    Parameters
    ----------
    hosts
        How many hosts a new lab gets; one that is there keeps its own.
    vms
        How many virtual machines a new lab gets, on all hosts together.
    openstack
        Give a new lab an OpenStack: nova-compute runs on each host beside our agents, the operator
        works on Nova, and the virtual machines are its servers.
    virt
        Have a new lab run VirtualMachineInstances: virt-controller and a scheduler beside the
        operator, and on each host what runs their pods.
    data
        Directory that holds everything the lab makes.
    yes
        Install missing packages without a prompt; so does YES=1, and so does having no terminal.
    port
        Port of a new lab's API server; 0 takes a free one.
    node_grace
        How long a Node of a new lab may be silent until it is Unknown, such as 4s for quick drills.
    supervise
        Start processes of the machine again when they die, until `lab down`. Without it they stay
        dead until the next `up`.
    """
    setup = Setup(hosts=hosts, vms=vms, virt=virt)
    agreed = yes or os.environ.get("YES") == "1"
    return run(
        _up(data, setup, port, node_grace, openstack=openstack, yes=agreed, supervise=supervise)
    )


async def _up(
    data: Path,
    setup: Setup,
    port: int,
    node_grace: timedelta,
    *,
    openstack: bool,
    yes: bool,
    supervise: bool,
) -> int:
    hosts, vms = setup.hosts, setup.vms
    if hosts < 1:
        raise LabRequestError(f"--hosts {hosts}: must be 1 or more")
    if vms < 0:
        raise LabRequestError(f"--vms {vms}: must be 0 or more")
    layout = Layout.at(data)
    refuse_beside_another(layout)
    openstack = _has_openstack(layout, requested=openstack)
    _check_virt(layout, setup, openstack=openstack)
    demand = await _demand(layout, Demand(hosts, vms, openstack=openstack))
    readiness = preflight.decide(await facts.observe(data), demand)
    if openstack and readiness.can_boot:
        from hypercobalt.lab.openstack import infra  # noqa: PLC0415 - seldom needed

        install = (*readiness.install, *infra.missing_packages())
        readiness = replace(readiness, install=install)
    screen.show_notes(readiness)
    if readiness.shortages and not readiness.lacks:
        raise LabError("; ".join(f"{lack.what}: {lack.remedy}" for lack in readiness.shortages))
    if readiness.lacks:
        screen.show_lacks(readiness)
        from hypercobalt.cli.lab_api import serve_api_only  # noqa: PLC0415 - a server, seldom needed

        return await serve_api_only(data, port)
    if not await _install(readiness, yes=yes):
        return 1
    with locked(layout), screen.progress() as report:
        is_new = records.load(layout) is None and records.lost(layout) is None
        try:
            made = await Lab.make(data, report, api_port=port, node_grace=node_grace)
            if openstack:
                from hypercobalt.lab.openstack.site import OpenStack  # noqa: PLC0415 - seldom needed

                await OpenStack.up(made, setup)
            else:
                await _up_all(made, setup)
            await _supervise(made, supervise=supervise)
        except BaseException as error:
            full = shutil.disk_usage(layout.data).free < MIB
            if is_new:  # nothing half-made stays
                await asyncio.shield(take_down(data))
                screen.show(f"removed the unfinished lab in {layout.data}")
            if full and isinstance(error, HypercobaltError | OSError):  # whatever failed by that
                raise LabError(f"the disk with {layout.data} is full; {error}") from error
            raise
    screen.show_ways_on(made, data, await Fleet(made).inventory())
    await screen.show_table(made)
    return 0


async def _supervise(made: Lab, *, supervise: bool) -> None:
    made.note_supervision(supervised=supervise)
    supervisor = Supervisor(made.layout, made.state)
    await (supervisor.start() if supervise else supervisor.end())


def _has_openstack(layout: Layout, *, requested: bool) -> bool:
    """Whether the lab has an OpenStack, or will have one."""
    state = records.load(layout)
    if state is None or not state.hosts:
        return requested
    if requested and not state.openstack:
        raise LabRequestError(
            f"--openstack: the lab in {layout.data} was made without; take it down first, or name "
            "another directory with --data"
        )
    return bool(state.openstack)


def _check_virt(layout: Layout, setup: Setup, *, openstack: bool) -> None:
    """Refuse VirtualMachineInstances for a lab that cannot have them."""
    if not setup.virt:
        return
    if openstack:
        raise LabRequestError("--virt: a lab with an OpenStack runs no VirtualMachineInstances yet")
    state = records.load(layout)
    if state is not None and state.hosts and not state.virt:
        raise LabRequestError(
            f"--virt: the lab in {layout.data} was made without; take it down first, or name "
            "another directory with --data"
        )


async def _demand(layout: Layout, new: Demand) -> Demand:
    if records.load(layout) is not None:
        there = Lab.find(layout.data)
        if there.state.hosts:
            return await missing.demand(there)
    return new


async def _up_all(made: Lab, setup: Setup) -> None:
    fleet = Fleet(made)
    guests = asyncio.create_task(fleet.guests(), name="guest image")
    await asyncio.gather(made.up(setup), made.step("guest image", guests))
    await fleet.revive()
    if made.state.virt:
        await made.step("images of pods", _images(made, fleet))
    lack = (await guests).lack
    if lack:
        screen.show(f"note: {lack}; the VMs are boot sectors")
    await missing.complete(made, fleet, "boot" if lack else "linux")


async def _images(made: Lab, fleet: Fleet) -> None:
    found = (await fleet.guests()).image
    await asyncio.to_thread(images.lay_out, made.layout.images, found)


async def _install(readiness: Readiness, *, yes: bool) -> bool:
    if not readiness.install:
        return True
    if not screen.confirm_packages(readiness.install, interactive=sys.stdin.isatty() and not yes):
        return False
    await packages.install(readiness.install)
    return True


@lab.command
def status(*, data: Data = HERE) -> int:
    """Show the hosts once.

    Parameters
    ----------
    data
        Directory of the lab.
    """
    return run(_status(data))


async def _status(data: Path) -> int:
    await screen.show_table(Lab.find(data), once=True)
    return 0


@lab.command
def down(*, data: Data = HERE) -> int:
    """Remove everything that the lab made.

    Parameters
    ----------
    data
        Directory of the lab.
    """
    return run(_down(data))


async def _down(data: Path) -> int:
    layout = Layout.at(data)
    if not layout.data.exists() and records.lost(layout) is None:
        screen.show(f"there is no lab in {layout.data}")
        return 0
    with locked(layout, ends=True), screen.progress() as report:
        gone = await take_down(data, report)
    screen.show("everything is gone" if gone else f"there is no lab in {layout.data}")
    return 0


@lab.command(name="exec")
def exec_(
    name: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    data: Data = HERE,
) -> int:
    """Run a command in a host, with this terminal.

    Parameters
    ----------
    name
        Name of the host.
    command
        Program and arguments; a shell when not given.
    data
        Directory of the lab.
    """

    async def enter() -> int:
        host = Lab.find(data).host(name)
        env = {"TERM": os.environ.get("TERM", "dumb")}
        argv = host.entering(*(command or ("/bin/bash", "-l")), env=env)
        sys.stdout.flush()
        os.execvp(argv[0], argv)  # noqa: S606 - no shell of ours

    return run(enter())
