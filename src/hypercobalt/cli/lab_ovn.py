"""`cobalt lab ovn`: break and repair OVN's databases and northd, which all hosts share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.lab_command import HERE, Data, changing, run
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.ovn import Central, Part

ovn_app = App(name="ovn", help="Break and repair OVN of the whole lab.")

Parts = Annotated[
    Part,
    Parameter(
        help="sb: southbound database, which the hosts read; nb: northbound database, which has "
        "the ports; northd: translates one into the other. All three when none is given."
    ),
]


def _on(
    data: Path,
    parts: tuple[Part, ...],
    act: Callable[[Central, tuple[Part, ...]], Awaitable[None]],
    done: str,
) -> int:
    async def work() -> int:
        chosen = tuple(part for part in Part if part in parts) or tuple(Part)
        with changing(data):
            await act(Lab.find(data).central, chosen)
        for part in chosen:
            screen.show(f"{part.full_name} {done.format(part=part)}")
        return 0

    return run(work())


@ovn_app.command
def stop(*parts: Parts, data: Data = HERE) -> int:
    """Kill processes of OVN: connections to them are refused."""
    done = "does not run; `cobalt lab ovn start {part}` starts it"
    return _on(data, parts, Central.stop, done)


@ovn_app.command
def hang(*parts: Parts, data: Data = HERE) -> int:
    """Stop processes of OVN where they are: they take connections and answer nothing."""
    done = "hangs; `cobalt lab ovn start {part}` continues it"
    return _on(data, parts, Central.hang, done)


@ovn_app.command
def start(*parts: Parts, data: Data = HERE) -> int:
    """Let go on what hangs, and start what does not run."""
    return _on(data, parts, Central.repair, "runs")
