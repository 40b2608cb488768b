"""`cobalt network check`, `cobalt bridges`, `cobalt bonds`: the switches, by their OVSNodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cyclopts import App

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.ovsnode import Bond, Bridge, OVSNode, OVSNodeConditionType
from hypercobalt.cli import api_command, exit_codes, ovn, switches
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.tables import Output, number, print_json, print_table, table
from hypercobalt.errors import InvalidRequestError
from hypercobalt.operator.network.fleet_check import FleetFinding
from hypercobalt.operator.network.fleet_check import check as compare
from hypercobalt.operator.shared.wording import count
from hypercobalt.runtime import SystemClock
from hypercobalt.text import printable
from hypercobalt.views.explain.model import age

FOUND: Final = 1
NOT_CHECKED: Final = 2

app = App(name="network", help="The hosts' switches.")


@app.command
def check(*, output: Output = "text", kubeconfig: Kubeconfig = None) -> int:
    """Compare the OVSNodes of all hosts: addresses, tunnels, versions, bridge mappings.

    Exit codes: 0 they fit together; 1 something does not; 2 they cannot be read, or there are none;
    130 interrupted.

    Parameters
    ----------
    output
        text, or json: a list with one item for each finding.
    """
    return api_command.run("network check", _check(output, kubeconfig), unavailable=NOT_CHECKED)


def bridges(
    node: Node,
    bridge: str | None = None,
    /,
    *,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show the bridges of a host.

    Parameters
    ----------
    bridge
        One of them, as its agent reads it now: ports in the datapath, and MAC addresses.
    output
        text, or json: as the OVSNode has them, or all that the agent reads of one.
    """
    if bridge:
        return api_command.run("bridges", ovn.bridge(node, bridge, output, kubeconfig))
    return api_command.run("bridges", _bridges(node, output, kubeconfig))


def bonds(node: Node, /, *, output: Output = "text", kubeconfig: Kubeconfig = None) -> int:
    """Show the bonds of a host and their members.

    Parameters
    ----------
    output
        text, or json: as the OVSNode has them.
    """
    return api_command.run("bonds", _bonds(node, output, kubeconfig))


async def _check(output: str, kubeconfig: Path | None) -> int:
    namespace = api_command.connection(kubeconfig).namespace
    async with api_command.client(kubeconfig) as kube:
        compared = await switches.listed(kube, namespace)
    if not compared:
        raise InvalidRequestError("there are no OVSNodes; no OVS agent reports here")
    found = compare(compared)
    if output == "json":
        print_json(found)
    else:
        for line in _report(found, len(compared)):
            print(printable(line))
    return FOUND if found else 0


def _report(found: Sequence[FleetFinding], hosts: int) -> Iterable[str]:
    if found:
        yield from table(("FINDING", "WHAT"), ((one.code, one.message) for one in found))
        yield ""
    yield f"{count(hosts, 'host')}, {count(len(found), 'finding')}"


async def _bridges(node: str, output: str, kubeconfig: Path | None) -> int:
    switch = await _switch("bridges", node, kubeconfig)
    found = switch.status.bridges
    if output == "json":
        print_json(found)
        return 0
    print_table(("NAME", "STATUS", "DATAPATH", "PORTS", "FLOWS"), map(_of_bridge, found))
    if (counted := switch.status.lastProbeTime) is not None:
        print(f"Counted {age(counted, SystemClock().now())} ago")
    return 0


async def _bonds(node: str, output: str, kubeconfig: Path | None) -> int:
    switch = await _switch("bonds", node, kubeconfig)
    links = switch.status.interfaces
    found = links.bonds if links is not None else ()
    if output == "json":
        print_json(found)
        return 0
    members = {
        bond.name: ",".join(
            f"{one.name} ({one.status or 'Unknown'})"
            for one in (links.physical if links is not None else ())
            if one.bond == bond.name
        )
        for bond in found
    }
    rows = ((*_of_bond(bond), members[bond.name]) for bond in found)
    print_table(("NAME", "STATUS", "MODE", "ACTIVE", "MEMBERS"), rows)
    return 0


def _of_bridge(bridge: Bridge) -> tuple[str, ...]:
    return (
        bridge.name,
        bridge.status or "",
        bridge.datapathType or "",
        number(bridge.ports),
        number(bridge.flows),
    )


def _of_bond(bond: Bond) -> tuple[str, ...]:
    active = f"{number(bond.activeMembers)}/{number(bond.members)}"
    return bond.name, bond.status or "", bond.mode or "", active


async def _switch(command: str, node: str, kubeconfig: Path | None) -> OVSNode:
    """The OVSNode of a host; that its agent is not known to live is printed beside it."""
    namespace = api_command.connection(kubeconfig).namespace
    async with api_command.client(kubeconfig) as kube:
        found = await switches.of_host(kube, namespace, node)
    ready = get_condition(found.status.conditions, OVSNodeConditionType.READY)
    if ready is None or ready.status == "Unknown":
        text = (
            f"{node} is shown as it was reported last: {ready.message}"
            if ready
            else (f"the OVS agent of {node} has not reported yet")
        )
        exit_codes.print_error(command, text)
    return found
