"""`cobalt ports`: the ports of a host's switch, as its agent reads them now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hypercobalt.cli import agents, api_command, exit_codes
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.tables import Output, number, print_json, print_table
from hypercobalt.ovs_agent.diagnostics.report import PortReport, PortsReport
from hypercobalt.text import printable

_LOCAL: Final = 65534
"""OpenFlow's number of a bridge's own port."""
_DRIVER: Final = ("driver_name", "numa_id", "n_rxq", "n_txq", "mode", "status", "socket")
"""Keys of a port's status that are shown: a driver's, DPDK's, and those of vhost-user."""
_HEAD: Final = (
    *("BRIDGE", "PORT", "NUMBER", "LINK", "TYPE", "BELONGS TO"),
    *("RECEIVED", "SENT", "LOST", "ISSUES"),
)


def ports(
    node: Node,
    port: str | None = None,
    /,
    *,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show the ports of a host: links, instances, packets, issues.

    Parameters
    ----------
    port
        One of them, with all that is known of it: its name, number, iface-id, or its instance's
        UUID.
    output
        text, or json: everything, with all counters.
    """
    return api_command.run("ports", _ports(node, port, output, kubeconfig))


async def _ports(node: str, port: str | None, output: str, kubeconfig: Path | None) -> int:
    parameters = {"port": port} if port else {}
    report = await agents.report(PortsReport, node, "ports", parameters, kubeconfig=kubeconfig)
    if output == "json":
        print_json(report)
        return 0
    for note in report.notes:
        exit_codes.print_error("ports", note)
    if port:
        for line in (line for one in report.ports for line in details(one)):
            print(printable(line))
    else:
        print_table(_HEAD, map(row, report.ports))
    return 0


def row(port: PortReport) -> tuple[str, ...]:
    """A port's line in the table."""
    count = port.counters
    return (
        port.bridge,
        port.name,
        number(port.ofport),
        _link(port),
        port.type,
        port.instance or port.iface_id or port.remote or port.bond or "-",
        number(count.get("rx_packets")),
        number(count.get("tx_packets")),
        number(_lost(count)) if count else "?",
        ",".join(port.issues) or "-",
    )


def details(port: PortReport) -> Iterator[str]:
    """All that is known of a port, a line each."""
    shown = {
        "port": f"{port.name} on {port.bridge}",
        "number": "local" if port.ofport == _LOCAL else number(port.ofport),
        "link": _link(port),
        "type": port.type,
        "driver": ", ".join(f"{key} {port.status[key]}" for key in _DRIVER if key in port.status),
        "bond": port.bond,
        "other end": port.remote,
        "MTU": number(port.mtu),
        "MAC address": port.mac,
        "VLAN": "" if port.tag is None else str(port.tag),
        "instance": port.instance,
        "logical port": port.iface_id,
        "flows of OVN": _installed(port),
        "received": _traffic(port.counters, "rx"),
        "sent": _traffic(port.counters, "tx"),
        "mirrored to": ", ".join(port.mirrored_to),
        "issues": ", ".join(port.issues) or "none",
    }
    for name, value in shown.items():
        if value:
            yield f"{name:<14}{value}"
    for flow in port.flows or ():
        yield (
            f"{'table 0':<14}priority {flow.priority}, cookie {flow.cookie}: {flow.packets} packets"
        )
    if port.flows == () and port.ofport != _LOCAL and port.type != "patch":
        yield f"{'table 0':<14}no flow matches its packets"


def _link(port: PortReport) -> str:
    if port.error or port.ofport is None or port.ofport < 0:
        return f"error: {port.error}" if port.error else "error"
    if port.admin_up is False:
        return "off"
    if port.link_up is None:
        return "?"
    return "up" if port.link_up else "down"


def _installed(port: PortReport) -> str:
    if port.installed is None:
        return ""
    return "installed" if port.installed else "not installed"


def _lost(count: dict[str, int]) -> int:
    kinds = ("dropped", "errors")
    return sum(count.get(f"{way}_{kind}", 0) for way in ("rx", "tx") for kind in kinds)


def _traffic(count: dict[str, int], way: str) -> str:
    if f"{way}_packets" not in count:
        return ""
    kinds = ("packets", "bytes", "dropped", "errors")
    return ", ".join(f"{count.get(f'{way}_{kind}', 0)} {kind}" for kind in kinds)
