from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.model import (
    Devices,
    Domain,
    DomainCapabilities,
    DomainState,
    HostCapabilities,
    HostCell,
    MemoryNode,
    Versions,
)
from hypercobalt.api import codec
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.node_agent.status.inventory import FIELDS, status_of
from hypercobalt.node_agent.status.parts import Inventory, RunningLauncher

GIB = 1024**3
OFFERS = DomainCapabilities(
    "x86_64", "kvm", ("video", "video/virtio"), ("mode/host-model", "mode/custom/EPYC"), ("sev",)
)


def cell(number: int, memory_bytes: int, cpus: range) -> HostCell:
    return HostCell(number, memory_bytes, frozenset(cpus), len(cpus))


def host(cells: int, memory_bytes: int, cpus: int) -> HostCapabilities:
    made = (cell(n, memory_bytes, range(n * cpus, (n + 1) * cpus)) for n in range(cells))
    return HostCapabilities("x86_64", tuple(made), uuid="11111111-1111-4111-8111-111111111111")


FOUR = host(4, 256 * GIB, 64)


def domain(name: str = "a", **fields: Any) -> Domain:  # noqa: ANN401 - any field
    given = {"active": True, "state": DomainState.RUNNING, "vcpus": 1, **fields}
    return Domain(uuid=f"uuid-{name}", name=name, **given)


def pinned(vcpus: int, to: range) -> dict[int, frozenset[int]]:
    return {vcpu: frozenset(to) for vcpu in range(vcpus)}


def status(
    capabilities: HostCapabilities, *domains: Domain, overcommit: dict[str, float] | None = None
) -> HypervisorStatus:
    inventory = Inventory(Versions("9.0.0", "7.2.22"), capabilities, OFFERS, domains)
    return status_of(inventory, overcommit or {})


def wire(of: HypervisorStatus) -> dict[str, object]:
    return codec.to_builtins(of)


def allocations(of: HypervisorStatus) -> list[tuple[int, str, str]]:
    return [(c.cellID, str(c.allocation["memory"]), str(c.allocation["cpu"])) for c in of.cells]


def test_running_instance_names_its_ports_and_one_that_is_off_none() -> None:
    devices = Devices(ports=("c0ffee00-0000-4000-8000-000000000001",), plugged=("tap1", "tap1"))
    given = status(FOUR, domain(devices=devices), domain("b", active=False, devices=devices))
    assert [(one.instance, one.port) for one in given.instancePorts or ()] == [
        ("uuid-a", "c0ffee00-0000-4000-8000-000000000001"),
        ("uuid-a", "tap1"),
    ]
    assert status(FOUR).instancePorts == ()
    many = Devices(ports=tuple(f"{number}" * 90 for number in range(1000)))
    bounded = status(FOUR, domain(devices=many)).instancePorts or ()
    assert (len(bounded), max(len(one.port) for one in bounded)) == (384, 40)


def test_status_has_every_field_in_its_wire_form() -> None:
    numa = domain(memory_bytes=25149440 * 1024, vcpus=4)
    given = status(host(1, 32 * GIB, 8), numa, overcommit={"cpu": 4.0, "memory": 1.5})

    assert wire(given) == {
        "libVirtVersion": "9.0.0",
        "hypervisorVersion": "7.2.22",
        "hostUUID": "11111111-1111-4111-8111-111111111111",
        "instances": [{"id": "uuid-a", "name": "a", "active": True}],
        "instancePorts": [],
        "numInstances": 1,
        "capabilities": {"cpuArch": "x86_64", "memory": "32Gi", "cpus": "8"},
        "domainCapabilities": {
            "arch": "x86_64",
            "hypervisorType": "kvm",
            "supportedDevices": ["video", "video/virtio"],
            "supportedCpuModes": ["mode/host-model", "mode/custom/EPYC"],
            "supportedFeatures": ["sev"],
        },
        "allocation": {"cpu": "4", "memory": "24560Mi"},
        "capacity": {"cpu": "8", "memory": "32Gi"},
        "effectiveCapacity": {"cpu": "32", "memory": "48Gi"},
        "cells": [
            {
                "cellID": 0,
                "allocation": {"cpu": "4", "memory": "24560Mi"},
                "capacity": {"cpu": "8", "memory": "32Gi"},
                "effectiveCapacity": {"cpu": "32", "memory": "48Gi"},
            }
        ],
    }
    assert set(wire(given)) == set(FIELDS)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {
                "memory_bytes": 128 * GIB,
                "vcpus": 16,
                "pins": pinned(8, range(64, 128))
                | {n: frozenset(range(128, 192)) for n in range(8, 16)},
                "memory_nodes": (
                    MemoryNode(64 * GIB, frozenset({1})),
                    MemoryNode(64 * GIB, frozenset({2})),
                ),
            },
            {1: ("64Gi", "8"), 2: ("64Gi", "8")},
            id="two guest cells on two host cells",
        ),
        pytest.param(
            {
                "memory_bytes": 4 * GIB,
                "vcpus": 2,
                "pins": pinned(2, range(192, 256)),
                "memory_nodes": (MemoryNode(4 * GIB, frozenset({3})),),
            },
            {3: ("4Gi", "2")},
            id="guest cell 0 lies on host cell 3",
        ),
        pytest.param(
            {"memory_bytes": 4 * GIB, "memory_nodes": (MemoryNode(4 * GIB, frozenset({0, 1})),)},
            {0: ("2Gi", "0"), 1: ("2Gi", "0")},
            id="a nodeset of two is divided evenly",
        ),
        pytest.param(
            {"memory_bytes": 7, "memory_nodes": (MemoryNode(7, frozenset({0, 1, 2, 99})),)},
            {0: ("3", "0"), 1: ("2", "0"), 2: ("2", "0")},
            id="no byte is lost, an unknown cell takes none",
        ),
        pytest.param(
            {"memory_bytes": GIB, "memory_nodes": (MemoryNode(GIB, frozenset({99})),)},
            {},
            id="a cell that the host does not have",
        ),
        pytest.param({"memory_bytes": GIB, "vcpus": 8}, {}, id="no pinning counts in no cell"),
        pytest.param(
            {"memory_bytes": GIB, "vcpus": 2, "pins": pinned(2, range(64, 66))},
            {1: ("1Gi", "2")},
            id="all pinned into one cell: the memory too",
        ),
        pytest.param(
            {"memory_bytes": GIB, "vcpus": 3, "pins": pinned(2, range(64, 66))},
            {1: ("0", "2")},
            id="one vCPU free: the memory may be anywhere",
        ),
        pytest.param(
            {"memory_bytes": GIB, "vcpus": 2, "pins": pinned(2, range(60, 70))},
            {},
            id="a pin over two cells is in neither",
        ),
        pytest.param(
            {"memory_bytes": GIB, "vcpus": 1, "pins": pinned(1, range(9999, 10000))},
            {},
            id="a CPU that the host does not have",
        ),
        pytest.param(
            {"vcpus": 1, "pins": {0: frozenset({0}), 7: frozenset({0}), -1: frozenset({0})}},
            {0: ("0", "1")},
            id="pins of vCPUs that there are not",
        ),
    ],
)
def test_domain_is_attributed_to_the_cells_of_its_memory_and_cpus(
    fields: dict[str, Any], expected: dict[int, tuple[str, str]]
) -> None:
    given = status(FOUR, domain(**fields))

    assert allocations(given) == [(n, *expected.get(n, ("0", "0"))) for n in range(4)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"memory_bytes": GIB, "vcpus": 8}, ("1Gi", "8"), id="nothing bound or pinned"),
        pytest.param(
            {"memory_bytes": GIB, "vcpus": 2, "pins": {0: frozenset({5})}},
            ("1Gi", "2"),
            id="some pinned",
        ),
        pytest.param(
            {"memory_bytes": GIB, "memory_nodes": (MemoryNode(GIB, frozenset({99})),)},
            ("1Gi", "1"),
            id="bound to a cell that the host does not have",
        ),
    ],
)
def test_single_cell_of_a_host_has_all_domains(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    given = status(host(1, 32 * GIB, 8), domain(**fields), domain("other", vcpus=0))

    assert allocations(given) == [(0, *expected)]


def test_active_instances_come_first_each_by_name() -> None:
    given = status(
        FOUR, domain("b"), domain("z", active=False), domain("c", active=False), domain("a")
    )

    assert [(i.name, i.active) for i in given.instances] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("z", False),
    ]
    assert given.numInstances == 4


def test_cells_come_by_number_whatever_the_order_of_the_document() -> None:
    shuffled = HostCapabilities("x86_64", tuple(FOUR.cells[n] for n in (2, 0, 3, 1)))

    assert [c.cellID for c in status(shuffled).cells] == [0, 1, 2, 3]


def test_a_domain_that_could_not_be_read_counts_as_instance() -> None:
    given = status(FOUR, domain("odd", problem="memory: unknown unit"))

    assert given.numInstances == 1
    assert given.instances[0].name == "odd"


@pytest.mark.parametrize(
    ("cpus", "ratio", "effective"),
    [(11, 1.5, 16), (3, 1.9, 5), (10, 1.1, 11), (7, float("inf"), 7)],
)
def test_effective_capacity_is_rounded_down(cpus: int, ratio: float, effective: int) -> None:
    given = status(host(1, GIB, cpus), overcommit={"cpu": ratio})

    assert str(given.effectiveCapacity["cpu"]) == str(effective)
    assert str(given.cells[0].effectiveCapacity["cpu"]) == str(effective)
    assert str(given.effectiveCapacity["memory"]) == "1Gi"


def test_host_without_a_uuid_has_none_in_the_status() -> None:
    assert status(HostCapabilities("x86_64", FOUR.cells)).hostUUID is None
    assert status(FOUR).hostUUID == FOUR.uuid


def test_cpu_that_is_pinned_to_nothing_is_in_no_cell() -> None:
    given = status(FOUR, domain(vcpus=1, pins={0: frozenset()}))
    assert [str(cell.allocation["cpu"]) for cell in given.cells] == ["0"] * 4


def test_names_that_are_no_text_can_be_written() -> None:
    name = b"\xff\x00<&'\n\xc3".decode("utf-8", "surrogateescape")
    given = status(FOUR, domain(name))

    assert codec.encode(given)
    assert given.instances[0].name == "?\x00<&'\n?"


cpu_sets = st.frozensets(st.integers(0, 300), max_size=6)
sizes = st.integers(0, 2**50)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    nodes = draw(
        st.lists(st.builds(MemoryNode, sizes, st.frozensets(st.integers(0, 6))), max_size=4)
    )
    return domain(
        draw(st.text("abc", max_size=4)),
        active=draw(st.booleans()),
        vcpus=draw(st.integers(0, 64)),
        memory_bytes=sum(node.memory_bytes for node in nodes) or draw(sizes),
        pins=draw(st.dictionaries(st.integers(0, 80), cpu_sets, max_size=8)),
        memory_nodes=tuple(nodes),
    )


@given(st.lists(domains(), max_size=8))
def test_cells_never_hold_more_than_the_host(given_domains: list[Domain]) -> None:
    given = status(FOUR, *given_domains)

    for resource in ("cpu", "memory"):
        in_cells = sum((c.allocation[resource].as_fraction() for c in given.cells), Fraction())
        assert in_cells <= given.allocation[resource].as_fraction()
    assert given.allocation["memory"].value == sum(d.memory_bytes for d in given_domains)
    assert given == status(FOUR, *reversed(given_domains)) or len(
        {(d.name, d.uuid) for d in given_domains}
    ) < len(given_domains)


def test_guests_of_launcher_pods_are_counted_with_the_instances() -> None:
    inventory = Inventory(
        Versions("9.0.0", "7.2.22"), host(1, GIB, 4), OFFERS, (domain(memory_bytes=GIB // 4),)
    )
    pod = RunningLauncher(
        pod="p", namespace="default", name="guest", memory_bytes=GIB // 8, vcpus=2
    )
    given = status_of(inventory, {}, (pod,))
    assert given.numInstances == 2
    assert given.instances[0] == Instance("p", "default_guest", True, "default")
    assert str(given.allocation["cpu"]) == "3"
    assert given.allocation["memory"].value == GIB // 4 + GIB // 8
    assert given.cells[0].allocation == given.allocation
