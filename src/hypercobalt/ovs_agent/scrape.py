"""Counters that ovs-vswitchd has of itself, read for a scrape: events, memory, upcalls, PMDs.

What is gone has no series, since nothing of an earlier scrape is kept. Names of coverage events are
ovn-kubernetes's, names of memory and PMDs openstack-network-exporter's. The events shown are those
of trouble or load, and every kind of drop: all events would be some 100 series a host.

Source: Open vSwitch's lib/coverage.c, lib/memory.c, ofproto/ofproto-dpif-upcall.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hypercobalt.adapters.ovs.model import (
    DaemonName,
    Datapath,
    Pmd,
    PmdQueues,
    Stopwatch,
    Upcalls,
)
from hypercobalt.adapters.ovs.port import Switch
from hypercobalt.agent.text import clean
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.series import gauge, single

EVENTS: Final = (
    *("bridge_reconfigure", "flow_extract", "netlink_overflow", "ofproto_packet_out"),
    *("ofproto_recv_openflow", "packet_in", "packet_in_drop", "rconn_discarded", "rconn_overflow"),
    *("rconn_queued", "rconn_sent", "txn_aborted", "txn_error", "txn_incomplete", "xlate_actions"),
)
"""Events of ovs-vswitchd, shown with 0 when they never happened."""
OF_CONTROLLER: Final = (
    *("lflow_run", "rconn_discarded", "rconn_overflow", "rconn_queued", "rconn_sent"),
    *("txn_aborted", "txn_error", "txn_incomplete", "txn_success", "txn_try_again"),
)
"""Events of ovn-controller, shown with 0 when they never happened."""
_DROPS: Final = ("datapath_drop_", "drop_action_")
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9]+")
_PMD: Final = {
    "Iterations": "total_iterations",
    "Used TSC cycles": "used_tsc_cycles",
    "idle iterations": "idle_iterations",
    "busy iterations": "busy_iterations",
    "sleep iterations": "sleep_iterations",
    "Rx packets": "rx_packets",
    "Datapath passes": "datapath_passes",
    "EMC hits": "emc_hits",
    "SMC hits": "smc_hits",
    "Megaflow hits": "megaflow_hits",
    "Upcalls": "total_upcalls",
    "Lost upcalls": "lost_upcalls",
    "Tx packets": "tx_packets",
    "Tx batches": "tx_batches",
}


@dataclass(frozen=True, slots=True)
class Scrape:
    """What ovs-vswitchd has answered for one scrape."""

    datapaths: tuple[Datapath, ...]
    memory: Mapping[str, int]
    coverage: Mapping[str, int]
    upcalls: tuple[Upcalls, ...]
    pmds: tuple[Pmd, ...]
    queues: tuple[PmdQueues, ...]


async def read(switch: Switch, facts: SwitchFacts) -> Scrape:
    """Read the counters; PMDs only where DPDK runs.

    Raises:
        SwitchError: ovs-vswitchd does not answer.
    """
    dpdk = facts.effective is not None and facts.effective.switch.dpdk_initialized
    return Scrape(
        await switch.datapaths(),
        await switch.memory(DaemonName.VSWITCHD),
        await switch.coverage(DaemonName.VSWITCHD),
        await switch.upcalls(),
        await switch.pmds() if dpdk else (),
        await switch.pmd_queues() if dpdk else (),
    )


@dataclass(frozen=True, slots=True)
class OfController:
    """What ovn-controller has answered for one scrape."""

    coverage: Mapping[str, int]
    stopwatches: tuple[Stopwatch, ...]


async def read_controller(switch: Switch) -> OfController:
    """Read ovn-controller's counters.

    Raises:
        SwitchError: it does not answer.
    """
    return OfController(
        await switch.coverage(DaemonName.OVN_CONTROLLER), await switch.stopwatches()
    )


def metrics_of_controller(found: OfController) -> Iterator[Metric]:
    """Events, and how long the parts of its work take."""
    for event in OF_CONTROLLER:
        text = f"Occurrences of {event} that ovn-controller has counted."
        yield single(f"ovn_controller_{event}", text, found.coverage.get(event, 0))
    for watch in found.stopwatches:
        name = f"ovn_controller_{_UNFIT.sub('_', watch.name).strip('_').lower()}"
        of = f"{watch.name} of ovn-controller"
        yield single(f"{name}_total_samples", f"How often {of} was done.", watch.samples)
        yield single(f"{name}_maximum", f"The longest {of}, in ms.", watch.maximum)
        yield single(
            f"{name}_95th_percentile", f"95 % of {of} take less, in ms.", watch.percentile_95
        )
        yield single(f"{name}_long_term_avg", f"The average {of}, in ms.", watch.long_term)


def metrics(scrape: Scrape) -> Iterator[Metric]:
    """The series of a scrape."""
    yield from _datapaths(scrape.datapaths, scrape.memory)
    dropped = sorted(one for one in scrape.coverage if one.startswith(_DROPS))
    for event in (*EVENTS, *dropped):
        text = f"How often ovs-vswitchd has counted {event}."
        count = scrape.coverage.get(event, 0)
        yield GaugeMetricFamily(f"ovs_vswitchd_{event}", text, value=count)
    for name, used in sorted(scrape.memory.items()):
        unit = _UNFIT.sub("_", name).strip("_").lower()
        yield GaugeMetricFamily(f"ovs_memory_{unit}_total", f"Of memory/show: {name}.", value=used)
    yield from _upcalls(scrape.upcalls)
    yield from _pmds(scrape.pmds)
    yield from _queues(scrape.queues)


def _upcalls(found: tuple[Upcalls, ...]) -> Iterator[Metric]:
    prefix = "ovs_upcall"
    now = _by_datapath(f"{prefix}_flows", "Flows of the datapath now.")
    most = _by_datapath(f"{prefix}_flows_max", "The most flows so far.")
    limit = _by_datapath(f"{prefix}_flows_limit", "Flows beyond which some are removed.")
    took = _by_datapath(f"{prefix}_dump_duration_seconds", "Time of the last dump of all flows.")
    for one in found:
        name = (clean(one.datapath),)
        now.add_metric(name, one.current)
        most.add_metric(name, one.maximum)
        limit.add_metric(name, one.limit)
        took.add_metric(name, one.dump_duration_ms / 1000)
    yield from (now, most, limit, took)


def _by_datapath(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=("datapath",))


def _pmds(found: tuple[Pmd, ...]) -> Iterator[Metric]:
    for line, name in _PMD.items():
        family = GaugeMetricFamily(f"ovs_pmd_{name}", f"{line}.", labels=("cpu", "numa"))
        for one in found:
            if line in one.counters:
                family.add_metric((str(one.core), str(one.numa)), one.counters[line])
        if family.samples:
            yield family


def _queues(found: tuple[PmdQueues, ...]) -> Iterator[Metric]:
    isolated = gauge("ovs_pmd_cpu_isolated", "1: polls only pinned queues.", "cpu", "numa")
    overhead = gauge("ovs_pmd_cpu_overhead", "Percent of no queue.", "cpu", "numa")
    labels = ("cpu", "numa", "interface", "rxq")
    enabled = gauge("ovs_pmd_rxq_enabled", "1 if the queue is polled, else 0.", *labels)
    usage = gauge("ovs_pmd_rxq_usage", "Percent of the thread's time.", *labels)
    for one in found:
        thread = (str(one.core), str(one.numa))
        _add(isolated, thread, one.isolated)
        _add(overhead, thread, one.overhead)
        for queue in one.queues:
            name = (*thread, clean(queue.port), str(queue.number))
            _add(enabled, name, queue.enabled)
            _add(usage, name, queue.usage)
    yield from (one for one in (isolated, overhead, enabled, usage) if one.samples)


def _add(family: GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)


def _datapaths(found: tuple[Datapath, ...], memory: Mapping[str, int]) -> Iterator[Metric]:
    yield single("ovs_vswitchd_dp_total", "Number of datapaths.", len(found))
    for key in ("handlers", "revalidators"):
        text = f"Threads of ovs-vswitchd: {key}."
        yield single(f"ovs_vswitchd_{key}_total", text, memory.get(key, 0))
    families = {
        "hits": gauge("ovs_vswitchd_dp_flows_lookup_hit", "Packets with a flow.", "datapath"),
        "missed": gauge("ovs_vswitchd_dp_flows_lookup_missed", "Upcalls.", "datapath"),
        "lost": gauge("ovs_vswitchd_dp_flows_lookup_lost", "Upcalls dropped.", "datapath"),
        "flows": gauge("ovs_vswitchd_dp_flows_total", "Flows of the datapath.", "datapath"),
        "ports": gauge("ovs_vswitchd_dp_if_total", "Ports of the datapath.", "datapath"),
        "mask_hits": gauge("ovs_vswitchd_dp_masks_hit", "Masks looked up.", "datapath"),
        "masks": gauge("ovs_vswitchd_dp_masks_total", "Masks of the datapath.", "datapath"),
    }
    there = gauge("ovs_vswitchd_dp", "1 for each datapath.", "datapath", "type")
    packets = gauge("ovs_vswitchd_dp_packets_total", "Packets looked up.", "datapath")
    ratio = gauge("ovs_vswitchd_dp_masks_hit_ratio", "Masks looked up for a packet.", "datapath")
    for each in found:
        name, looked_up = (clean(each.name),), each.hits + each.missed
        there.add_metric((*name, clean(each.name.partition("@")[0])), 1.0)
        packets.add_metric(name, looked_up)
        if each.mask_hits is not None and looked_up:
            ratio.add_metric(name, each.mask_hits / looked_up)
        for field, family in families.items():
            if (value := getattr(each, field)) is not None:
                family.add_metric(name, value)
    yield from (there, packets, ratio, *families.values())
