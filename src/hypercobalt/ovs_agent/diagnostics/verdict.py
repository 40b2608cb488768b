"""What becomes of a traced packet, in one line. Pure.

Where it goes is read from the actions of the tables, which name ports; the datapath's actions name
the tunnels' own device instead, and nothing at all for a packet that goes to ovn-controller. Only
what a bridge does as a plain switch (NORMAL) is read from the datapath's.

Source: ovs-actions(7); Open vSwitch's ofproto/ofproto-dpif-xlate.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hypercobalt.adapters.ovn.logical import Explained, LogicalFlow
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.traced import Action, Pass, Trace, TracedStep
from hypercobalt.ovs_agent.diagnostics.lookup import TUNNELS, InterfacePlace, chassis_of, places
from hypercobalt.ovs_agent.diagnostics.report import TraceOutcome
from hypercobalt.ovs_agent.rules.findings import plain
from hypercobalt.ovs_agent.rules.uplinks import is_uplink

OUTPUT: Final = re.compile(r'^output:"?([^"]+)"?$')
_AS_SWITCH: Final = frozenset({"NORMAL", "FLOOD", "ALL"})
_TO_CONTROLLER: Final = ("controller(", "CONTROLLER:")
_METADATA: Final = re.compile(r"(?:^|,)metadata=(0x[0-9a-f]{1,16})(?:,|$)")
_VIA: Final = re.compile(r"^tunneling to \S+ via (\S+)$")
_SHOWN: Final = 5
LONGEST: Final = 500
"""Characters of a logical flow's match in a verdict."""

MEANINGS: Final = (
    (re.compile(r"port_sec"), "port security: its addresses are not those of the port"),
    (re.compile(r"_acl"), "an ACL or security group"),
    (re.compile(r"ls_in_l2_unknown"), "the network has no port with its destination MAC address"),
    (re.compile(r"lr_in_ip_routing"), "the router has no route"),
    (re.compile(r"lr_in_admission"), "its destination MAC address is not the router's"),
    (re.compile(r"lr_in_arp_re"), "the router does not know the next hop's MAC address"),
)
"""What a drop means, by the name of the stage."""


@dataclass(frozen=True, slots=True)
class TraceVerdict:
    """What becomes of the packet, in a word and in a line."""

    outcome: TraceOutcome
    text: str


@dataclass(frozen=True, slots=True)
class _End:
    """One place where the packet goes: whether it arrives, and how that reads."""

    arrives: bool
    is_here: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """What names of ports mean."""

    places: Mapping[str, InterfacePlace]
    explained: Explained
    links: Mapping[str, Link] | None


def verdict(
    trace: Trace, database: Database, explained: Explained, links: Mapping[str, Link] | None = None
) -> TraceVerdict:
    """Judge a trace.

    Args:
        trace: of ovs-vswitchd.
        database: rows.
        explained: names that the southbound database has.
        links: devices of the kernel; None when they cannot be read.
    """
    seen = _Seen({place.row.name: place for place in places(database)}, explained, links)
    ends = [end for one in trace.passes for end in _ends(one, seen)]
    arriving = list(dict.fromkeys(end for end in ends if end.arrives))
    if arriving:
        texts = [end.text for end in arriving]
        more = f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        where = ", ".join(texts[:_SHOWN]) + more
        if any(end.is_here for end in arriving):
            return TraceVerdict(TraceOutcome.DELIVERED, f"delivered {where}")
        return TraceVerdict(TraceOutcome.SENT, f"sent {where}")
    if (taken := _taken(trace)) is not None:
        return TraceVerdict(
            TraceOutcome.CONTROLLER, f"handed to ovn-controller {_in_table(taken, explained)}"
        )
    if ends:
        return TraceVerdict(TraceOutcome.DROPPED, f"dropped: {ends[-1].text}")
    return TraceVerdict(TraceOutcome.DROPPED, _dropped(trace, explained))


def _ends(one: Pass, seen: _Seen) -> Iterator[_End]:
    below: set[str] = set()  # bridges that carry tunnels: their own outputs are the tunnels'
    as_switch = False
    named: set[str] = set()
    for step in one.steps:
        for action in step.actions:
            below |= {found[1] for note in action.notes if (found := _VIA.match(note))}
            as_switch = as_switch or action.text in _AS_SWITCH
            found = OUTPUT.match(action.text)
            name = (step.bridge if found[1] == "LOCAL" else found[1]) if found else ""
            if name and _is_end(seen.places.get(name)):
                named.add(name)
                yield _end(name, action, seen)
    for name in _words(one.datapath_actions) if as_switch else ():
        place = seen.places.get(name)
        if place is not None and name not in named and place.bridge.name not in below:
            yield _end(name, Action(""), seen)


def _is_end(place: InterfacePlace | None) -> bool:
    """Whether a packet ends here; behind a patch it goes on."""
    return place is None or place.row.type != "patch"


def _end(name: str, action: Action, seen: _Seen) -> _End:
    place = seen.places.get(name)
    if place is None:
        is_out, where = False, f"to port {name}"
    elif place.row.type in TUNNELS:
        is_out, where = True, _tunnel(place, seen.explained)
    else:
        is_out = name != place.bridge.name and is_uplink(place.row, seen.links)
        where = f"out of uplink {name} of {place.bridge.name}" if is_out else _port(place)
    if action.errors:
        return _End(arrives=False, is_here=False, text=f"output {where} fails: {action.errors[0]}")
    return _End(arrives=True, is_here=not is_out, text=where)


def _tunnel(place: InterfacePlace, explained: Explained) -> str:
    chassis, address = chassis_of(place)
    host = explained.hosts.get(chassis) or chassis
    far = f"host {host} ({address})" if host else address
    return f"to {far} by tunnel {place.row.name}"


def _port(place: InterfacePlace) -> str:
    row = place.row
    down = ", whose link is down" if row.link_up is False else ""
    if row.name == place.bridge.name:
        return f"to this host itself, by {row.name}{down}"
    owner = f" of {place.bridge.name}"
    if instance := row.instance:
        owner = f" (instance {instance})"
    elif iface_id := row.external_ids.get("iface-id"):
        owner = f" (logical port {iface_id})"
    return f"to {row.name}{owner}{down}"


def _taken(trace: Trace) -> TracedStep | None:
    """The last table that hands the packet to ovn-controller."""
    steps = [step for one in trace.passes for step in one.steps]
    for step in reversed(steps):
        if any(action.text.startswith(_TO_CONTROLLER) for action in step.actions):
            return step
    return None


def _dropped(trace: Trace, explained: Explained) -> str:
    """Return where the packet is dropped: in the last table, which nothing follows."""
    last = next((one.steps[-1] for one in reversed(trace.passes) if one.steps), None)
    if last is None:
        return "dropped"
    return f"dropped {_in_table(last, explained)}"


def _in_table(step: TracedStep, explained: Explained) -> str:
    flow = explained.flows.get(step.cookie) if step.cookie else None
    if flow is not None:
        network = network_of(step, explained)
        stage = f"{flow.stage or f'table {flow.table}'}{f' of {network}' if network else ''}"
        meaning = next((text for name, text in MEANINGS if name.search(flow.stage)), "")
        why = f" ({meaning})" if meaning and _is_drop(flow) else ""
        match = "" if flow.match == "1" else f": {plain(flow.match, LONGEST)}"
        return f"in table {step.table}, {stage}{why}{match}"
    if step.priority is None:
        return f"in table {step.table} of {step.bridge}: no flow matches"
    cookie = f", cookie {step.cookie:#x}" if step.cookie else ""
    match = step.match or "any packet"
    return f"in table {step.table} of {step.bridge} by priority {step.priority}{cookie}: {match}"


def _is_drop(flow: LogicalFlow) -> bool:
    return flow.actions.strip() in {"drop;", "/* drop */"} or flow.actions.startswith("drop")


def metadata_of(step: TracedStep) -> int | None:
    """The tunnel key of the switch or router that a flow is for."""
    found = _METADATA.search(step.match)
    return int(found[1], 16) if found else None


def network_of(step: TracedStep, explained: Explained) -> str:
    """The switch or router that a flow is for, as `switch net`; "" if unknown."""
    key = metadata_of(step)
    datapath = explained.datapaths.get(key) if key is not None else None
    if datapath is None:
        return ""
    return f"{'router' if datapath.is_router else 'switch'} {datapath.name}"


def _words(actions: str) -> list[str]:
    """Actions of the datapath that are names of ports: words that stand in no brackets."""
    depth, words = 0, [""]
    for character in actions:
        if character == "," and not depth:
            words.append("")
            continue
        depth += {"(": 1, ")": -1}.get(character, 0)
        words[-1] += character
    return [word.strip('"') for word in words]
