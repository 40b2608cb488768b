"""What counts as a report that a boot's agent has ended every instance."""

from __future__ import annotations

import pytest
from tests.unit.operator.samples import NOW

from hypercobalt.api.fencing import Fencing, FencingPhase, GuestsStopped
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.ha.observe import stopped

ORDER = Fencing(phase=FencingPhase.FENCED, bootID="b1", startedAt=NOW)


@pytest.mark.parametrize(
    ("boot", "report", "order", "counts"),
    [
        pytest.param("b1", GuestsStopped("b1", NOW), ORDER, True, id="by this order"),
        pytest.param("b2", GuestsStopped("b1", NOW), ORDER, False, id="in an earlier boot"),
        pytest.param("b1", GuestsStopped("b1"), ORDER, False, id="without an order"),
        pytest.param("b1", GuestsStopped("b1", NOW), None, False, id="the order is gone"),
        pytest.param("b1", None, ORDER, False, id="nothing reported"),
        pytest.param("", GuestsStopped("", NOW), ORDER, False, id="both boots unknown"),
        pytest.param(
            "b1", GuestsStopped("b1"), Fencing(phase=FencingPhase.FENCED, bootID="b1"), False,
            id="both times unknown",
        ),
    ],
)  # fmt: skip
def test_ended_instances_are_a_proof_for_their_own_boot_and_order(
    boot: str, report: GuestsStopped | None, order: Fencing | None, *, counts: bool
) -> None:
    status = HypervisorStatus(bootID=boot, fencing=order, guestsStopped=report)
    found = stopped(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status))
    assert bool(found) is counts
