"""`cobalt logs`: lines of a host's journal."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.cli import agents, api_command, exit_codes
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.log_lines import Lines
from hypercobalt.runtime.client.pinned import TimeOverError

_IDLE: Final = 40.0  # seconds of silence, without --follow
_SHORTEST: Final = 1.0  # seconds of a request that another one follows


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
        Go on with new lines, until Ctrl-C. The agent records it as a use each 10 minutes.
    lines
        The newest so many, at most 10000.
    since
        Only of the last 10m, 2h …, or since a time as 2026-01-31T12:00:00Z.
    """
    parameters = {"lines": str(lines), "follow": str(follow).lower()}
    parameters |= {name: text for name, text in (("unit", unit), ("since", since)) if text}
    idle = None if follow else _IDLE
    return api_command.run("logs", _logs(node, parameters, idle, kubeconfig))


async def _logs(
    node: str, parameters: dict[str, str], idle: float | None, kubeconfig: Path | None
) -> int:
    lines = Lines()
    while True:
        begun = monotonic()
        try:
            await _request(lines, node, parameters, idle, kubeconfig)
            break
        except TimeOverError:
            # A request to the agent has a time limit. The next one is reviewed and recorded again.
            seconds = monotonic() - begun
            if idle is not None or seconds < _SHORTEST:
                raise
            parameters = lines.resume(parameters, seconds)
    _show(lines.end())
    return 0


async def _request(
    lines: Lines,
    node: str,
    parameters: dict[str, str],
    idle: float | None,
    kubeconfig: Path | None,
) -> None:
    noticed = lines.notice
    async with agents.opened(
        Hypervisor, node, "logs", parameters, idle=idle, kubeconfig=kubeconfig
    ) as answer:
        async for chunk in answer.chunks:
            shown = lines.feed(chunk)
            if lines.notice != noticed:
                noticed = lines.notice
                exit_codes.print_error("logs", noticed)
            _show(shown)


def _show(text: str) -> None:
    print(text, end="", flush=True)
