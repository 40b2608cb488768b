"""`cobalt ovn`, and one bridge of `cobalt bridges`: what daemons show of themselves at an agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from hypercobalt.cli import agents, api_command, exit_codes
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.tables import Output, number, print_json, table
from hypercobalt.ovs_agent.diagnostics.report import BridgeReport, ControllerReport
from hypercobalt.text import printable

_LOCAL: Final = 65534
"""OpenFlow's number of a bridge's own port."""

_PARTS: Final = 10  # of ovn-controller's engine that are shown: those with the most recomputes


def ovn(node: Node, /, *, output: Output = "text", kubeconfig: Kubeconfig = None) -> int:
    """Show what ovn-controller of a host has bound and computed.

    Parameters
    ----------
    output
        text, or json: everything, with all parts of its work.
    """
    return api_command.run("ovn", _ovn(node, output, kubeconfig))


async def _ovn(node: str, output: str, kubeconfig: Path | None) -> int:
    report = await agents.report(ControllerReport, node, "ovn", kubeconfig=kubeconfig)
    return _printed("ovn", report, report.notes, _of_controller(report), output)


async def bridge(node: str, name: str, output: str, kubeconfig: Path | None) -> int:
    """Print one bridge of a host, as ovs-vswitchd runs it, and return the exit code."""
    parameters = {"bridge": name}
    report = await agents.report(BridgeReport, node, "bridge", parameters, kubeconfig=kubeconfig)
    return _printed("bridges", report, report.notes, bridge_lines(report), output)


def _printed(
    command: str, report: object, notes: Iterable[str], lines: Iterable[str], output: str
) -> int:
    if output == "json":
        print_json(report)
        return 0
    for note in notes:
        exit_codes.print_error(command, note)
    for line in lines:
        print(printable(line))
    return 0


def bridge_lines(report: BridgeReport) -> Iterator[str]:
    """A bridge as it is printed."""
    yield f"{report.name} on {report.datapath or 'no datapath'}"
    hits, missed = number(report.hits), number(report.missed)
    yield f"packets of the datapath: {hits} by a cached flow, {missed} without one"
    yield ""
    yield from table(
        ("PORT", "NUMBER", "IN DATAPATH", "TYPE", "OPTIONS"),
        (
            (
                one.name,
                "local" if one.ofport == _LOCAL else str(one.ofport),
                "-" if one.number is None else str(one.number),
                one.type or "-",
                one.options or "-",
            )
            for one in report.ports
        ),
    )
    yield ""
    for name, value in report.mac_counters.items():
        yield f"{name}: {value}"
    if report.macs:
        yield from table(
            ("MAC ADDRESS", "VLAN", "PORT", "AGE"),
            (
                (one.mac, str(one.vlan), one.port, "static" if one.age is None else f"{one.age} s")
                for one in report.macs
            ),
        )
    if (more := report.macs_total - len(report.macs)) > 0:
        yield f"and {more} more"


def _of_controller(report: ControllerReport) -> Iterator[str]:
    if report.connected is not None:
        paused = ", paused" if report.paused else ""
        yield f"{'connected' if report.connected else 'not connected'}{paused}"
        yield ""
    if report.bindings:
        zones = report.zones
        yield from table(
            ("INTERFACE", "LOGICAL PORT", "BOUND", "ZONE"),
            (
                (
                    one.interface or "-",
                    one.iface_id,
                    "yes" if one.ports else "no",
                    str(zones.get(one.iface_id, "-")),
                )
                for one in report.bindings
            ),
        )
        yield ""
    yield from table(
        ("COMPUTED", "IN FULL", "BY CHANGE", "ABORTED"),
        (
            (one.name, str(one.recompute), str(one.compute), str(one.abort))
            for one in report.engine[:_PARTS]
        ),
    )
    if (more := len(report.engine) - _PARTS) > 0:
        yield f"and {more} more (-o json has them)"
    if report.cache:
        shown = ", ".join(f"{name} {value}" for name, value in report.cache.items())
        yield f"cache of logical flows: {shown}"
