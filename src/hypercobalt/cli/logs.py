"""`cobalt logs`: lines of a host's journal."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.cli import agents, asking
from hypercobalt.cli.asking import Kubeconfig, Node

_IDLE: Final = 40.0  # seconds of silence, without --follow


def logs(
    node: Node,
    /,
    *,
    unit: Annotated[str, Parameter(name=["--unit", "-u"])] = "",
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    lines: Annotated[int, Parameter(name=["--lines", "-n"])] = 200,
    since: str = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show lines of a host's journal, of the services that carry instances.

    Parameters
    ----------
    unit
        libvirtd, virtqemud, virtlogd, openvswitch-switch, ovs-vswitchd, ovsdb-server,
        ovn-controller, hypercobalt-node-agent, hypercobalt-ovs-agent or kernel; else all of them
        but kernel.
    follow
        Go on with new lines, for 10 minutes at most.
    lines
        The newest so many, at most 10000.
    since
        Only of the last 10m, 2h …, or since a time as 2026-01-31T12:00:00Z.
    """
    parameters = {"lines": str(lines), "follow": str(follow).lower()}
    parameters |= {name: text for name, text in (("unit", unit), ("since", since)) if text}
    idle = None if follow else _IDLE
    return asking.run("logs", _logs(node, parameters, idle, kubeconfig))


async def _logs(
    node: str, parameters: dict[str, str], idle: float | None, kubeconfig: Path | None
) -> int:
    text = Text()
    async with agents.opened(
        Hypervisor, node, "logs", parameters, idle=idle, kubeconfig=kubeconfig
    ) as answer:
        async for chunk in answer.chunks:
            print(text.feed(chunk), end="", flush=True)
    print(text.feed(b"", final=True), end="", flush=True)
    return 0


class Text:
    """Makes text for a terminal out of what a journal holds: no character in it is obeyed."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text so far; a character that is cut off waits for its rest."""
        text = self._decoder.decode(data, final)
        return "".join(one if one in "\n\t" or one.isprintable() else "?" for one in text)
