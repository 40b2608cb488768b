"""What counts as a report that a boot's agent has ended every instance, and as an assertion."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW

from hypercobalt.api.core import Node, NodeSpec, Taint
from hypercobalt.api.fencing import (
    CLAIM,
    OUT_OF_SERVICE,
    Fencing,
    FencingMethod,
    FencingPhase,
    GuestsStopped,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.ha.observe import claim, stopped

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


TAINTED = Node(
    metadata=ObjectMeta(name="kvm-1"),
    spec=NodeSpec(taints=(Taint(OUT_OF_SERVICE, "NoExecute", "nodeshutdown"),)),
)
ASSERTED = Fencing(phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.EXTERNAL)


@pytest.mark.parametrize(
    ("record", "counts"),
    [
        pytest.param(None, True, id="nothing recorded"),
        pytest.param(ASSERTED, True, id="as recorded"),
        pytest.param(replace(ASSERTED, livesSince=NOW), False, id="the host has shown life"),
        pytest.param(
            replace(ASSERTED, livesSince=NOW, phase=FencingPhase.FAILED, method=FencingMethod.BMC),
            False,
            id="and could not be fenced anew",
        ),
        pytest.param(
            replace(ASSERTED, phase=FencingPhase.FAILED), False, id="before it was forced down"
        ),
        pytest.param(
            replace(ASSERTED, phase=FencingPhase.FAILED, method=FencingMethod.BMC), True,
            id="no device has fenced it",
        ),
        pytest.param(replace(ASSERTED, phase=FencingPhase.RELEASED), True, id="an earlier failure"),
        pytest.param(replace(ASSERTED, bootID="b0", livesSince=NOW), True, id="of a boot before"),
    ],
)  # fmt: skip
def test_taint_of_a_host_that_has_shown_life_asserts_nothing_anew(
    record: Fencing | None, *, counts: bool
) -> None:
    status = HypervisorStatus(bootID="b1", fencing=record)
    host = Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)
    assert bool(claim(host, TAINTED)) is counts
    again = replace(host, metadata=replace(host.metadata, annotations={CLAIM: "b1"}))
    assert claim(again, TAINTED), "a person asserts it again"
