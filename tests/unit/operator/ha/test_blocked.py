"""What a plan says of a host that waits, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.ha.made import (
    DEAD,
    DOWN,
    EMPTY,
    EVACUATION,
    FACTS,
    HOST,
    PROVEN,
    SETTINGS,
    S,
    hypervisor,
)
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionMode, EvictionStatus
from hypercobalt.api.fencing import ASSERTED_DEAD, Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.ha.host_failure.fencing_record import void
from hypercobalt.ha.host_failure.node_failure import Alive, Contradicted, Dead, Well
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import DeleteEviction, RecoveryPlan
from hypercobalt.operator.ha.planning.evictions import recovery
from hypercobalt.operator.ha.planning.keeping import is_empty
from hypercobalt.operator.ha.planning.returning import reboot

FENCED = replace(FACTS, hypervisor=hypervisor(DOWN, mode="ha"))
SAN = FenceSetup(storage=Means("san", 60 * S))
DOUBTED = with_fields(
    DOWN, phase=FencingPhase.FAILED, contradictedBy="a disk of vm-1 is in use", forcedDownAt=None
)
MOVES = recovery(FACTS.hypervisor, EvictionMode.LIVE, NOW)
MOVABLE = replace(FACTS, verdict=Alive(("Ready False",), movable=True))


def text_of(facts: RecoveryFacts) -> str:
    blocked = decide(facts, SETTINGS).blocked
    assert blocked is not None
    return blocked[1]


def ended(eviction: Eviction, reason: str, *entries: EvictionInstance) -> Eviction:
    done = condition("Evicting", "False", reason)
    return with_fields(eviction, status=EvictionStatus(conditions=(done,), instances=entries))


def left(**fields: object) -> EvictionInstance:
    given = {"id": "vm-1", "phase": "Succeeded", "mode": "evacuate", "target": "kvm-b", **fields}
    return EvictionInstance(finishedAt=NOW, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fence", "device"),
    [
        pytest.param(FACTS.fence, "bmc", id="by its power"),
        pytest.param(SAN, "san", id="by its storage"),
        pytest.param(FenceSetup(), "a fence device", id="by one that is no longer set up"),
    ],
)
def test_contradicted_report_names_device_evidence_and_way_out(
    fence: FenceSetup, device: str
) -> None:
    doubted = replace(FACTS, hypervisor=hypervisor(DOUBTED, mode="ha"), fence=fence)
    text = text_of(doubted)
    assert text.startswith(
        f"{device} reported the power as off, but a disk of vm-1 is in use: the host may run"
    )
    assert f"{ASSERTED_DEAD}=b1" in text
    undoubted = with_fields(DOUBTED, contradictedBy=None)
    plain = replace(doubted, hypervisor=hypervisor(undoubted, mode="ha"))
    assert "reported the power as off" not in text_of(plain)
    never = replace(FACTS, fence=fence)
    assert "reported the power as off" not in text_of(never)


def test_boot_id_that_a_captured_agent_chose_is_no_command() -> None:
    """The boot ID is in the annotation that a message advises, as an argument of `kubectl`."""
    hostile = "b1 $(id); `id`"
    quoted = f"{ASSERTED_DEAD}='{hostile}'"
    stored = with_fields(DOUBTED, bootID=hostile)
    doubted = replace(FACTS, hypervisor=hypervisor(stored, mode="ha", boot=hostile))
    assert f"{quoted}; " in text_of(doubted)
    dead = hypervisor(with_fields(DOWN, bootID=hostile), mode="ha", boot=hostile)
    unconfirmed = replace(
        FENCED, hypervisor=dead, latest=LatestReports(hostile, power=PowerReport.UNKNOWN)
    )
    assert f"{quoted} asserts that the boot is dead" in text_of(unconfirmed)


def test_one_peer_that_reaches_the_host_is_named_with_the_device_that_is_waited_for() -> None:
    reached = replace(FACTS, verdict=Dead(("silent",), reached_by="kvm-b"))
    assert text_of(reached).startswith("kvm-b alone reports that the host answers")
    assert "once bmc reports the power as off" in text_of(reached)


def test_wrong_proof_of_a_host_with_its_storage_stops_the_evacuation() -> None:
    wrong = Contradicted(("the kubelet of boot b1 reports Ready",))
    text = text_of(replace(FENCED, verdict=wrong))
    assert text.startswith("The proof that the host is dead was wrong: the kubelet of boot b1")
    early = decide(
        replace(FACTS, hypervisor=hypervisor(PROVEN, mode="ha"), verdict=wrong), SETTINGS
    )
    assert early.fencing == void(PROVEN, wrong.evidence, NOW)


def test_empty_host_names_what_its_new_hosts_have_not_stored() -> None:
    waiting = frozenset(f"vm-{number}" for number in range(7))
    text = text_of(replace(FENCED, host=EMPTY, unstored=waiting))
    assert text == (
        "None of its instances is left on the host; it stays until the agents of their new hosts "
        "have stored vm-0, vm-1, vm-2, vm-3, vm-4"
    )


def test_boot_that_the_kubelet_reports_is_no_sign_of_power() -> None:
    lives = decide(replace(FENCED, latest=LatestReports("b2")), SETTINGS).fencing
    assert lives is not None
    assert (lives.livesSince, lives.poweredSince) == (NOW, None)


def test_silent_agent_that_has_ended_nothing_gets_no_new_order() -> None:
    silent = replace(FENCED, latest=LatestReports("b1", "12:00", agent=False))
    assert decide(silent, SETTINGS).fencing == DOWN
    ordered = decide(replace(silent, stopped="all were ended"), SETTINGS).fencing
    assert ordered is not None
    assert ordered.startedAt == NOW + S


def test_host_returns_by_its_agent_s_boot_where_the_kubelet_reports_none() -> None:
    back = replace(FENCED, verdict=Well(), ready="True", latest=LatestReports(""))
    assert not decide(back, SETTINGS).returns
    other = hypervisor(DOWN, mode="ha", boot="b2")
    assert decide(replace(back, hypervisor=other), SETTINGS).returns


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(None, id="never fenced"),
        pytest.param(
            with_fields(DOWN, phase=FencingPhase.RELEASED, fencedAt=None), id="fenced before"
        ),
    ],
)
def test_failed_move_of_a_host_that_lives_is_tried_again_after_a_while(
    record: Fencing | None,
) -> None:
    failed = ended(MOVES, "Failed")
    facts = replace(MOVABLE, hypervisor=hypervisor(record, mode="ha"), evictions=(failed,))
    assert decide(facts, SETTINGS).action is None
    later = replace(facts, now=NOW + SETTINGS.again)
    assert decide(later, SETTINGS).action == DeleteEviction(failed)


@pytest.mark.parametrize(
    ("reason", "entry"),
    [
        pytest.param("Failed", left(), id="a person looks after a failed one"),
        pytest.param("Succeeded", left(mode="live"), id="it was moved, not evacuated"),
        pytest.param("Succeeded", left(phase="Failed"), id="it has not left"),
        pytest.param("Succeeded", left(target=None), id="its new host is not known"),
    ],
)
def test_instance_that_is_listed_again_is_evacuated_twice_for_one_reason_alone(
    reason: str, entry: EvictionInstance
) -> None:
    """That is, evacuated to a host that has died before it had stored the definition."""
    facts = replace(FENCED, now=NOW + 60 * S, fell={"kvm-b": NOW + 119 * S})
    over = ended(EVACUATION, reason, entry)
    assert decide(replace(facts, evictions=(over,)), SETTINGS).action is None
    twice = ended(EVACUATION, "Succeeded", left())
    found = decide(replace(facts, evictions=(twice,)), SETTINGS)
    assert found.action == DeleteEviction(twice)


def test_host_that_cannot_be_read_counts_as_empty_once_its_eviction_has_succeeded() -> None:
    over = ended(EVACUATION, "Succeeded", left())
    assert is_empty(replace(FENCED, host=None, evictions=(over,), now=NOW + 600 * S))
    assert not is_empty(replace(FENCED, host=HOST, evictions=()))


@pytest.mark.parametrize("record", [None, PROVEN], ids=["no record", "not declared dead"])
def test_host_is_not_rebooted_before_it_was_declared_dead(record: Fencing | None) -> None:
    by_agent = record and with_fields(record, method=FencingMethod.AGENT)
    plan = RecoveryPlan(NOW, by_agent)
    assert reboot(replace(FACTS, stopped="all were ended", verdict=DEAD), plan, SETTINGS) == plan
