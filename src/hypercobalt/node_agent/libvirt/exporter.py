"""libvirt's counters as Prometheus metrics, from one bulk call for each scrape.

Names and labels are those of the libvirt exporter, so that its dashboards work. The runtime's own
metrics stand on the same page.

Source: `docs/compatibility.md`; Prometheus data model and text format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.adapters.libvirt.statistics import BlockStats, DomainStats, InterfaceStats
from hypercobalt.agent.text import clean
from hypercobalt.logs import get_logger

log = get_logger(__name__)

DEADLINE: Final = timedelta(seconds=3)
"""Less time than a page may take, so that a hung libvirt still leads to a page that shows it."""

_DOMAIN: Final = ("domain", "uuid")
_BLOCK: Final = {
    "read_bytes": "Bytes read from the disk.",
    "read_requests": "Reads from the disk.",
    "write_bytes": "Bytes written to the disk.",
    "write_requests": "Writes to the disk.",
}
_NET: Final = {
    "receive_bytes": "Bytes received.",
    "receive_packets": "Packets received.",
    "receive_errors": "Packets received with errors.",
    "receive_drops": "Packets received and dropped.",
    "transmit_bytes": "Bytes sent.",
    "transmit_packets": "Packets sent.",
    "transmit_errors": "Packets that could not be sent.",
    "transmit_drops": "Packets to be sent and dropped.",
}


class Exporter(Collector):
    """The collector; call `refresh` before a scrape."""

    def __init__(self, libvirt: Libvirt) -> None:
        self._libvirt = libvirt
        self._stats: tuple[DomainStats, ...] | None = None
        self._complaint = ""

    async def refresh(self) -> None:
        """Read the counters from libvirt; when it does not reply, the page shows it as down."""
        try:
            async with asyncio.timeout(DEADLINE.total_seconds()):
                self._stats = await self._libvirt.stats()
            self._complaint = ""
        except (LibvirtError, TimeoutError) as error:
            self._stats = None
            if (complaint := str(error) or "no answer in time") != self._complaint:
                self._complaint = complaint  # scrapes go on all night
                log.warning("libvirt_counters_not_read", error=complaint)

    def describe(self) -> list[Metric]:
        """Nothing: registering must not call libvirt."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What `refresh` found, once; it is not kept in memory until the next scrape."""
        stats, self._stats = self._stats, None
        up = GaugeMetricFamily("libvirt_up", "1 when libvirt answered this scrape, else 0.")
        up.add_metric((), float(stats is not None))
        yield up
        yield from _of_domains(stats or ())


def _of_domains(stats: tuple[DomainStats, ...]) -> Iterator[Metric]:
    vcpus = GaugeMetricFamily("libvirt_domain_info_vcpus", "Number of vCPUs.", labels=_DOMAIN)
    memory = GaugeMetricFamily(
        "libvirt_domain_info_memory_bytes", "Memory that the guest has now.", labels=_DOMAIN
    )
    usage = GaugeMetricFamily(
        "libvirt_domain_memory_usage_bytes",
        "Memory that the guest uses, by its balloon driver; 0 when it reports none.",
        labels=_DOMAIN,
    )
    time = CounterMetricFamily(
        "libvirt_domain_vcpu_time_seconds", "Time a vCPU has run.", labels=(*_DOMAIN, "vcpu")
    )
    block = _family("block", _BLOCK, "device")
    net = _family("net", _NET, "interface")
    for domain in stats:
        labels = (clean(domain.name), domain.uuid)
        vcpus.add_metric(labels, domain.vcpu_count or len(domain.vcpus))
        memory.add_metric(labels, domain.memory_bytes)
        usage.add_metric(labels, domain.memory_usage_bytes)
        for vcpu in domain.vcpus:
            time.add_metric((*labels, str(vcpu.vcpu)), vcpu.time.total_seconds())
        _add(block, labels, domain.blocks)
        _add(net, labels, domain.interfaces)
    yield from (vcpus, memory, usage, time, *block.values(), *net.values())


def _family(part: str, counters: dict[str, str], label: str) -> dict[str, CounterMetricFamily]:
    return {
        name: CounterMetricFamily(f"libvirt_domain_{part}_{name}", help_, labels=(*_DOMAIN, label))
        for name, help_ in counters.items()
    }


def _add(
    families: dict[str, CounterMetricFamily],
    labels: tuple[str, str],
    devices: tuple[BlockStats, ...] | tuple[InterfaceStats, ...],
) -> None:
    seen: set[str] = set()
    for device in devices:
        name = clean(device.device)
        if name in seen:  # two series of the same labels make the whole page unreadable
            continue
        seen.add(name)
        for counter, family in families.items():
            family.add_metric((*labels, name), getattr(device, counter))
