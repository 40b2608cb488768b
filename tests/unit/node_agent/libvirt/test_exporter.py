from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.statistics import (
    BlockStats,
    DomainStats,
    InterfaceStats,
    VcpuStats,
)
from hypercobalt.node_agent.libvirt.exporter import Exporter

NAME = 'vm "1"\n\\'
BUSY = DomainStats(
    "u1",
    NAME,
    DomainState.RUNNING,
    vcpus=(VcpuStats(0, timedelta(seconds=1.5)), VcpuStats(1, timedelta(seconds=2))),
    vcpu_count=2,
    memory_bytes=1024,
    memory_usage_bytes=512,
    blocks=(BlockStats("vda", 1, 2, 3, 4), BlockStats("vda", 9, 9, 9, 9)),
    interfaces=(InterfaceStats("tap0", 1, 2, 3, 4, 5, 6, 7, 8),),
)


def libvirt_with(stats: DomainStats) -> FakeLibvirt:
    libvirt = FakeLibvirt()
    libvirt.put(Domain(stats.uuid, stats.name, active=True, state=stats.state))
    libvirt.counters[stats.uuid] = stats
    return libvirt


def page(exporter: Exporter) -> dict[str, dict[tuple[str, ...], float]]:
    registry = CollectorRegistry()
    registry.register(exporter)
    asyncio.run(exporter.refresh())
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[
                tuple(v for _, v in sorted(sample.labels.items()))
            ] = sample.value
    return found


def test_page_has_names_labels_and_values_of_the_libvirt_exporter() -> None:
    libvirt = libvirt_with(BUSY)

    found = page(Exporter(libvirt))

    labels = (NAME, "u1")
    assert dict(libvirt.calls) == {"stats": 1}
    assert found["libvirt_up"] == {(): 1}
    assert found["libvirt_domain_info_vcpus"] == {labels: 2}
    assert found["libvirt_domain_info_memory_bytes"] == {labels: 1024}
    assert found["libvirt_domain_memory_usage_bytes"] == {labels: 512}
    assert found["libvirt_domain_vcpu_time_seconds_total"] == {
        (*labels, "0"): 1.5,
        (*labels, "1"): 2,
    }
    disk, net = ("vda", *labels), (labels[0], "tap0", labels[1])
    for name, value in {
        "block_read_bytes": 1,
        "block_read_requests": 2,
        "block_write_bytes": 3,
        "block_write_requests": 4,
    }.items():
        assert found[f"libvirt_domain_{name}_total"] == {disk: value}
    for name, value in {
        "net_receive_bytes": 1,
        "net_receive_packets": 2,
        "net_receive_errors": 3,
        "net_transmit_bytes": 5,
        "net_transmit_packets": 6,
        "net_transmit_drops": 8,
    }.items():
        assert found[f"libvirt_domain_{name}_total"] == {net: value}


def test_without_libvirt_the_page_has_libvirt_up_0() -> None:
    libvirt = libvirt_with(BUSY)
    libvirt.disconnect()

    assert page(Exporter(libvirt)) == {"libvirt_up": {(): 0}}


def test_scrapes_while_libvirt_is_away_log_it_once(caplog: pytest.LogCaptureFixture) -> None:
    libvirt = FakeLibvirt()
    libvirt.disconnect()
    exporter = Exporter(libvirt)

    page(exporter)
    page(exporter)
    assert len(caplog.records) == 1

    libvirt.connect()
    page(exporter)
    libvirt.disconnect("connection refused")
    page(exporter)
    assert len(caplog.records) == 2
