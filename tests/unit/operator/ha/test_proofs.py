"""What counts as a report that a boot's agent has ended every instance, and as an assertion."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.records import recorded
from tests.unit.operator.samples import NOW

from hypercobalt.api.core import (
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from hypercobalt.api.fencing import (
    ASSERTED_DEAD,
    OUT_OF_SERVICE,
    Assertion,
    Fencing,
    FencingMethod,
    FencingPhase,
    GuestsStopped,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.host_failure.assertions import LastReports
from hypercobalt.ha.host_failure.doubts import PowerReport
from hypercobalt.operator.ha.observing.signs import (
    Asserted,
    asserted_death,
    declared_dead,
    powered_since,
    reported_at,
    stopped,
    with_power,
    with_record,
)

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
    found = stopped(recorded(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status)))
    assert bool(found) is counts


TAINTED = Node(
    metadata=ObjectMeta(name="kvm-1"),
    spec=NodeSpec(taints=(Taint(OUT_OF_SERVICE, "NoExecute", "nodeshutdown"),)),
)


@pytest.mark.parametrize(
    ("asserted", "newest", "power", "believed_"),
    [
        pytest.param("b1", "b1", PowerReport.OFF, True, id="the boot of both"),
        pytest.param("b1", "", PowerReport.OFF, True, id="the Node is gone"),
        pytest.param("b1", "b2", PowerReport.OFF, False, id="one that its kubelet has left behind"),
        pytest.param("b2", "b2", PowerReport.OFF, True, id="the kubelet's"),
        pytest.param("b1", "b1", PowerReport.ON, False, id="but its power is on"),
        pytest.param("b1", "b1", PowerReport.UNKNOWN, True, id="no device answers"),
    ],
)
def test_assertion_counts_for_the_newest_boot_of_a_host_that_is_not_on(
    asserted: str, newest: str, power: PowerReport, *, believed_: bool
) -> None:
    meta = ObjectMeta(name="kvm-1", annotations={ASSERTED_DEAD: asserted})
    host = Hypervisor(metadata=meta, status=HypervisorStatus(bootID="b1"))
    status = NodeStatus(nodeInfo=NodeSystemInfo(bootID=newest))
    found = with_power(asserted_death(host, Node(metadata=meta, status=status)), power, "bmc")
    assert asserted in found.text
    assert (found.doubt == "") is believed_


UNTAINTED = Node(metadata=ObjectMeta(name="kvm-1"))
DRAINED = replace(TAINTED, spec=NodeSpec(taints=(Taint("maintenance", "NoExecute"),)))


def test_taint_and_annotation_assert_it_and_the_annotation_goes_first() -> None:
    host = Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=HypervisorStatus(bootID="b1"))
    assert asserted_death(host, TAINTED).by == f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute"
    assert asserted_death(host, DRAINED) == Asserted()
    noted = replace(host, metadata=replace(host.metadata, annotations={ASSERTED_DEAD: "b1"}))
    assert asserted_death(noted, TAINTED).by == f"{ASSERTED_DEAD}=b1"


@pytest.mark.parametrize(
    ("boot", "annotations"),
    [
        pytest.param("b1", {}, id="nothing is asserted"),
        pytest.param(None, {}, id="nothing is asserted of a host that has not reported"),
        pytest.param("b1", {ASSERTED_DEAD: "b0"}, id="of a boot before"),
        pytest.param("b1", {ASSERTED_DEAD: ""}, id="of no boot"),
        pytest.param(None, {ASSERTED_DEAD: "b0"}, id="of a host that has not reported"),
    ],
)
def test_assertion_of_no_known_boot_is_none(boot: str | None, annotations: dict[str, str]) -> None:
    meta = ObjectMeta(name="kvm-1", annotations=annotations)
    host = Hypervisor(metadata=meta, status=HypervisorStatus(bootID=boot))
    assert asserted_death(host, UNTAINTED) == Asserted()


@pytest.mark.parametrize(
    ("asserted", "doubt"),
    [
        pytest.param(Asserted(), "", id="nothing is asserted"),
        pytest.param(
            Asserted("by", "dead"), "dead, but bmc reports the power of the host as on", id="dead"
        ),
        pytest.param(
            Asserted("by", "dead", "left behind"), "left behind", id="does not count anyhow"
        ),
    ],
)
def test_power_that_is_on_speaks_against_what_is_asserted(asserted: Asserted, doubt: str) -> None:
    assert with_power(asserted, PowerReport.ON, "bmc").doubt == doubt


DOWN = Fencing(phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.BMC, forcedDownAt=NOW)


@pytest.mark.parametrize(
    ("record", "boots"),
    [
        pytest.param(None, set[str](), id="never fenced"),
        pytest.param(DOWN, {"b1"}, id="declared dead"),
        pytest.param(replace(DOWN, forcedDownAt=None), {"b1"}, id="proven dead"),
        pytest.param(replace(DOWN, nodeBootID="b2"), {"b1", "b2"}, id="and a boot of its kubelet"),
        pytest.param(replace(DOWN, phase=FencingPhase.ATTEMPTING), {"b1"}, id="fenced anew"),
        pytest.param(
            replace(DOWN, phase=FencingPhase.ATTEMPTING, forcedDownAt=None), set[str](),
            id="not proven yet",
        ),
        pytest.param(replace(DOWN, phase=FencingPhase.RELEASED), set[str](), id="taken back"),
        pytest.param(
            replace(DOWN, method=FencingMethod.AGENT), set[str](), id="by its agent, which lives"
        ),
    ],
)  # fmt: skip
def test_boots_count_as_dead_until_their_host_is_taken_back(
    record: Fencing | None, boots: set[str]
) -> None:
    status = HypervisorStatus(bootID="b1", fencing=record)
    assert (
        declared_dead(recorded(Hypervisor(metadata=ObjectMeta(name="k"), status=status))) == boots
    )


POWERED = replace(DOWN, poweredSince=NOW)


@pytest.mark.parametrize(
    ("record", "boot", "newest", "on"),
    [
        pytest.param(None, "b1", "b1", False, id="never fenced"),
        pytest.param(DOWN, "b1", "b1", False, id="its power is off"),
        pytest.param(POWERED, "b1", "b1", True, id="nothing of it has reported since"),
        pytest.param(POWERED, "b1", None, True, id="its Node has reported nothing"),
        pytest.param(POWERED, None, None, True, id="nothing has ever reported"),
        pytest.param(POWERED, "b1", "b2", False, id="its kubelet has"),
        pytest.param(POWERED, "b2", "b1", False, id="its node agent has"),
        pytest.param(
            replace(POWERED, nodeBootID="b2"), "b1", "b2", True, id="in a boot that is proven, too"
        ),
        pytest.param(
            replace(POWERED, phase=FencingPhase.RELEASED), "b1", "b1", False, id="taken back"
        ),
    ],
)
def test_power_of_a_dead_host_is_on_until_a_boot_that_is_not_proven_dead_has_reported(
    record: Fencing | None, boot: str | None, newest: str | None, *, on: bool
) -> None:
    status = HypervisorStatus(bootID=boot, fencing=record)
    host = recorded(Hypervisor(metadata=ObjectMeta(name="k"), status=status))
    info = None if newest is None else NodeSystemInfo(bootID=newest)
    node = Node(metadata=ObjectMeta(name="k"), status=NodeStatus(nodeInfo=info))
    assert powered_since(host, node) == (NOW if on else None)


BY = Asserted(f"{ASSERTED_DEAD}=b1", "a person asserts it")
DOUBTED = dataclasses.replace(BY, doubt="power is on")
KNOWN = Assertion(by=BY.by, seenAt=NOW, leaseRenewedAt="12:00")


@pytest.mark.parametrize(
    ("found", "stored", "lease", "doubt"),
    [
        pytest.param(BY, KNOWN, "12:00", "", id="recorded"),
        pytest.param(BY, None, "12:00", "not recorded that yet", id="just seen"),
        pytest.param(BY, KNOWN, "12:10", "has reported since: remove it", id="disproved"),
        pytest.param(BY, KNOWN, None, "has not been read yet", id="it may have renewed its Lease"),
        pytest.param(DOUBTED, None, "12:00", "power is on", id="doubted"),
        pytest.param(Asserted(), KNOWN, "12:10", "", id="taken away"),
    ],
)
def test_assertion_that_does_not_count_has_a_reason(
    found: Asserted, stored: Assertion | None, lease: str | None, doubt: str
) -> None:
    after = with_record(found, stored, LastReports(lease, None), NOW)
    assert doubt in after.doubt
    assert bool(after.doubt) is bool(doubt)
    assert (after.record is None) is (found.by == "")


@pytest.mark.parametrize(("status", "expected"), [("True", NOW), ("False", NOW), ("Unknown", None)])
def test_unknown_status_is_no_report_of_the_kubelet(status: str, expected: datetime | None) -> None:
    later = NOW + timedelta(seconds=10)
    other = NodeCondition("DiskPressure", "False", lastHeartbeatTime=later)
    ready = NodeCondition("Ready", status, lastHeartbeatTime=NOW)
    assert reported_at(Node(status=NodeStatus(conditions=(other, ready)))) == expected
    assert reported_at(Node()) is None
