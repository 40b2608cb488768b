"""A dead host lists what is still there: what its recovery has started elsewhere is taken out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.ha.made import DOWN, EMPTY, EVACUATION, FACTS, HOST, hypervisor

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, EvictionStatus, InstancePhase
from hypercobalt.api.hypervisor_host import Cell
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.model import Server, Size
from hypercobalt.ha.host_failure.doubts import LatestReports
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.recording.departed import departed, without

LISTED = tuple(Instance(f"vm-{n}", f"a{n}", active=n < 3) for n in range(1, 4))


def dead() -> RecoveryFacts:
    """A host whose recovery accounts for vm-1 and vm-3 as gone, and for vm-2 as waiting."""
    entries = (
        EvictionInstance(id="vm-1", phase=InstancePhase.SUCCEEDED, mode=EvictionMode.EVACUATE),
        EvictionInstance(id="vm-2", phase=InstancePhase.FAILED, mode=EvictionMode.EVACUATE),
        EvictionInstance(id="vm-3", phase=InstancePhase.SUCCEEDED, mode=EvictionMode.EVACUATE),
    )
    found = hypervisor(DOWN, mode="ha")
    found = recorded(with_fields(found, status=with_fields(found.status, instances=LISTED)))
    one = with_fields(EVACUATION, status=EvictionStatus(instances=entries))
    host = replace(HOST, servers=("vm-2",))
    silent = LatestReports("b1", agent=False)
    return replace(FACTS, hypervisor=found, host=host, evictions=(one,), latest=silent)


def test_what_the_recovery_has_started_elsewhere_has_departed() -> None:
    assert departed(dead()) == {"vm-1", "vm-3"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"hypervisor": hypervisor(mode="ha")}, id="the host is not proven dead"),
        pytest.param({"latest": LatestReports("b1", agent=True)}, id="its agent reports"),
        pytest.param({"host": None}, id="the compute service has no such host"),
        pytest.param({"host": replace(HOST, servers=("vm-1", "vm-2", "vm-3"))}, id="all are there"),
        pytest.param({"evictions": ()}, id="no recovery accounts for them"),
    ],
)
def test_nothing_is_taken_out_without_a_proof(changes: dict[str, object]) -> None:
    assert departed(replace(dead(), **changes)) == frozenset()  # type: ignore[arg-type]


def test_what_is_only_missing_in_the_compute_service_stays() -> None:
    """A list without an entry proves nothing: vm-2 is no instance of the compute service."""
    assert departed(replace(dead(), host=EMPTY)) == {"vm-1", "vm-3"}


def test_status_has_what_is_left_and_what_that_takes() -> None:
    cells = {"cpu": Quantity("6"), "memory": Quantity("6Gi"), "hugepages-1Gi": Quantity("0")}
    status = HypervisorStatus(instances=LISTED, numInstances=3, allocation=cells)
    left = (Server("vm-2", "a2", "kvm-a", "ACTIVE", size=Size(1.5, 2048)),)
    found = without(status, frozenset({"vm-1", "vm-3"}), left)
    assert [one.id for one in found.instances] == ["vm-2"]
    assert found.numInstances == 1
    assert found.allocation == {
        "cpu": Quantity("1.5"),
        "memory": Quantity("2Gi"),
        "hugepages-1Gi": Quantity("0"),
    }
    empty = without(status, frozenset(one.id for one in LISTED), ())
    assert (empty.instances, empty.numInstances) == ((), 0)
    assert empty.allocation["memory"] == Quantity("0")


def test_cells_of_an_empty_host_have_nothing_allocated() -> None:
    """What is left of a host is on cells that only its agent knew: they stay as it reported."""
    given = {"cpu": Quantity("6"), "hugepages-1Gi": Quantity("2")}
    cells = (Cell(0, given, {"cpu": Quantity("8")}), Cell(1, given))
    status = HypervisorStatus(instances=LISTED, numInstances=3, allocation=given, cells=cells)
    assert without(status, frozenset({"vm-1"}), ()).cells == cells
    empty = without(status, frozenset(one.id for one in LISTED), ())
    nothing = dict.fromkeys(given, Quantity("0"))
    assert [one.allocation for one in empty.cells] == [nothing, nothing]
    assert empty.cells[0].capacity == {"cpu": Quantity("8")}
    assert empty.allocation == nothing | {"memory": Quantity("0")}


def test_list_that_was_cut_counts_what_it_does_not_name() -> None:
    status = HypervisorStatus(instances=LISTED, numInstances=10)
    assert without(status, frozenset({"vm-1"}), ()).numInstances == 9
