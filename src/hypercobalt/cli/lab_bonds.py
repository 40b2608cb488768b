"""`cobalt lab bond`: break and repair the bond of a host, by its cables and by the rack."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.lab_command import HERE, Data, Name, changing, run
from hypercobalt.lab import bond
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.network.member_faults import MemberFault

bonds_app = App(name="bond", help="Break and repair the bond of a host.")

Member = Annotated[str | None, Parameter(help="Member of the bond; all when not given.")]


def _set(data: Data, name: str, member: str | None, fault: MemberFault | None) -> int:
    async def work() -> int:
        with changing(data):
            host = Lab.find(data).host(name)
            await bond.set_faults(host, (member,) if member else (), fault)
        screen.show(f"bond {bond.BOND} of {name}: {bond.described(host)}")
        return 0

    return run(work())


@bonds_app.command
def unplug(name: Name, member: Member = None, /, *, data: Data = HERE) -> int:
    """Pull the cable of a member: no link at either end."""
    return _set(data, name, member, MemberFault.UNPLUGGED)


@bonds_app.command
def silence(name: Name, member: Member = None, /, *, data: Data = HERE) -> int:
    """Have the rack ignore a member: the link is up, LACP gets no answer, nothing is forwarded."""
    return _set(data, name, member, MemberFault.SILENT)


@bonds_app.command
def repair(name: Name, member: Member = None, /, *, data: Data = HERE) -> int:
    """Put the cable of a member back in, and have the rack answer."""
    return _set(data, name, member, None)
