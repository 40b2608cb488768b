"""What is polled, how often, and when it is of use.

Periods follow from what each answer costs and how fast it must show: ovs-vswitchd answers on the
thread that forwards, one request at a time, so what it alone has is read when rows have changed,
and seldom otherwise.

Source: docs/decisions/0032.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final, Protocol, TypeVar

from hypercobalt.adapters.ovs.model import (
    ControllerStart,
    Daemon,
    DaemonName,
    Flow,
    FlowCounts,
    Southbound,
)
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.ovs_agent import flow_scan, sources
from hypercobalt.ovs_agent.facts import (
    Reading,
    SwitchFacts,
    interfaces_of,
    sample_of,
    with_vswitchd,
)
from hypercobalt.ovs_agent.flow_scan import TableScan
from hypercobalt.ovs_agent.observing import SwitchObserver, SwitchProbe
from hypercobalt.ovs_agent.rules.bonds import has_member_coming
from hypercobalt.ovs_agent.rules.controller import TUNNELS
from hypercobalt.ovs_agent.rules.counters import traffic
from hypercobalt.ovs_agent.rules.evidence import EvidenceSource
from hypercobalt.ovs_agent.rules.flows import integration_bridge
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from hypercobalt.runtime import Clock

T = TypeVar("T")

ALIVE: Final = timedelta(seconds=3)
SHAPE: Final = timedelta(seconds=15)
SCAN: Final = timedelta(seconds=10)
COUNTS: Final = timedelta(seconds=27)
TRAFFIC: Final = timedelta(seconds=55)

MOST_FLOWS: Final = 15_000
"""Flows of table 0, which has about one for each port and each tunnel: these take 40 ms of CPU of
this process, and ovs-vswitchd does nothing else for 25 ms."""


class _Poll(Protocol):
    """Has a probe run for as long as the agent."""

    def __call__(self, probe: SwitchProbe[T], /) -> None: ...


def begin(
    tasks: asyncio.TaskGroup,
    switch: Switch,
    observer: SwitchObserver,
    settings: OVSAgentSettings,
    clock: Clock,
) -> None:
    """Have everything polled that the rules need."""

    def poll(probe: SwitchProbe[T]) -> None:
        tasks.create_task(observer.poll(probe), name=f"poll-{probe.name}")

    _daemons(poll, switch)
    _of_vswitchd(poll, switch)
    _of_controller(poll, switch, observer)
    if settings.southbound_probe:
        observer.update(lambda facts: replace(facts, probes_southbound=True))
        poll(_southbound(switch, observer, settings.southbound_probe))
    _of_kernel(poll, switch)
    poll(_traffic(switch, observer, clock))
    poll(_flow_counts(switch, observer, clock))
    poll(_scan(switch, observer, clock))


def _daemons(poll: _Poll, switch: Switch) -> None:
    vswitchd = SwitchProbe(
        DaemonName.VSWITCHD,
        ALIVE,
        lambda: switch.daemon(DaemonName.VSWITCHD),
        lambda facts: facts.vswitchd,
        with_vswitchd,
    )
    controller = SwitchProbe(
        DaemonName.OVN_CONTROLLER,
        ALIVE,
        lambda: switch.daemon(DaemonName.OVN_CONTROLLER),
        lambda facts: facts.ovn_controller,
        _with_controller,
        source=sources.ovn,
    )
    server = SwitchProbe(
        DaemonName.OVSDB_SERVER,
        COUNTS,
        lambda: switch.daemon(DaemonName.OVSDB_SERVER),
        lambda facts: facts.ovsdb_server,
        lambda facts, reading: replace(facts, ovsdb_server=reading),
        source=lambda database: database.schema_version,
    )
    for probe in (vswitchd, controller, server):
        poll(probe)


def _with_controller(facts: SwitchFacts, reading: Reading[Daemon]) -> SwitchFacts:
    before, after = facts.ovn_controller.value, reading.value
    if before is None or after is None or before.run == after.run:
        return replace(facts, ovn_controller=reading)
    return replace(facts, ovn_controller=reading, controller=Reading(), bindings=Reading())


def _of_vswitchd(poll: _Poll, switch: Switch) -> None:
    running = SwitchProbe(
        EvidenceSource.BRIDGES,
        SHAPE,
        switch.bridges,
        lambda facts: facts.running,
        lambda facts, reading: replace(facts, running=reading),
        source=sources.bridges,
    )
    bonds = SwitchProbe(
        EvidenceSource.BONDS,
        SHAPE,
        switch.bonds,
        lambda facts: facts.bonds,
        lambda facts, reading: replace(facts, bonds=reading),
        wanted=lambda facts: not facts.is_idle,
        source=sources.bond_members,
        unsettled=has_member_coming,
    )
    poll(running)
    poll(bonds)


def _of_controller(poll: _Poll, switch: Switch, observer: SwitchObserver) -> None:
    state = SwitchProbe(
        "controller",
        ALIVE,
        switch.controller,
        lambda facts: facts.controller,
        lambda facts, reading: replace(facts, controller=reading),
        wanted=lambda facts: facts.ovn_controller.proven is not None,
        source=sources.ovn,
    )

    async def read_start() -> ControllerStart:
        daemon = observer.facts.value.ovn_controller.value
        return await switch.controller_start(daemon.pid if daemon else 0)

    start = SwitchProbe(
        "controller-start",
        SHAPE,
        read_start,
        lambda facts: facts.start,
        lambda facts, reading: replace(facts, start=reading if reading.value else facts.start),
        wanted=lambda facts: facts.ovn_controller.proven is not None,
        source=sources.ovn,
    )
    bindings = SwitchProbe(
        EvidenceSource.BINDINGS,
        COUNTS,
        switch.local_bindings,
        lambda facts: facts.bindings,
        lambda facts, reading: replace(facts, bindings=reading),
        wanted=lambda facts: facts.ovn_controller.proven is not None and _has_instances(facts),
        source=sources.installed,
        recheck=SHAPE,  # on a busy host a port is being plugged at any time
    )
    peers = SwitchProbe(
        EvidenceSource.PEERS,
        ALIVE,
        lambda: switch.openflow_peers(observer.facts.value.ovn.bridge),
        lambda facts: facts.openflow_peers,
        lambda facts, reading: replace(facts, openflow_peers=reading),
        wanted=lambda facts: facts.rows is not None and facts.vswitchd.proven is not None,
        source=sources.ovn,
    )
    poll(state)
    poll(start)
    poll(bindings)
    poll(peers)


def _southbound(
    switch: Switch, observer: SwitchObserver, period: timedelta
) -> SwitchProbe[Southbound]:
    async def read() -> Southbound:
        ovn = observer.facts.value.ovn
        return await switch.southbound(ovn.remote, ovn.system_id, ovn.tls)

    return SwitchProbe(
        EvidenceSource.SOUTHBOUND,
        period,
        read,
        lambda facts: facts.southbound,
        lambda facts, reading: replace(facts, southbound=reading),
        wanted=_is_ovn_configured,
        source=sources.ovn,
    )


def _of_kernel(poll: _Poll, switch: Switch) -> None:
    links = SwitchProbe(
        EvidenceSource.LINKS,
        SHAPE,
        switch.links,
        lambda facts: facts.links,
        lambda facts, reading: replace(facts, links=reading),
        source=sources.devices,
    )
    bonds = SwitchProbe(
        EvidenceSource.KERNEL_BONDS,
        ALIVE,
        switch.kernel_bonds,
        lambda facts: facts.kernel_bonds,
        lambda facts, reading: replace(facts, kernel_bonds=reading),
        source=sources.devices,
    )
    poll(links)
    poll(bonds)


def _flow_counts(
    switch: Switch, observer: SwitchObserver, clock: Clock
) -> SwitchProbe[Mapping[str, Reading[FlowCounts]]]:
    """The flows of every bridge; one that fails keeps its own count of failures."""

    async def count() -> Mapping[str, Reading[FlowCounts]]:
        facts = observer.facts.value
        names = facts.of_vswitchd(facts.running) or frozenset()
        found: dict[str, Reading[FlowCounts]] = {}
        for name in sorted(names):
            try:
                counts = await switch.flow_counts(name)
            except SwitchError as error:
                found[name] = facts.flows.get(name, Reading()).failed(error, clock.now())
            else:
                found[name] = Reading(counts)
        return found

    return SwitchProbe(
        EvidenceSource.FLOWS,
        COUNTS,
        count,
        lambda facts: Reading(facts.flows),
        lambda facts, reading: replace(facts, flows=reading.value or {}),
        wanted=lambda facts: facts.of_vswitchd(facts.running) is not None,
        source=sources.bridges,
        reads=lambda facts: facts.of_vswitchd(facts.running),
        # Without its database ovs-vswitchd serves no OpenFlow; no row shows when it does again.
        unsettled=lambda facts: any(one.failures for one in facts.flows.values()),
        again=ALIVE,
    )


def _scan(
    switch: Switch, observer: SwitchObserver, clock: Clock
) -> SwitchProbe[Mapping[int, TableScan]]:
    """Some tables of the integration bridge at a time."""
    read_at: dict[int, float] = {}

    async def read() -> Mapping[int, TableScan]:
        facts, now = observer.facts.value, clock.monotonic()
        database = facts.effective
        bridge = integration_bridge(facts, database) if database else None
        found: dict[int, TableScan] = {}
        if database is None or bridge is None:
            return found
        counts, left = _integration_counts(facts), flow_scan.BUDGET
        rows = interfaces_of(database, bridge)
        ports = frozenset(one.ofport for one in rows if one.ofport is not None)
        tunnels = frozenset(
            one.ofport for one in rows if one.ofport is not None and one.type in TUNNELS
        )
        while len(found) < flow_scan.AT_ONCE:
            table = flow_scan.next_table(counts, facts.scans, read_at, now)
            if table is None or (found and counts[table] > left):
                break
            read_at[table], left = now, left - counts[table]
            flows = await switch.flows(bridge.name, table, limit=flow_scan.MOST)
            found[table] = flow_scan.scanned(flows, ports, facts.scans.get(table), tunnels)
        return found

    def put(facts: SwitchFacts, reading: Reading[Mapping[int, TableScan]]) -> SwitchFacts:
        if reading.failures:
            return facts
        counts = _integration_counts(facts)
        kept = {table: scan for table, scan in facts.scans.items() if table in counts}
        return replace(facts, scans={**kept, **(reading.value or {})})

    return SwitchProbe(
        "scan",
        SCAN,
        read,
        lambda _facts: Reading(),
        put,
        wanted=lambda facts: facts.effective is not None,
        again=SCAN,
    )


def _integration_counts(facts: SwitchFacts) -> Mapping[int, int]:
    """Flows of the integration bridge by table, while they are known."""
    reading = facts.flows.get(facts.ovn.bridge)
    counts = facts.of_vswitchd(reading) if reading else None
    return counts.tables if counts else {}


Traffic = tuple[Mapping[str, Mapping[str, int]], tuple[Flow, ...] | SwitchError | None]


def _traffic(switch: Switch, observer: SwitchObserver, clock: Clock) -> SwitchProbe[Traffic]:
    """Counters of the devices, and of the flows that take their packets.

    The counters do not need the flows: they stay when those are too many to be read.
    """

    async def read() -> Traffic:
        facts = observer.facts.value
        bridge = integration_bridge(facts, facts.effective) if facts.effective else None
        statistics = await switch.statistics()
        if bridge is None:
            return statistics, None
        try:
            return statistics, await switch.flows(bridge.name, 0, limit=MOST_FLOWS)
        except SwitchError as error:
            return statistics, error

    def put(facts: SwitchFacts, reading: Reading[Traffic]) -> SwitchFacts:
        if reading.value is None or reading.failures:
            return replace(facts, statistics=Reading(), classifier=Reading(), samples=())
        statistics, flows = reading.value
        facts = replace(facts, statistics=Reading(statistics))
        if isinstance(flows, SwitchError):
            classifier = facts.classifier.failed(flows, clock.now())
            return replace(facts, classifier=classifier, samples=())
        sample = sample_of(facts, statistics, flows) if flows is not None else None
        samples = (*facts.samples, sample)[-3:] if sample else ()
        return replace(facts, classifier=Reading(flows), samples=samples)

    return SwitchProbe(
        EvidenceSource.TRAFFIC,
        TRAFFIC,
        read,
        lambda _facts: Reading(),
        put,
        wanted=lambda facts: facts.effective is not None,
        again=COUNTS,
        # A port that is silent between two answers must have had time to send packets.
        recheck=TRAFFIC,
        unsettled=lambda facts: traffic(facts) is None,
    )


def _is_ovn_configured(facts: SwitchFacts) -> bool:
    """Whether the chassis and its database are known."""
    is_known = facts.start.value is not None or facts.ovn_controller.is_down
    return is_known and facts.ovn.is_configured


def _has_instances(facts: SwitchFacts) -> bool:
    rows = facts.rows
    return rows is not None and any(
        one.external_ids.get("iface-id") for one in rows.interfaces.values()
    )
