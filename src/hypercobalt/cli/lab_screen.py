"""Output of `cobalt lab`: progress, missing packages, the table of hosts.

On a terminal things move; without one every line is printed once, as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.cli.tables import table
from hypercobalt.lab import bond, processes
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.machine.preflight import Readiness
from hypercobalt.lab.progress import Progress, Report
from hypercobalt.lab.supervision import journal, supervisor
from hypercobalt.lab.vms.inventory import Inventory
from hypercobalt.lab.vms.request import ListedVm
from hypercobalt.runtime import Informer, Metrics
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.views.lab import (
    UNSUPERVISED,
    Row,
    is_taken_up,
    is_watched,
    restarted,
    rows,
    stopped,
)

_COLUMNS = (
    "NODE",
    "POWER",
    "STATE",
    "VERSION",
    "INSTANCES",
    "LIBVIRT",
    "OVS",
    "NETWORK",
    "HARDWARE",
    "KERNEL",
    "AGE",
)
_LEAST_FIRST = ("HARDWARE", "KERNEL", "VERSION")  # left out on a narrow terminal
_COLOURS = {
    "running": "green",
    "Running": "green",
    "Ready": "green",
    "Healthy": "green",
    "frozen": "yellow",
    "off": "red",
    "cut": "red",
    "Stale": "yellow",
    "AgentSilent": "red",
    "LibvirtUnavailable": "red",
    "BridgeDown": "red",
    "Degraded": "yellow",
    "OVNControllerFailed": "yellow",
    "OVNDisconnected": "yellow",
    "SwitchNotResponding": "red",
    "NodeNotReady": "red",
    "NodeUnreachable": "red",
    "Stopped": "red",
    "Failed": "red",
}
_REFRESH_SECONDS = 1.0  # ages and power; what the API reports is shown when it comes
_SYNC_SECONDS = 5.0
_TAKE_UP_SECONDS = 20.0  # an agent needs two to start


def show(text: str) -> None:
    """Print a line."""
    print(text, flush=True)


def show_part(text: str) -> None:
    """Print a part of a line, or several."""
    print(text, end="", flush=True)


def print_error(text: str) -> None:
    """Print an error."""
    print(f"cobalt lab: {text}", file=sys.stderr, flush=True)


def show_notes(readiness: Readiness) -> None:
    """Show what works differently on this machine."""
    for note in readiness.notes:
        show(f"note: {note}")


def show_lacks(readiness: Readiness) -> None:
    """Show why no host can be booted, what helps, and what works without."""
    show("No host can be booted on this machine:")
    for lack in readiness.lacks:
        show(f"  - {lack.what}\n    What helps: {lack.remedy}.")
    show("What works without hosts: the Kubernetes API with our types.\n")


def confirm_packages(names: Iterable[str], *, interactive: bool) -> bool:
    """Show the packages that will be installed, and prompt if a person is at the terminal."""
    show("These Debian packages are missing and will be installed (none of their services is")
    show(f"started or enabled on this machine):\n  {' '.join(names)}")
    if not interactive:
        return True
    answer = input("Install them? [Y/n] ").strip().lower()
    if answer in ("", "y", "yes"):
        return True
    print_error("nothing was installed; without them no host can be booted")
    return False


@contextlib.contextmanager
def progress() -> Generator[Report]:
    """Show steps while they are under way.

    Yields:
        What to call when a step begins or ends.
    """
    console = Console()
    if not console.is_terminal:
        yield _plain_report()
        return
    columns = (SpinnerColumn(finished_text="[green]✓[/]"), TextColumn("{task.description}"))
    with Bars(*columns, TimeElapsedColumn(), console=console) as bars:
        yield _moving_report(bars)


def _plain_report() -> Report:
    begun = time.monotonic()

    def report(step: str, how_far: Progress) -> None:
        if how_far is not Progress.BEGUN:
            show(f"{time.monotonic() - begun:6.1f} s  {step}: {how_far}")

    return report


def _moving_report(bars: Bars) -> Report:
    tasks: dict[str, TaskID] = {}

    def report(step: str, how_far: Progress) -> None:
        if how_far is Progress.BEGUN:
            tasks[step] = bars.add_task(escape(step), total=1)
        elif how_far is Progress.DONE:
            bars.update(tasks[step], completed=1)
        else:
            bars.update(tasks[step], description=f"[red]{escape(step)}: {how_far}[/]")
            bars.stop_task(tasks[step])

    return report


async def show_table(lab: Lab, *, once: bool = False, console: Console | None = None) -> None:
    """Show the hosts: once, or on a terminal until Ctrl-C or `lab down`.

    Without a terminal it waits, for a bounded time, until all hosts are in service.

    Args:
        lab: whose hosts.
        once: show them as they are now.
        console: where; None is stdout.

    Raises:
        HypercobaltError: the API cannot be reached for another reason than being down.
    """
    console = console or Console()
    if not lab.control.is_running:
        _show_once(console, lab, ())
        return
    async with lab.control.client() as kube, asyncio.TaskGroup() as group:
        informer = Informer(kube, Selection(Hypervisor), metrics=Metrics())
        following = group.create_task(informer.run(), name="hypervisors")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SYNC_SECONDS):
                await informer.wait_synced()
        try:
            if once or not console.is_terminal:
                if not once:
                    await _until_taken_up(lab, informer)
                _show_once(console, lab, informer.cache)
            else:
                with contextlib.suppress(asyncio.CancelledError):  # Ctrl-C
                    await _live(console, lab, informer)
        finally:
            following.cancel()


def _stopped(lab: Lab) -> tuple[str, ...]:
    found = processes.find(lab.state.id)
    roles = {one.role: processes.is_stopped(one.pid) for one in found}
    record = journal.load(lab.layout)
    awaited = [role for role, one in record.items() if one.due and supervisor.ROLE in roles]
    away = lab.state.supervised and supervisor.ROLE not in roles
    return (
        *stopped(roles, awaited),
        *((UNSUPERVISED,) if away else ()),
        *restarted(record),
        *bond.broken(lab.hosts),
    )


async def _until_taken_up(lab: Lab, informer: Informer[Hypervisor]) -> None:
    changed = asyncio.Event()
    informer.add_handler(_Wake(changed))
    on = [host for host in lab.hosts if host.power is HostPower.RUNNING and not host.wire.is_cut]
    running, has_ovn = {host.name for host in on}, lab.central.is_made

    def is_up(hypervisor: Hypervisor) -> bool:
        return is_taken_up(hypervisor) and (is_watched(hypervisor) or not has_ovn)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_TAKE_UP_SECONDS):
            while not running <= {hv.metadata.name for hv in informer.cache if is_up(hv)}:
                await changed.wait()
                changed.clear()


async def _live(console: Console, lab: Lab, informer: Informer[Hypervisor]) -> None:
    changed = asyncio.Event()
    informer.add_handler(_Wake(changed))
    with Live(console=console, auto_refresh=False) as live:
        while lab.is_there:
            table = _table(_rows(lab, informer.cache), console.width)
            live.update(Group(table, *map(Text, _stopped(lab))), refresh=True)
            changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await changed.wait()
    show("the lab was taken down")


class _Wake:
    """Sets an event when anything has changed."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def on_add(self, obj: Hypervisor) -> None:
        self._event.set()

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        self._event.set()

    def on_delete(self, obj: Hypervisor) -> None:
        self._event.set()


def _rows(lab: Lab, hypervisors: Iterable[Hypervisor]) -> tuple[Row, ...]:
    hosts = lab.hosts
    power = {host.name: host.power for host in hosts}
    cut = {host.name for host in hosts if host.wire.is_cut}
    return rows(power, hypervisors, datetime.now(UTC), cut=cut)


def _show_once(console: Console, lab: Lab, hypervisors: Iterable[Hypervisor]) -> None:
    shown = _rows(lab, hypervisors)
    if console.is_terminal:
        console.print(_table(shown, console.width))
    else:  # it has no width, and a program may read it
        for line in table(_COLUMNS, map(astuple, shown)):
            show(line)
    for text in _stopped(lab):
        show(text)


def _table(shown: Iterable[Row], width: int) -> Table:
    lines = [(*_COLUMNS,), *(astuple(row) for row in shown)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    kept = fitting(dict(zip(_COLUMNS, widths, strict=True)), width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in kept:
        table.add_column(column, no_wrap=True)
    for line in lines[1:]:
        cells = zip(_COLUMNS, line, strict=True)
        table.add_row(*(_coloured(cell) for column, cell in cells if column in kept))
    return table


def fitting(widths: Mapping[str, int], width: int) -> tuple[str, ...]:
    """The columns that fit into a width, without the least ones where not all do.

    Args:
        widths: of each column, in their order.
        width: of the screen; columns are two characters apart.
    """
    kept = list(widths)
    for least in _LEAST_FIRST:
        if sum(widths[column] + 2 for column in kept) - 2 > width:
            kept.remove(least)
    return tuple(kept)


def _coloured(cell: str) -> str:
    colour = _COLOURS.get(cell)
    return f"[{colour}]{escape(cell)}[/]" if colour else escape(cell)


def preparation(kubeconfig: Path) -> str:
    """Commands after which another terminal finds the programs, the API and this directory."""
    programs = shlex.quote(str(Path(sys.executable).parent))
    settings = f'KUBECONFIG={shlex.quote(str(kubeconfig.resolve()))} PATH={programs}:"$PATH"'
    return f"  cd {shlex.quote(str(Path.cwd()))}\n  export {settings}"


def show_ways_on(lab: Lab, data: Path, inventory: Inventory) -> None:
    """Some things to try, and how it ends.

    Args:
        lab: what was made.
        data: its directory, as it was given.
        inventory: what runs on its hosts.
    """
    option = "" if data == Path(".lab") else f" --data {shlex.quote(str(data))}"
    running = [host.name for host in lab.state.hosts if host.name not in inventory.silent]
    show(f"\nTry, in another terminal, as root:\n{preparation(lab.control.kubeconfig)}")
    tries = (
        cloud_to_try(lab.layout.clouds, running, option)
        if lab.state.openstack
        else things_to_try(inventory.vms, running, option)
    )
    for line in tries:
        show(f"  {line}")
    show(f"\nThe lab keeps running; `cobalt lab down{option}` ends it.\n")


def cloud_to_try(clouds: Path, hosts: Sequence[str], option: str) -> tuple[str, ...]:
    """Commands that work on a lab whose virtual machines are Nova's servers.

    Args:
        clouds: the file by which OpenStack's clients find it.
        hosts: names of those that run.
        option: names the lab's directory where that must be named.
    """
    crash = f"cobalt lab host crash {hosts[-1]}{option}" if hosts else ""
    evict = f"cobalt evict {hosts[0]} --watch" if hosts else ""
    client = f"OS_CLIENT_CONFIG_FILE={shlex.quote(str(clouds))} OS_CLOUD=admin"
    watch = "kubectl get hypervisors -o wide --watch"
    wanted = (watch, f"{client} openstack server list --long", evict, crash)
    return tuple(line for line in wanted if line)


def things_to_try(vms: Iterable[ListedVm], hosts: Sequence[str], option: str) -> tuple[str, ...]:
    """Commands that work on what there is.

    Args:
        vms: of all hosts.
        hosts: names of those that run.
        option: names the lab's directory where that must be named.
    """
    watch = "kubectl get hypervisors -o wide --watch"
    switches = "kubectl get ovsnodes -A"
    crash = (f"cobalt lab host crash {hosts[-1]}{option}",) if hosts else ()
    vm = next((vm for vm in vms if vm.title and vm.state == "running"), None)
    target = next((host for host in reversed(hosts) if vm and host != vm.host), None)
    if vm is None or target is None:
        return (watch, switches, f"cobalt lab vm add{option}", *crash)
    move = f"cobalt lab vm move {vm.name} {target} --slow 16{option}"
    evict = (f"cobalt evict {vm.host} --watch", f"cobalt resume {vm.host}")
    return (watch, switches, move, *evict, *crash)
