"""Typed parameters become counters and jobs, whatever is missing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.model import DomainState, JobType, JobValue
from hypercobalt.adapters.libvirt.statistics import (
    BlockStats,
    DomainStats,
    InterfaceStats,
    VcpuStats,
    domain_state,
    domain_stats,
    ended_job_of,
    job_of,
)

# As libvirt 9.0.0 with QEMU reports it.
RECORD: dict[str, JobValue] = {
    "state.state": 1,
    "state.reason": 1,
    "balloon.current": 2048,
    "balloon.maximum": 4096,
    "balloon.available": 1900,
    "balloon.unused": 1000,
    "balloon.usable": 1500,
    "balloon.rss": 39060,
    "vcpu.current": 1,
    "vcpu.maximum": 2,
    "vcpu.0.state": 1,
    "vcpu.0.time": 10_000_000,
    "vcpu.0.wait": 0,
    "net.count": 1,
    "net.0.name": "tap0",
    "net.0.rx.bytes": 1,
    "net.0.rx.pkts": 2,
    "net.0.rx.errs": 3,
    "net.0.rx.drop": 4,
    "net.0.tx.bytes": 2**64 - 1,
    "net.0.tx.pkts": 6,
    "net.0.tx.errs": 7,
    "net.0.tx.drop": 8,
    "block.count": 2,
    "block.0.name": "vda",
    "block.0.rd.reqs": 10,
    "block.0.rd.bytes": 11,
    "block.0.wr.reqs": 12,
    "block.0.wr.bytes": 13,
    "block.1.name": "vdb",
}


def test_record_is_converted_to_units_of_the_model() -> None:
    assert domain_stats("u", "n", RECORD) == DomainStats(
        uuid="u",
        name="n",
        state=DomainState.RUNNING,
        vcpus=(VcpuStats(0, timedelta(milliseconds=10)),),
        vcpu_count=1,
        memory_bytes=2048 * 1024,
        memory_usage_bytes=400 * 1024,
        blocks=(
            BlockStats("vda", read_bytes=11, read_requests=10, write_bytes=13, write_requests=12),
            BlockStats("vdb"),
        ),
        interfaces=(InterfaceStats("tap0", 1, 2, 3, 4, 2**64 - 1, 6, 7, 8),),
    )


@pytest.mark.parametrize(
    ("values", "kib"),
    [
        ({}, 0),
        ({"balloon.available": 100}, 0),
        ({"balloon.unused": 100}, 0),
        ({"balloon.available": 100, "balloon.unused": 30}, 70),
        ({"balloon.available": 100, "balloon.unused": 30, "balloon.usable": 60}, 40),
        ({"balloon.available": 100, "balloon.unused": 130}, 0),
    ],
)
def test_memory_in_use_is_what_the_guest_reports(values: dict[str, JobValue], kib: int) -> None:
    assert domain_stats("u", "n", values).memory_usage_bytes == kib * 1024


_VALUES = st.integers(-(2**65), 2**65) | st.booleans() | st.text(max_size=5) | st.floats()


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(RECORD, _VALUES)))
def test_no_record_makes_the_reader_raise(values: dict[str, JobValue]) -> None:
    found = domain_stats("u", "n", values)

    assert found.memory_bytes >= 0
    assert len(found.blocks) <= 2


def test_a_state_of_the_future_is_no_state() -> None:
    assert [domain_state(n) for n in (-1, 5, 8, 10**30)] == [
        DomainState.NOSTATE,
        DomainState.SHUTOFF,
        DomainState.NOSTATE,
        DomainState.NOSTATE,
    ]


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (0, JobType.NONE),
        (1, JobType.BOUNDED),
        (2, JobType.UNBOUNDED),
        (3, JobType.COMPLETED),
        (4, JobType.FAILED),
        (5, JobType.CANCELLED),
        (99, JobType.NONE),
    ],
)
def test_a_job_has_a_type_beside_its_values(number: int, kind: JobType) -> None:
    job = job_of({"type": number, "operation": 5, "time_elapsed": 2**63})

    assert job.type is kind
    assert job.values == {"operation": 5, "time_elapsed": 2**63}
    assert job.is_outgoing


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"success": True}, JobType.COMPLETED),
        ({}, JobType.COMPLETED),
        ({"success": False}, JobType.FAILED),
        ({"success": False, "errmsg": "Input/output error"}, JobType.FAILED),
        ({"success": False, "errmsg": "job canceled by client"}, JobType.CANCELLED),
    ],
)
def test_an_ended_job_shows_how_it_ended(values: dict[str, JobValue], kind: JobType) -> None:
    assert ended_job_of(values).type is kind
