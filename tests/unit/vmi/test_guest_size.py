"""vCPUs, memory, overhead and threads of a guest."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.unit.vmi.guests import guest, with_disks

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.iothreads import IOThreads, io_threads, pool_size
from hypercobalt.vmi.overhead import MIB, overhead_bytes
from hypercobalt.vmi.topology import Topology, amount, guest_memory, topology
from hypercobalt.vmi.unfit import UnfitVMIError

Json = Any


def refused(field: str) -> pytest.RaisesExc[UnfitVMIError]:
    return pytest.raises(UnfitVMIError, match=f"^{re.escape(field)}: ")


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (None, Topology(1, 1, 1)),
        ({}, Topology(1, 1, 1)),
        ({"cores": 2}, Topology(1, 2, 1)),
        ({"sockets": 2, "cores": 3, "threads": 4}, Topology(2, 3, 4)),
        ({"sockets": 1, "maxSockets": 4}, Topology(1, 1, 1)),
        ({"cores": 512}, Topology(1, 512, 1)),
    ],
)
def test_counts_that_are_absent_are_one(cpu: Json, expected: Topology) -> None:
    found = topology(guest(domain={"cpu": cpu}).spec.domain.cpu)
    assert found == expected
    assert found.vcpus == expected.sockets * expected.cores * expected.threads


@pytest.mark.parametrize(
    ("cpu", "field"),
    [
        ({"cores": -1}, "spec.domain.cpu.cores"),
        ({"sockets": 513}, "spec.domain.cpu.sockets"),
        ({"threads": 513}, "spec.domain.cpu.threads"),
        ({"cores": 257, "threads": 2}, "spec.domain.cpu"),
    ],
)
def test_more_vcpus_than_a_machine_takes_are_refused(cpu: Json, field: str) -> None:
    with refused(field):
        topology(guest(domain={"cpu": cpu}).spec.domain.cpu)


@pytest.mark.parametrize(
    ("memory", "resources", "expected"),
    [
        ({"guest": "64Mi"}, {"requests": {"memory": "1Gi"}}, "64Mi"),
        (None, {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}}, "1Gi"),
        ({}, {"limits": {"memory": "2Gi"}}, "2Gi"),
        ({"guest": 1}, {}, "1"),
        ({"guest": str(2**63 - 1)}, {}, str(2**63 - 1)),
    ],
)
def test_memory_is_the_guests_own_then_the_request_then_the_limit(
    memory: Json, resources: Json, expected: str
) -> None:
    domain = guest(domain={"memory": memory, "resources": resources}).spec.domain
    assert guest_memory(domain) == Quantity(expected)


@pytest.mark.parametrize(
    "memory", [{}, *({"guest": value} for value in (0, "-1", "x", str(2**63)))]
)
def test_memory_that_is_none_is_refused(memory: Json) -> None:
    requested = {"requests": {"memory": "1Gi"}} if memory else {}
    domain = guest(domain={"memory": memory, "resources": requested}).spec.domain
    with refused("spec.domain.memory.guest"):
        guest_memory(domain)


def test_an_amount_of_nothing_is_one_unless_more_is_wanted() -> None:
    assert amount(Quantity("0"), "a") == Quantity(0)
    with refused("a"):
        amount(Quantity("0"), "a", least=1)


@pytest.mark.parametrize(
    ("domain", "mib"),
    [
        ({}, 96 + 8),
        ({"cpu": {"cores": 4, "threads": 2}}, 96 + 64),
        ({"resources": {"requests": {"memory": "1Gi"}}}, 96 + 8 + 2),
        ({"resources": {"limits": {"memory": "1Gi"}}}, 96 + 8),
    ],
)
def test_overhead_is_96_mib_and_8_for_each_vcpu(domain: Json, mib: int) -> None:
    assert overhead_bytes(guest(domain=domain).spec.domain) == mib * MIB


V, S = {"bus": "virtio"}, {"bus": "sata"}


def disk(name: str, target: Json, *, own: bool = False) -> Json:
    return {"name": name, "disk": target} | ({"dedicatedIOThread": True} if own else {})


@pytest.mark.parametrize(
    ("policy", "cpus", "disks", "expected"),
    [
        ("", None, [disk("a", V)], IOThreads()),
        ("", None, [disk("a", V), disk("b", V, own=True)], IOThreads(2, {"a": 1, "b": 2})),
        ("shared", None, [], IOThreads()),
        ("shared", None, [disk("a", S)], IOThreads(1)),
        ("shared", None, [disk("a", V), disk("b", V)], IOThreads(1, {"a": 1, "b": 1})),
        ("shared", None, [{"name": "a", "cdrom": {}}, disk("b", V)], IOThreads(1, {"b": 1})),
        ("shared", None, [disk("a", V, own=True)], IOThreads(1, {"a": 1})),
        ("auto", None, [disk("a", V)], IOThreads(1, {"a": 1})),
        ("auto", None, [disk(n, V) for n in "abc"], IOThreads(2, {"a": 1, "b": 2, "c": 1})),
        ("auto", "1500m", [disk(n, V) for n in "abcde"],
         IOThreads(4, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 1})),
        ("auto", None, [disk("a", V, own=True), disk("b", S), disk("c", V), disk("d", V)],
         IOThreads(2, {"a": 2, "c": 1, "d": 1})),
        ("auto", None, [*(disk(n, V, own=True) for n in "abc"), disk("d", V)],
         IOThreads(4, {"a": 2, "b": 3, "c": 4, "d": 1})),
    ],
)  # fmt: skip
def test_disks_share_what_the_policy_leaves(
    policy: str, cpus: str | None, disks: list[Json], expected: IOThreads
) -> None:
    resources = {"requests": {"cpu": cpus}, "limits": {"cpu": "64"}} if cpus else {}
    vmi = with_disks(*disks, ioThreadsPolicy=policy, resources=resources)
    assert io_threads(vmi.spec.domain) == expected


def test_auto_follows_the_limit_where_there_is_no_request_and_ends_somewhere() -> None:
    disks = [disk(f"d{number}", V) for number in range(300)]
    few = with_disks(*disks, ioThreadsPolicy="auto", resources={"limits": {"cpu": "2"}})
    many = with_disks(*disks, ioThreadsPolicy="auto", resources={"limits": {"cpu": "900"}})
    assert io_threads(few.spec.domain).count == 4
    assert io_threads(many.spec.domain).count == 256


@pytest.mark.parametrize("count", [1, 256])
def test_a_pool_serves_all_disks(count: int) -> None:
    pool = {"supplementalPoolThreadCount": count}
    vmi = with_disks(disk("a", V), ioThreadsPolicy="supplementalPool", ioThreads=pool)
    assert io_threads(vmi.spec.domain) == IOThreads(count, pool=range(1, count + 1))
    assert pool_size(vmi.spec.domain) == count


@pytest.mark.parametrize(
    "pool", [None, {}, *({"supplementalPoolThreadCount": n} for n in (0, 257))]
)
def test_a_pool_without_a_size_is_refused(pool: Json) -> None:
    vmi = with_disks(ioThreadsPolicy="supplementalPool", ioThreads=pool)
    with refused("spec.domain.ioThreads.supplementalPoolThreadCount"):
        io_threads(vmi.spec.domain)
