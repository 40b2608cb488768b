"""Turns the facts about the switch into Prometheus series. Pure.

Names are ovn-kubernetes's where the meaning is the same, and openstack-network-exporter's for the
uplinks, one by one. Facts that a dead daemon left behind have no series.

Source: `docs/compatibility.md`; ovs-vswitchd.conf.db(5), `hw-offload`, `tc-policy`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hypercobalt.adapters.ovs.rows import InterfaceRow
from hypercobalt.agent.text import clean
from hypercobalt.ovs_agent.facts import SwitchFacts, bridge_named, interfaces_of
from hypercobalt.ovs_agent.ovn_settings import OvnSettings
from hypercobalt.ovs_agent.rules.bonds import assess_bonds, lacp_negotiated
from hypercobalt.ovs_agent.rules.controller import legs, uses_ovn
from hypercobalt.ovs_agent.rules.findings import plain
from hypercobalt.ovs_agent.rules.flows import generation_of
from hypercobalt.ovs_agent.rules.uplinks import uplinks

LONGEST: Final = 512
"""Characters of a setting in a label."""

_TC_POLICIES: Final = {"none": 0.0, "skip_sw": 1.0, "skip_hw": 2.0}
_COUNTERS: Final = {
    "rx_packets": "Packets received",
    "tx_packets": "Packets sent",
    "rx_bytes": "Bytes received",
    "tx_bytes": "Bytes sent",
    "rx_dropped": "Packets received and dropped",
    "tx_dropped": "Packets to be sent and dropped",
    "rx_errors": "Packets received with errors",
    "tx_errors": "Packets that could not be sent",
    "collisions": "Collisions",
}
_SUMMED: Final = ("rx_dropped", "tx_dropped", "rx_errors", "tx_errors", "collisions")
"""Packets of all interfaces together would count each packet twice."""


def _flag(value: bool | None) -> float | None:
    return None if value is None else float(value)


_OF_ROWS: Final[Mapping[str, tuple[str, Callable[[InterfaceRow], float | None]]]] = {
    "admin_state": ("1 if switched on, else 0", lambda row: _flag(row.admin_up)),
    "link_state": ("1 with a link, else 0", lambda row: _flag(row.link_up)),
    "link_resets": ("Changes of the link", lambda row: row.link_resets),
    "link_speed_bps": ("Speed of the link; stays while it is down", lambda row: row.link_speed),
    "mtu_bytes": ("MTU", lambda row: row.mtu),
}


def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    """A family without series yet."""
    return GaugeMetricFamily(name, text, labels=labels)


def single(name: str, text: str, value: float) -> GaugeMetricFamily:
    """A family of one series without labels."""
    return GaugeMetricFamily(name, text, value=value)


def info(name: str, text: str, **labels: str) -> GaugeMetricFamily:
    """A family of one series with the value 1."""
    family = gauge(name, text, *labels)
    family.add_metric([clean(value) for value in labels.values()], 1.0)
    return family


def versions(facts: SwitchFacts) -> Iterator[Metric]:
    """What runs, since when, and how it is set up."""
    vswitchd, controller = facts.vswitchd.proven, facts.ovn_controller.proven
    for name, daemon in (("ovs", vswitchd), ("ovn_controller", controller)):
        if daemon is None:
            continue
        text = "1, with the version that runs."
        yield info(f"{name}_build_info", text, version=daemon.version)
        if daemon.started_at is not None:
            started = daemon.started_at.timestamp()
            prefix = "ovs_vswitchd" if name == "ovs" else name
            yield single(f"{prefix}_start_time_seconds", "When the daemon started.", started)
    database = facts.effective
    if database is not None:
        initialised = float(database.switch.dpdk_initialized)
        yield single("ovs_dpdk_initialized", "1 if DPDK runs, else 0.", initialised)
        config = database.switch.other_config
        offload = float(config.get("hw-offload") == "true")
        yield single("ovs_vswitchd_hw_offload", "1 if flows go to the hardware, else 0.", offload)
        if (policy := _TC_POLICIES.get(config.get("tc-policy", "none"))) is not None:
            text = "Where TC puts flows: 0 hardware and software, 1 hardware only, 2 software only."
            yield single("ovs_vswitchd_tc_policy", text, policy)


def bridges(facts: SwitchFacts, *, by_table: bool) -> Iterator[Metric]:
    """Bridges, their ports and flows."""
    database = facts.rows
    if database is not None:
        rows = sorted(database.bridges.values(), key=lambda one: one.name)
        yield single("ovs_vswitchd_bridge_total", "Number of bridges.", len(rows))
        count = len(database.interfaces)
        yield single("ovs_vswitchd_interfaces_total", "Number of interfaces.", count)
        there = gauge("ovs_vswitchd_bridge", "1 for each bridge.", "bridge")
        ports = gauge("ovs_vswitchd_bridge_ports_total", "Ports of the bridge.", "bridge")
        for row in rows:
            there.add_metric((clean(row.name),), 1.0)
            ports.add_metric((clean(row.name),), len(row.ports))
        yield from (there, ports)
    flows = gauge("ovs_vswitchd_bridge_flows_total", "OpenFlow flows of the bridge.", "bridge")
    tables = gauge("ovs_table_flows", "OpenFlow flows of a table.", "bridge", "table")
    for name, reading in sorted(facts.flows.items()):
        counts = facts.of_vswitchd(reading)
        if counts is None:
            continue
        flows.add_metric((clean(name),), counts.total)
        for table, count in counts.tables.items():
            tables.add_metric((clean(name), str(table)), count)
    yield flows
    if by_table:
        yield tables


def bonds(facts: SwitchFacts) -> Iterator[Metric]:
    """Bonds as the status has them: bond/show alone leaves out one that has lost its members."""
    members = gauge("ovs_bond_members", "Configured members of the bond.", "bond")
    active = gauge("ovs_bond_active_members", "Members that may carry traffic.", "bond")
    lacp = gauge("ovs_bond_lacp_negotiated", "1 if the LACP partner answers, else 0.", "bond")
    for bond in assess_bonds(facts).value:
        for family, value in ((members, bond.members), (active, bond.activeMembers)):
            if value is not None:
                family.add_metric((clean(bond.name),), value)
    for name, holds in sorted(lacp_negotiated(facts).items()):
        lacp.add_metric((clean(name),), float(holds))
    yield from (members, active, lacp)


def controller(facts: SwitchFacts) -> Iterator[Metric]:
    """Legs of ovn-controller, its settings, and what it has made of the integration bridge."""
    up = gauge("ovn_controller_leg_up", "1 while this leg of ovn-controller is up, else 0.", "leg")
    for leg, holds in legs(facts).items():
        up.add_metric((leg,), float(holds))
    yield up
    state = facts.controller.proven if facts.ovn_controller.proven else None
    if state is not None:
        text = "1 while ovn-controller's session is up, else 0."
        connected = float(state.connected)
        yield single("ovn_controller_southbound_database_connected", text, connected)
    if facts.rows is not None and uses_ovn(facts):
        yield from _settings(facts.ovn)
    database, answer = facts.effective, facts.southbound.proven
    if database is None:
        return
    bridge = bridge_named(database, facts.ovn.bridge)
    if bridge is None:
        return
    types = Counter(row.type for row in interfaces_of(database, bridge))
    prefix = "ovn_controller_integration_bridge"
    yield single(f"{prefix}_geneve_ports", "Tunnels of the integration bridge.", types["geneve"])
    yield single(f"{prefix}_patch_ports", "Patches of the integration bridge.", types["patch"])
    counts = facts.of_vswitchd(facts.flows[bridge.name]) if bridge.name in facts.flows else None
    if counts is not None:
        yield single(f"{prefix}_openflow_total", "Flows of the integration bridge.", counts.total)
    here = generation_of(bridge)
    if answer is not None and here is not None:
        lag = max(0, answer.nb_cfg - here)
        text = "Generations of the configuration that the switch is behind."
        yield single("ovn_flow_lag_generations", text, lag)


def _settings(ovn: OvnSettings) -> Iterator[Metric]:
    """What is set, as ovn-kubernetes shows it: the value is a label."""
    prefix, text = "ovn_controller", "1, with the setting."
    mappings = ",".join(f"{one}:{bridge}" for one, bridge in sorted((ovn.mappings or {}).items()))
    for name, label, value in (
        ("encap_ip", "ipaddress", ovn.encap_ip),
        ("encap_type", "type", ovn.encap_type),
        ("sb_connection_method", "connection_method", ovn.remote),
        ("bridge_mappings", "mapping", mappings),
    ):
        if value:
            yield info(f"{prefix}_{name}", text, **{label: plain(value, LONGEST)})
    monitors = float(ovn.monitors_all)
    yield single(
        f"{prefix}_monitor_all", "1 if ovn-controller reads the whole database, else 0.", monitors
    )
    if ovn.probe_interval is not None:
        text = "Time between ovn-controller's probes of the southbound database; 0 for none."
        yield single(f"{prefix}_remote_probe_interval_seconds", text, ovn.probe_interval)


def interfaces(
    facts: SwitchFacts, statistics: Mapping[str, Mapping[str, int]] | None
) -> Iterator[Metric]:
    """Sums over all interfaces, and the uplinks one by one."""
    database = facts.effective
    if database is None:
        return
    rows, counted = database.interfaces.values(), statistics or {}
    resets = sum(row.link_resets or 0 for row in rows)
    prefix = "ovs_vswitchd_interface"
    yield single(f"{prefix}_resets_total", "Changes of links, of all interfaces.", resets)
    for key in _SUMMED if statistics else ():
        total = sum(counted.get(row.uuid, {}).get(key, 0) for row in rows)
        yield single(f"{prefix}_{key}_total", f"{_COUNTERS[key]}, of all interfaces.", total)
    ups = uplinks(database, facts.links.proven)
    yield from (_of_uplinks(ups, name, text, get) for name, (text, get) in _OF_ROWS.items())
    for key, text in _COUNTERS.items():
        yield _of_uplinks(ups, key, text, partial(_counter, counted, key))


def _counter(counted: Mapping[str, Mapping[str, int]], key: str, row: InterfaceRow) -> float | None:
    return counted.get(row.uuid, {}).get(key)


def _of_uplinks(
    ups: Iterable[InterfaceRow],
    name: str,
    text: str,
    get: Callable[[InterfaceRow], float | None],
) -> GaugeMetricFamily:
    family = gauge(f"ovs_interface_{name}", f"{text}, of an uplink.", "interface")
    for row in ups:
        if (value := get(row)) is not None:
            family.add_metric((clean(row.name),), value)
    return family
