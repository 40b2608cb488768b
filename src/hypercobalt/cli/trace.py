"""`cobalt trace`: what a host's switch would do with a packet."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.cli import agents, asking
from hypercobalt.cli.asking import Kubeconfig, Node
from hypercobalt.cli.tables import Output, print_json
from hypercobalt.cli.trace_text import lines
from hypercobalt.cli.trace_words import parameters
from hypercobalt.operator.wording import printable
from hypercobalt.ovs_agent.diagnostics.report import TraceReport

PIPED = 10_000
"""Width where no terminal cuts lines."""


def trace(
    node: Node,
    /,
    *fields: str,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    to_mac: str | None = None,
    ip_src: str | None = None,
    ip_dst: str | None = None,
    tcp: int | None = None,
    udp: int | None = None,
    ct_next: Annotated[list[str] | None, Parameter(name="--ct-next")] = None,
    bridge: str | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Trace an imaginary packet through the switch of a host; nothing is sent.

    Parameters
    ----------
    fields
        Of the packet, as `ip_dst=10.0.0.2` or `icmp`, or a whole flow of Open vSwitch with commas;
        each has a flag or goes here. An unknown one is refused with those that there are.
    from_
        Port that the packet comes in by: its name, number, iface-id, or its instance's UUID.
    to
        Port that it is to reach, on any host: name or instance of this one, or an iface-id. It
        gives the addresses that are missing.
    to_mac
        Destination MAC address; else that of the target, or of the router on the way.
    ip_src
        Source IP address; else that of the port.
    ip_dst
        Destination IP address; else that of the target.
    tcp
        Destination port of TCP. Without a protocol the packet is a ping.
    udp
        Destination port of UDP.
    ct_next
        What connection tracking answers, as `est` or `new,rpl`, once for each time; else `new`.
    bridge
        That a port given by its number is on.
    all_
        Show every table, those that change nothing as well.
    output
        text, or json: everything that Open vSwitch and OVN have of it.
    """
    flags = {
        "from": from_,
        "to": to,
        "eth_dst": to_mac,
        "ip_src": ip_src,
        "ip_dst": ip_dst,
        "tcp_dst": tcp,
        "udp_dst": udp,
        "ct_next": " ".join(ct_next or ()) or None,
        "bridge": bridge,
    }
    return asking.run("trace", _trace(node, fields, flags, output, kubeconfig, show_all=all_))


async def _trace(
    node: str,
    fields: tuple[str, ...],
    flags: dict[str, str | int | None],
    output: str,
    kubeconfig: Path | None,
    *,
    show_all: bool,
) -> int:
    given = {name: str(value) for name, value in flags.items() if value is not None}
    asked = parameters(fields, given)
    body = await agents.whole(OVSNode, node, "trace", asked, method="POST", kubeconfig=kubeconfig)
    report = msgspec.json.decode(body, type=TraceReport)
    if output == "json":
        print_json(report)
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED
    for line in lines(report, width, show_all=show_all):
        print(printable(line))
    return 0
