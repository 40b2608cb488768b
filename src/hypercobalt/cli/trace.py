"""`cobalt trace`: what a host's switch would do with a packet."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from hypercobalt.cli import agents, api_command, switches
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.tables import Output, print_json
from hypercobalt.cli.trace_text import Hop, lines
from hypercobalt.cli.trace_words import onward_parameters, parameters
from hypercobalt.errors import HypercobaltError
from hypercobalt.ovs_agent.diagnostics.report import TraceReport
from hypercobalt.text import printable

PIPED: Final = 10_000
"""Width where no terminal cuts lines."""

MOST_HOSTS: Final = 4
"""Hosts that one packet is traced on: its own, a gateway's, the target's, and one more."""


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

    A packet that leaves by a tunnel of OVN is traced further on the host that receives it.

    Parameters
    ----------
    fields
        Of the packet, as `ip_dst=10.0.0.2` or `icmp`, or a whole flow of Open vSwitch with commas;
        each has a flag or goes here. An unknown one is refused with those that there are.
    from_
        Port that the packet comes in by: its name, number, iface-id, or its instance's UUID; for a
        tunnel also the chassis at its other end, with tun_id and tun_metadata0 as OVN sends them.
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
    return api_command.run("trace", _trace(node, fields, flags, output, kubeconfig, show_all=all_))


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
    query = parameters(fields, given)
    report = await _traced(node, query, kubeconfig)
    hops = await _followed(node, report, query.get("ct_next", "").split(), kubeconfig)
    if output == "json":
        print_json({**msgspec.to_builtins(report), "hops": msgspec.to_builtins(hops)})
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED
    for line in lines(report, width, hops=hops, show_all=show_all):
        print(printable(line))
    return 0


async def _traced(node: str, query: Mapping[str, str], kubeconfig: Path | None) -> TraceReport:
    return await agents.report(
        TraceReport, node, "trace", query, method="POST", kubeconfig=kubeconfig
    )


async def _followed(
    node: str, report: TraceReport, states: list[str], kubeconfig: Path | None
) -> tuple[Hop, ...]:
    """Trace a packet on the hosts that receive it, each by its own agent.

    Args:
        node: the first host.
        report: of its agent.
        states: answers of connection tracking; the next host takes those that a host has not used.
        kubeconfig: see `api_command.connection`.
    """
    hops: list[Hop] = []
    while (onward := report.onward) is not None:
        host = onward.host
        if len(hops) == MOST_HOSTS - 1:
            hops.append(Hop(host, problem=f"a packet is followed to {MOST_HOSTS} hosts at most"))
            break
        states = states[len(report.passes) - 1 :]
        given = {"ct_next": " ".join(states)} if states else {}
        try:
            query = onward_parameters(node, onward.parameters)
            host = node = await _node_of(onward.chassis, kubeconfig)
            report = await _traced(node, {**query, **given}, kubeconfig)
        except HypercobaltError as error:  # the reports of the hosts before stay valid
            hops.append(Hop(host, problem=str(error)))
            break
        hops.append(Hop(host, report))
    return tuple(hops)


async def _node_of(chassis: str, kubeconfig: Path | None) -> str:
    namespace = api_command.connection(kubeconfig).namespace
    async with api_command.client(kubeconfig) as kube:
        return (await switches.of_chassis(kube, namespace, chassis)).metadata.name
