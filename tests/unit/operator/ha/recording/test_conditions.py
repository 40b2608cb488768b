"""`Fenced`, `RecoveryBlocked`, and the Events of a recovery."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.ha.made import hypervisor
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.operator.ha.model.plan import RecoveryPlan
from hypercobalt.operator.ha.recording.conditions import notes, part
from hypercobalt.operator.shared.status_writer import FIELDS, Part

LATER = NOW + timedelta(minutes=5)
LIFE = "the kubelet reports boot b2"


def fencing(phase: FencingPhase, *evidence: str, lives: bool = False) -> Fencing:
    return Fencing(
        phase=phase,
        bootID="b1",
        device="bmc",
        attempts=2,
        proof="power is off" if phase == FencingPhase.FENCED else None,
        livesSince=NOW if lives else None,
        evidence=evidence,
    )


@pytest.mark.parametrize(
    ("record", "state", "text"),
    [
        pytest.param(
            fencing(FencingPhase.ATTEMPTING, "silent"),
            "Unknown/Attempting",
            "Attempt 2 by bmc may still switch the host off",
            id="attempt",
        ),
        pytest.param(
            replace(fencing(FencingPhase.ATTEMPTING), method="Storage", device="san"),
            "Unknown/Attempting",
            "Attempt 2 by san may still cut the host off from its storage",
            id="attempt by the storage",
        ),
        pytest.param(
            replace(fencing(FencingPhase.FENCED), method="Storage", proof="the access is off"),
            "True/Proven",
            "Boot b1 is cut off from its storage: the access is off",
            id="cut off",
        ),
        pytest.param(
            fencing(FencingPhase.FENCED, "silent"),
            "True/Proven",
            "Boot b1 is proven dead: power is off",
            id="proven",
        ),
        pytest.param(
            fencing(FencingPhase.FENCED, "silent", LIFE, lives=True),
            "Unknown/Failed",
            f"Boot b1 was proven dead, but {LIFE}",
            id="disproved",
        ),
        pytest.param(
            fencing(FencingPhase.FAILED, "silent", "bmc: no answer"),
            "Unknown/Failed",
            "Boot b1 is not proven dead: bmc: no answer",
            id="failed",
        ),
        pytest.param(
            fencing(FencingPhase.FAILED),
            "Unknown/Failed",
            "Boot b1 is not proven dead: ",
            id="failed without a word",
        ),
        pytest.param(
            fencing(FencingPhase.RELEASED, "silent"),
            "False/Released",
            "The host is back",
            id="back",
        ),
        pytest.param(
            fencing(FencingPhase.RELEASED, LIFE, lives=True),
            "False/Released",
            "The host is back",
            id="back after it was disproved",
        ),
    ],
)
def test_condition_fenced_follows_the_record(record: Fencing, state: str, text: str) -> None:
    (fenced,) = part(hypervisor(record), RecoveryPlan(None, record), NOW).conditions
    assert (fenced.type, f"{fenced.status}/{fenced.reason}") == ("Fenced", state)
    assert fenced.message == text


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (RecoveryBlockedReason.GATES_CLOSED, "True"),
        (RecoveryBlockedReason.MANY_HOSTS, "True"),
        (RecoveryBlockedReason.GATES_PASSED, "False"),
        (RecoveryBlockedReason.NOT_NEEDED, "False"),
    ],
)
def test_recovery_is_blocked_by_closed_gates(reason: RecoveryBlockedReason, status: str) -> None:
    (blocked,) = part(hypervisor(), RecoveryPlan(None, None, (reason, "why")), NOW).conditions
    assert (blocked.type, blocked.status, blocked.reason, blocked.message) == (
        "RecoveryBlocked",
        status,
        reason,
        "why",
    )


FENCED = condition("Fenced", "True", "Proven", "proven")
BLOCKED = condition("RecoveryBlocked", "True", "GatesClosed", "closed")
READY = condition("Ready", "False")


def test_conditions_that_a_plan_leaves_alone_stay_and_those_of_others_are_not_its_own() -> None:
    host = hypervisor(conditions=(READY, FENCED, BLOCKED))
    found = part(host, RecoveryPlan(LATER, None), LATER)
    assert found.conditions == (FENCED, BLOCKED)
    assert found.types == {"Fenced", "RecoveryBlocked"}
    kept = dict.fromkeys(("fencing", "assertion", "recovery"))
    assert found.fields == {"unhealthySince": LATER, **kept}
    assert found.fields.keys() <= set(FIELDS), "the writes of other controllers keep them"


LIVES = Fencing(phase="Fenced", bootID="b1", livesSince=NOW, evidence=("the kubelet reports b2",))


@pytest.mark.parametrize(
    ("returns", "reason", "text"),
    [
        (True, "Returning", "Boot b1 was proven dead; the host is back with another boot"),
        (False, "Failed", "Boot b1 was proven dead, but the kubelet reports b2"),
    ],
)
def test_host_that_is_ready_in_another_boot_is_no_failure(
    *, returns: bool, reason: str, text: str
) -> None:
    found = part(hypervisor(), RecoveryPlan(None, LIVES, returns=returns), NOW).conditions
    (fenced,) = found
    assert (fenced.status, fenced.reason, fenced.message) == ("Unknown", reason, text)


def events(host: Hypervisor, after: Part) -> list[tuple[str, str, str]]:
    return [(one.type, one.reason, one.text) for one in notes(host, after)]


@pytest.mark.parametrize(
    ("old", "new", "event"),
    [
        pytest.param(None, FENCED, ("Warning", "FencingProven", "proven"), id="proven"),
        pytest.param(
            FENCED,
            condition("Fenced", "Unknown", "Failed", "no proof"),
            ("Warning", "FencingFailed", "no proof"),
            id="disproved",
        ),
        pytest.param(
            FENCED,
            condition("Fenced", "Unknown", "Returning", "another boot"),
            ("Normal", "FencingReturning", "another boot"),
            id="an ordinary return",
        ),
        pytest.param(
            None,
            condition("Fenced", "Unknown", "Attempting", "may be"),
            ("Normal", "FencingAttempting", "may be"),
            id="attempt",
        ),
        pytest.param(
            condition("Fenced", "Unknown", "Attempting", "may be"),
            condition("Fenced", "Unknown", "Failed", "no answer"),
            ("Warning", "FencingFailed", "no answer"),
            id="attempt failed",
        ),
        pytest.param(
            FENCED,
            condition("Fenced", "False", "Released", "back"),
            ("Normal", "FencingReleased", "back"),
            id="back",
        ),
        pytest.param(FENCED, FENCED, None, id="proven before"),
        pytest.param(FENCED, replace(FENCED, message="other words"), None, id="other words"),
        pytest.param(None, BLOCKED, ("Warning", "RecoveryBlocked", "closed"), id="blocked"),
        pytest.param(
            BLOCKED,
            condition("RecoveryBlocked", "True", "ManyHosts", "many"),
            ("Warning", "RecoveryBlocked", "many"),
            id="blocked for another reason",
        ),
        pytest.param(BLOCKED, BLOCKED, None, id="blocked before"),
        pytest.param(
            BLOCKED,
            condition("RecoveryBlocked", "False", "GatesPassed", "3 open"),
            ("Normal", "RecoveryAllowed", "Every gate of the host's recovery is open"),
            id="allowed",
        ),
        pytest.param(
            BLOCKED,
            condition("RecoveryBlocked", "False", "NotNeeded", "The host is healthy"),
            None,
            id="not needed any more",
        ),
    ],
)
def test_each_change_is_an_event(
    old: Condition | None, new: Condition, event: tuple[str, str, str] | None
) -> None:
    host = hypervisor(conditions=(old,) if old is not None else ())
    found = events(host, Part(conditions=(new,), fields={"unhealthySince": NOW}))
    assert found == ([event] if event is not None else [])


@pytest.mark.parametrize("before", [None, NOW])
@pytest.mark.parametrize("since", [None, NOW])
def test_host_that_falls_ill_is_an_event_once(before: object, since: object) -> None:
    host = hypervisor()
    host = replace(host, status=replace(host.status, unhealthySince=before))
    found = events(host, Part(fields={"unhealthySince": since}))
    text = "The Node is not Ready since 00:00:00Z"
    assert found == ([("Warning", "HostUnwell", text)] if since and not before else [])
