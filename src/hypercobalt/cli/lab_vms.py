"""`cobalt lab vm`: make, list, move and remove virtual machines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.lab_command import HERE, Data, run
from hypercobalt.cli.tables import table
from hypercobalt.lab.guest import console as guest_console
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Kind, Storage, VMRequest

vms_app = App(name="vm", help="Create, list, move and remove virtual machines.")

Name = Annotated[str, Parameter(help="Name of the VM.")]


def _on(data: Path, act: Callable[[Fleet], Awaitable[str]]) -> int:
    async def work() -> int:
        screen.show(await act(Fleet(Lab.find(data))))
        return 0

    return run(work())


@vms_app.command
def add(
    name: Name | None = None,
    /,
    *,
    host: str | None = None,
    kind: Kind = "linux",
    program: Program = "idle",
    memory_mib: int | None = None,
    disk: Storage | None = None,
    data: Data = HERE,
) -> int:
    """Start a VM and wait for its first line; without a name it is the next free vm-N.

    Parameters
    ----------
    host
        Where it starts; the host with the fewest VMs when not given.
    kind
        A small Linux, or a boot sector that takes milliseconds.
    program
        What a boot sector does.
    memory_mib
        Its memory; as the kind needs when not given.
    disk
        A disk that all hosts see, or one that its host alone sees.
    """

    async def act(fleet: Fleet) -> str:
        request = VMRequest(
            name=name, kind=kind, program=program, host=host, memory_mib=memory_mib, disk=disk
        )
        (made,) = await fleet.add(request)
        return f"VM {made.name} runs on {made.host} ({made.title})"

    return _on(data, act)


@vms_app.command(name="list")
def list_(*, data: Data = HERE) -> int:
    """List the VMs of all hosts."""

    async def act(fleet: Fleet) -> str:
        inventory = await fleet.inventory()
        rows = [(vm.name, vm.host, vm.state, vm.title) for vm in inventory.vms]
        rows += [("-", host, "silent", why) for host, why in inventory.silent.items()]
        return "\n".join(table(("NAME", "HOST", "STATE", "WHAT"), rows))

    return _on(data, act)


@vms_app.command
def remove(name: Name, /, *, data: Data = HERE) -> int:
    """Cut a VM's power and throw it away with its disk."""

    async def act(fleet: Fleet) -> str:
        await fleet.remove(name)
        return f"VM {name} is gone"

    return _on(data, act)


@vms_app.command
def start(name: Name, /, *, data: Data = HERE) -> int:
    """Start a VM that is off."""

    async def act(fleet: Fleet) -> str:
        await fleet.start(name)
        return f"VM {name} runs"

    return _on(data, act)


@vms_app.command
def stop(name: Name, /, *, data: Data = HERE) -> int:
    """Press a VM's power button, and wait until it is off."""

    async def act(fleet: Fleet) -> str:
        await fleet.stop(name)
        return f"VM {name} is off"

    return _on(data, act)


@vms_app.command
def move(
    name: Name,
    host: Annotated[str, Parameter(help="Target host.")],
    /,
    *,
    slow: Annotated[
        int | None, Parameter(help="MiB a second at most, to slow the move down.")
    ] = None,
    data: Data = HERE,
) -> int:
    """Migrate a running VM live to another host."""

    async def act(fleet: Fleet) -> str:
        await fleet.move(name, host, mib_per_second=slow)
        return f"VM {name} runs on {host}"

    return _on(data, act)


@vms_app.command
def console(name: Name, /, *, data: Data = HERE) -> int:
    """Show the output of a VM's serial port and follow it until Ctrl-C."""

    async def work() -> int:
        async for text in guest_console.follow(Fleet(Lab.find(data)).log(name)):
            screen.show_part(text)
        return 0

    return run(work())


@vms_app.command
def order(
    name: Name,
    what: Annotated[str, Parameter(help="Such as 'dirty 20', 'panic', 'hang', 'write-disk 4'.")],
    /,
    *arguments: str,
    data: Data = HERE,
) -> int:
    """Send an order to a Linux guest over its serial port; 'help' lists the orders."""

    async def act(fleet: Fleet) -> str:
        return guest_console.printable(await fleet.order(name, " ".join((what, *arguments))))

    return _on(data, act)
