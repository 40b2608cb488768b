"""One trace: finds the ports, completes the packet, has it traced, and names the flows.

Source: docs/decisions/0036.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from hypercobalt.adapters.ovn.logical import Explained, LogicalPort, Wanted
from hypercobalt.adapters.ovs.packet import (
    FIELDS,
    InvalidPacketError,
    Packet,
    parse_packet,
    parse_states,
)
from hypercobalt.adapters.ovs.port import ProducerFault, Switch, SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.traced import Trace, TracedStep
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.ovs_agent.diagnostics.completing import Ends, completed
from hypercobalt.ovs_agent.diagnostics.lookup import (
    TUNNELS,
    InterfacePlace,
    chassis_of,
    find_port,
    matching,
    ofport_of,
    places,
)
from hypercobalt.ovs_agent.diagnostics.onward import onward
from hypercobalt.ovs_agent.diagnostics.report import (
    LogicalStep,
    TraceAction,
    TracePass,
    TraceReport,
    TraceStep,
)
from hypercobalt.ovs_agent.diagnostics.verdict import metadata_of, network_of, verdict
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.ovn_settings import OvnSettings
from hypercobalt.ovs_agent.rules.findings import plain

PARAMETERS: Final = frozenset({"from", "to", "bridge", "ct_next", *FIELDS})
"""What a request may have: both ends, connection tracking's answers, and fields of the packet."""

NAMING: Final = 4.0
"""Seconds for all reads of the southbound database; a trace without names is of use too."""

MOST_NAMED: Final = 2_000
"""Steps of a pass that have their logical flow; a packet of OVN takes some hundred."""

LONGEST: Final = 2_000
"""Characters of a logical flow's match and actions: an address set may be spelled out in them."""

T = TypeVar("T")
Value = TypeVar("Value")


async def trace(switch: Switch, facts: SwitchFacts, parameters: Mapping[str, str]) -> TraceReport:
    """Trace a packet.

    Args:
        switch: of this host.
        facts: of now.
        parameters: values by name in PARAMETERS.

    Raises:
        RefusedUseError: a value is invalid, or names nothing; the message has the remedy.
        SwitchError: ovsdb-server or ovs-vswitchd does not answer, or the trace is too long.
    """
    database = rows_of(facts)
    settings = facts.ovn
    source = find_port(database, parameters.get("from", ""), parameters.get("bridge", ""))
    ofport, states = ofport_of(source), _read(parse_states, parameters.get("ct_next", ""))
    given = {name: value for name, value in parameters.items() if name in FIELDS}
    _read(_checked, given)
    _check_tunnel(source, given)
    south = _Southbound(switch, settings)
    with suppress(TimeoutError):
        async with asyncio.timeout(NAMING):
            await south.look_up(database, source, parameters.get("to", ""), given)
    fields = completed(given, south.ends(source))
    packet = _read(parse_packet, fields)
    found = await switch.trace(source.bridge.name, ofport, packet, states)
    explained = Explained()
    with suppress(TimeoutError):
        async with asyncio.timeout(NAMING):
            explained = await south.explain(_wanted(found, database, settings.bridge))
    judged = verdict(found, database, explained, facts.links.proven)
    return TraceReport(
        judged.outcome,
        judged.text,
        source.bridge.name,
        source.row.name,
        packet.text(ofport),
        south.unknown,
        passes_of(found, explained),
        onward(found, database, explained, fields, settings.system_id),
    )


def rows_of(facts: SwitchFacts) -> Database:
    """The database with what ovs-vswitchd writes into it, proven by both daemons.

    Raises:
        SwitchError: one of them does not answer.
    """
    if (database := facts.effective) is not None:
        return database
    for reading in (facts.database, facts.vswitchd):
        if reading.is_down:
            raise SwitchError(reading.fault or ProducerFault.TIMEOUT, reading.message)
    raise SwitchError(
        ProducerFault.TIMEOUT, "the switch is not read yet; try again in a few seconds"
    )


class _Southbound:
    """The southbound database for one trace; after a failure it is not read again."""

    def __init__(self, switch: Switch, settings: OvnSettings) -> None:
        self._switch, self._settings = switch, settings
        self.unknown = "" if settings.is_configured else "OVN is not configured on this host"
        self._source: LogicalPort | None = None
        self._target: LogicalPort | None = None
        self._gateways: tuple[LogicalPort, ...] = ()

    async def look_up(
        self, database: Database, source: InterfacePlace, to: str, given: Mapping[str, str]
    ) -> None:
        """Read the logical ports of both ends, and the routers if one is needed.

        Raises:
            RefusedUseError: the target is no port, or the southbound database cannot be read.
        """
        iface_id = source.row.external_ids.get("iface-id", "")
        if iface_id:
            self._source = await self._port(iface_id)
        if to:
            self._target = await self._reach(database, to)
        target = self._target.datapath if self._target else ""
        if self._source and "eth_dst" not in given and target != self._source.datapath:
            datapath = self._source.datapath
            remote, tls = self._settings.remote, self._settings.tls
            found = await self._read_southbound(self._switch.gateways(remote, datapath, tls))
            self._gateways = found or ()

    async def _reach(self, database: Database, to: str) -> LogicalPort:
        """The target, which may be on another host."""
        local = matching(places(database), to)
        if len(local) > 1:
            find_port(database, to, parameter="to")  # raises, and names them
        name = local[0].row.external_ids.get("iface-id", "") if local else to
        if not name:
            raise RefusedUseError(f"to {local[0].row.name}: has no iface-id; give eth_dst instead")
        found = await self._port(name)
        if found is not None:
            return found
        if self.unknown:
            raise RefusedUseError(
                f"to {to!r} cannot be looked up, give eth_dst and ip_dst: {self.unknown}"
            )
        raise RefusedUseError(
            f"to {to!r} is not a port of this host, by name, number, iface-id or instance, nor a "
            "logical port of OVN"
        )

    def ends(self, source: InterfacePlace) -> Ends:
        """What is known of both ends."""
        mac = source.row.external_ids.get("attached-mac", "").lower()
        return Ends(self._source, mac, self._target, self._gateways, self.unknown)

    async def explain(self, wanted: Wanted) -> Explained:
        """Names of what the trace has passed; none without the database."""
        remote, tls = self._settings.remote, self._settings.tls
        found = await self._read_southbound(self._switch.explain(remote, wanted, tls))
        return found or Explained()

    async def _port(self, name: str) -> LogicalPort | None:
        remote, tls = self._settings.remote, self._settings.tls
        return await self._read_southbound(self._switch.logical_port(remote, name, tls))

    async def _read_southbound(self, call: Coroutine[None, None, T]) -> T | None:
        if self.unknown:
            call.close()
            return None
        self.unknown = "the southbound database does not answer in time"  # until it has
        try:
            found = await call
        except SwitchError as error:
            self.unknown = f"the southbound database cannot be read: {error}"
            return None
        self.unknown = ""
        return found


def _checked(given: Mapping[str, str]) -> Packet:
    """Refuse a field before anything is read; a protocol may still be added."""
    return parse_packet(given)


def _check_tunnel(source: InterfacePlace, given: Mapping[str, str]) -> None:
    """Refuse fields of a tunnel on a port that is none."""
    of_tunnel = sorted(name for name in given if name.startswith("tun_"))
    if of_tunnel and source.row.type not in TUNNELS:
        raise RefusedUseError(
            f"{of_tunnel[0]} needs a tunnel, and port {source.row.name} is none: set `from` to the "
            "name of a tunnel's port, or to the chassis that the tunnel leads to"
        )


def _read(parse: Callable[[T], Value], given: T) -> Value:
    try:
        return parse(given)
    except InvalidPacketError as error:
        raise RefusedUseError(str(error)) from error


def _wanted(found: Trace, database: Database, bridge: str) -> Wanted:
    steps = [step for one in found.passes for step in one.steps if step.bridge == bridge]
    tunnels = (place for place in places(database) if place.row.type in TUNNELS)
    text = "\n".join(action.text for step in steps for action in step.actions)
    return Wanted(
        frozenset(step.cookie for step in steps if step.cookie),
        frozenset(key for key in map(metadata_of, steps) if key is not None),
        frozenset(chassis_of(one)[0] for one in tunnels if one.row.name in text) - {""},
    )


def passes_of(found: Trace, explained: Explained) -> tuple[TracePass, ...]:
    """A trace as it is sent, with the names that are known."""
    return tuple(
        TracePass(
            one.resumed,
            one.flow,
            tuple(
                _step(step, explained if number < MOST_NAMED else Explained())
                for number, step in enumerate(one.steps)
            ),
            one.final_flow,
            one.megaflow,
            one.datapath_actions,
            one.remarks,
        )
        for one in found.passes
    )


def _step(step: TracedStep, explained: Explained) -> TraceStep:
    flow = explained.flows.get(step.cookie) if step.cookie else None
    logical = None
    if flow is not None:
        logical = LogicalStep(
            flow.stage,
            flow.pipeline,
            flow.table,
            flow.priority,
            plain(flow.match, LONGEST),
            plain(flow.actions, LONGEST),
            flow.hint,
        )
    return TraceStep(
        step.bridge,
        step.table,
        step.match,
        step.priority,
        f"{step.cookie:#x}" if step.cookie else "",
        tuple(TraceAction(one.text, one.notes, one.errors) for one in step.actions),
        network_of(step, explained),
        logical,
        explained.ports.get(step.cookie, "") if step.cookie else "",
    )
