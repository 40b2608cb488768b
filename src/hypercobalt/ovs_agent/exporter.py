"""The switch as Prometheus metrics: what is known, and counters read for the scrape.

Names are those of ovn-kubernetes where the meaning is the same, gauges whose names end in `_total`
included. What a dead producer left behind is no series: a gap shows it, and
`ovs_agent_source_up` names it. Interfaces have series of their own only if they are uplinks: those
of instances would be thousands.

Source: `docs/compatibility.md`; Prometheus data model and text format.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hypercobalt.adapters.ovs.model import Datapath
from hypercobalt.adapters.ovs.port import Switch, SwitchError
from hypercobalt.agent.text import clean
from hypercobalt.api.ovsnode_reasons import IssueCode
from hypercobalt.ovs_agent import scrape
from hypercobalt.ovs_agent.facts import Facts, bridge_named, interfaces_of, is_unsupported
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import Observer
from hypercobalt.ovs_agent.rules.bonds import assess_bonds, lacp_negotiated
from hypercobalt.ovs_agent.rules.controller import legs, uses_ovn
from hypercobalt.ovs_agent.rules.flows import generation_of
from hypercobalt.ovs_agent.rules.issues import issues_of
from hypercobalt.ovs_agent.rules.ports import CODES as PORT_CODES
from hypercobalt.ovs_agent.rules.uplinks import uplinks
from hypercobalt.ovs_agent.scrape import Scrape

DEADLINE: Final = timedelta(seconds=3)
"""Less than a page may take, so that a hung switch still gives a page that shows it."""

CACHED: Final = timedelta(seconds=5)
"""Two scrapes within this cost one."""

_INTERFACE: Final = {
    "rx_dropped": "Packets received and dropped.",
    "tx_dropped": "Packets to be sent and dropped.",
    "rx_errors": "Packets received with errors.",
    "tx_errors": "Packets that could not be sent.",
    "collisions": "Collisions.",
}


class Exporter(Collector):
    """The collector; call `refresh` before a scrape."""

    def __init__(self, switch: Switch, observer: Observer, judge: Judge) -> None:
        self._switch, self._observer, self._judge = switch, observer, judge
        self._read_at = float("-inf")
        self._scrape: Scrape | None = None
        self._statistics: Mapping[str, Mapping[str, int]] | None = None

    async def refresh(self) -> None:
        """Read counters; those of a daemon that does not answer are left out."""
        if time.monotonic() - self._read_at < CACHED.total_seconds():
            return
        self._scrape = self._statistics = None
        facts = self._observer.facts.value
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()):
                if facts.effective is not None:
                    self._statistics = await self._switch.statistics()
                if facts.vswitchd.proven is not None:
                    self._scrape = await scrape.read(self._switch, facts)
        except (SwitchError, TimeoutError):
            return  # the source shows as down once its own probe has failed
        self._read_at = time.monotonic()

    def describe(self) -> list[Metric]:
        """Nothing: registering must not read anything."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Everything that is proven now."""
        facts = self._observer.facts.value
        yield from self._sources(facts)
        yield from _versions(facts)
        yield from _bridges(facts)
        yield from _bonds(facts)
        yield from _controller(facts)
        yield from self._issues()
        if self._scrape is not None:
            yield from _datapaths(self._scrape.datapaths, self._scrape.memory)
            yield from scrape.metrics(self._scrape)
        yield from _interfaces(facts, self._statistics)

    def _sources(self, facts: Facts) -> Iterator[Metric]:
        up = _gauge("ovs_agent_source_up", "1 while this source answers, else 0.", "source")
        for name, answers in _answers(facts).items():
            if answers is not None:
                up.add_metric((name,), float(answers))
        yield up
        at = _gauge(
            "ovs_agent_last_success_timestamp_seconds", "Last answer of the source.", "source"
        )
        took = _gauge("ovs_agent_probe_duration_seconds", "Time of the last probe.", "probe")
        for name, timing in sorted(self._observer.timings.items()):
            if timing.answered_at:
                at.add_metric((name,), timing.answered_at)
                took.add_metric((name,), timing.seconds)
        yield from (at, took)

    def _issues(self) -> Iterator[Metric]:
        judged = self._judge.latest
        if judged is None:
            return
        counts = Counter(one.finding.code for one in issues_of(judged.ledger))
        ports = _gauge("ovs_port_issues", "Ports with an issue of this code.", "code")
        others = _gauge("ovs_issues", "Issues of this code.", "code")
        for code in IssueCode:
            (ports if code in PORT_CODES else others).add_metric((code,), counts[code])
        yield from (ports, others)


def _answers(facts: Facts) -> dict[str, bool | None]:
    """Whether each source answers; None before its first answer, and without means to read it."""
    return {
        "ovsdb": facts.database.answers,
        "ovsdb-server": facts.ovsdb_server.answers,
        "ovs-vswitchd": facts.vswitchd.answers,
        "ovn-controller": facts.ovn_controller.answers if uses_ovn(facts) else None,
        "southbound": None if is_unsupported(facts.southbound) else facts.southbound.answers,
        "kernel": facts.links.answers,
    }


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _one(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _versions(facts: Facts) -> Iterator[Metric]:
    vswitchd, controller = facts.vswitchd.proven, facts.ovn_controller.proven
    for name, daemon in (("ovs", vswitchd), ("ovn_controller", controller)):
        if daemon is None:
            continue
        info = _gauge(f"{name}_build_info", "1, with the version that runs.", "version")
        info.add_metric((clean(daemon.version),), 1.0)
        yield info
        if daemon.started_at is not None:
            started = daemon.started_at.timestamp()
            prefix = "ovs_vswitchd" if name == "ovs" else name
            yield _one(f"{prefix}_start_time_seconds", "When the daemon started.", started)
    database = facts.effective
    if database is not None:
        initialised = float(database.switch.dpdk_initialized)
        yield _one("ovs_dpdk_initialized", "1 if DPDK runs, else 0.", initialised)


def _bridges(facts: Facts) -> Iterator[Metric]:
    database = facts.rows
    if database is not None:
        rows = sorted(database.bridges.values(), key=lambda one: one.name)
        yield _one("ovs_vswitchd_bridge_total", "Number of bridges.", len(rows))
        count = len(database.interfaces)
        yield _one("ovs_vswitchd_interfaces_total", "Number of interfaces.", count)
        ports = _gauge("ovs_vswitchd_bridge_ports_total", "Ports of the bridge.", "bridge")
        for row in rows:
            ports.add_metric((clean(row.name),), len(row.ports))
        yield ports
    flows = _gauge("ovs_vswitchd_bridge_flows_total", "OpenFlow flows of the bridge.", "bridge")
    for name, reading in sorted(facts.flows.items()):
        counts = facts.of_vswitchd(reading)
        if counts is not None:
            flows.add_metric((clean(name),), counts.total)
    yield flows


def _bonds(facts: Facts) -> Iterator[Metric]:
    """Bonds as the status has them: bond/show alone leaves out one that has lost its members."""
    members = _gauge("ovs_bond_members", "Configured members of the bond.", "bond")
    active = _gauge("ovs_bond_active_members", "Members that may carry traffic.", "bond")
    lacp = _gauge("ovs_bond_lacp_negotiated", "1 if the LACP partner answers, else 0.", "bond")
    for bond in assess_bonds(facts).value:
        for family, value in ((members, bond.members), (active, bond.activeMembers)):
            if value is not None:
                family.add_metric((clean(bond.name),), value)
    for name, holds in sorted(lacp_negotiated(facts).items()):
        lacp.add_metric((clean(name),), float(holds))
    yield from (members, active, lacp)


def _controller(facts: Facts) -> Iterator[Metric]:
    up = _gauge("ovn_controller_leg_up", "1 while this witness holds, else 0.", "leg")
    for leg, holds in legs(facts).items():
        up.add_metric((leg,), float(holds))
    yield up
    state = facts.controller.proven if facts.ovn_controller.proven else None
    if state is not None:
        text = "1 while ovn-controller's session is up, else 0."
        connected = float(state.connected)
        yield _one("ovn_controller_southbound_database_connected", text, connected)
    database, answer = facts.effective, facts.southbound.proven
    if database is None:
        return
    bridge = bridge_named(database, facts.ovn.bridge)
    if bridge is None:
        return
    types = Counter(row.type for row in interfaces_of(database, bridge))
    prefix = "ovn_controller_integration_bridge"
    yield _one(f"{prefix}_geneve_ports", "Tunnels of the integration bridge.", types["geneve"])
    yield _one(f"{prefix}_patch_ports", "Patches of the integration bridge.", types["patch"])
    counts = facts.of_vswitchd(facts.flows[bridge.name]) if bridge.name in facts.flows else None
    if counts is not None:
        yield _one(f"{prefix}_openflow_total", "Flows of the integration bridge.", counts.total)
    here = generation_of(bridge)
    if answer is not None and here is not None:
        lag = max(0, answer.nb_cfg - here)
        text = "Generations of the configuration that the switch is behind."
        yield _one("ovn_flow_lag_generations", text, lag)


def _datapaths(found: tuple[Datapath, ...], memory: Mapping[str, int]) -> Iterator[Metric]:
    yield _one("ovs_vswitchd_dp_total", "Number of datapaths.", len(found))
    for key in ("handlers", "revalidators"):
        text = f"Threads of ovs-vswitchd: {key}."
        yield _one(f"ovs_vswitchd_{key}_total", text, memory.get(key, 0))
    families = {
        "hits": _gauge("ovs_vswitchd_dp_flows_lookup_hit", "Packets with a flow.", "datapath"),
        "missed": _gauge("ovs_vswitchd_dp_flows_lookup_missed", "Upcalls.", "datapath"),
        "lost": _gauge("ovs_vswitchd_dp_flows_lookup_lost", "Upcalls dropped.", "datapath"),
        "flows": _gauge("ovs_vswitchd_dp_flows_total", "Flows of the datapath.", "datapath"),
    }
    for one in found:
        for field, family in families.items():
            family.add_metric((clean(one.name),), getattr(one, field))
    yield from families.values()


def _interfaces(
    facts: Facts, statistics: Mapping[str, Mapping[str, int]] | None
) -> Iterator[Metric]:
    database = facts.effective
    if database is None:
        return
    rows = uplinks(database, facts.links.proven)
    resets = _gauge("ovs_vswitchd_interface_resets_total", "Changes of the link.", "interface")
    for row in rows:
        resets.add_metric((clean(row.name),), row.link_resets or 0)
    yield resets
    for key, text in _INTERFACE.items():
        family = _gauge(f"ovs_vswitchd_interface_{key}_total", text, "interface")
        for row in rows:
            counters = (statistics or {}).get(row.uuid, {})
            if key in counters:
                family.add_metric((clean(row.name),), counters[key])
        yield family
