"""The next step for a host, by its verdict, its gates and what is recorded."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.ha.made import (
    ATTEMPT,
    CLOSED,
    DEAD,
    DOWN,
    EMPTY,
    EVACUATION,
    FACTS,
    HEALTHY,
    HOST,
    OPEN,
    PROVEN,
    SETTINGS,
    S,
    hypervisor,
)
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import (
    Eviction,
    EvictionInstance,
    EvictionMode,
    EvictionStatus,
    Trigger,
    whole_host,
)
from hypercobalt.api.fencing import (
    ASSERTED_DEAD,
    OUT_OF_SERVICE,
    Assertion,
    Fencing,
    FencingMethod,
    FencingPhase,
)
from hypercobalt.api.hypervisor import is_fenced
from hypercobalt.api.hypervisor_conditions import RecoveryBlockedReason
from hypercobalt.api.hypervisor_status import Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.ha.host_failure.fencing import Fence
from hypercobalt.ha.host_failure.fencing_record import DeviceAnswer, answered, overtaken
from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.ha.host_failure.node_failure import (
    Alive,
    Contradicted,
    Dead,
    HostVerdict,
    RebootGrace,
    Returned,
    Suspected,
    Well,
)
from hypercobalt.ha.host_failure.rebooting import Reboot
from hypercobalt.ha.host_failure.unfencing import GiveBack
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import (
    Action,
    AskPeers,
    DeleteEviction,
    Evict,
    ForceDown,
    RecoveryPlan,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.planning.evictions import recovery
from hypercobalt.operator.ha.planning.keeping import is_over, is_to_be_kept

LIVE = recovery(FACTS.hypervisor, EvictionMode.LIVE, NOW)
LIVES = with_fields(DOWN, livesSince=NOW)
FOREIGN = with_fields(LIVE, metadata=ObjectMeta(name="upgrade"))
COLD = with_fields(FOREIGN, spec=with_fields(LIVE.spec, mode="cold"))
DRAIN = whole_host(FACTS.hypervisor, "update", Trigger.MAINTENANCE, owner=None)
BY_HAND = with_fields(DRAIN, spec=with_fields(DRAIN.spec, mode="evacuate"))


def made_at(eviction: Eviction, at: datetime) -> Eviction:
    """The Eviction, made at a time."""
    return with_fields(eviction, metadata=with_fields(eviction.metadata, creationTimestamp=at))


def over(eviction: Eviction, reason: str = "Succeeded", *, gone: tuple[str, ...] = ()) -> Eviction:
    done = condition("Evicting", "False", reason)
    entries = tuple(
        EvictionInstance(id=one, phase="Succeeded", mode="evacuate", target="kvm-b", finishedAt=NOW)
        for one in gone
    )
    return with_fields(eviction, status=EvictionStatus(conditions=(done,), instances=entries))


FELL = {"fell": {"kvm-b": NOW + 119 * S}}
"""The new host of what was evacuated has died at once."""


def planned(given: RecoveryFacts = FACTS, /, **changes: object) -> RecoveryPlan:
    return decide(replace(given, **changes), SETTINGS)  # type: ignore[arg-type]


def fenced(fencing: Fencing = DOWN, *, mode: str = "ha", before: str = "") -> RecoveryFacts:
    return replace(FACTS, hypervisor=hypervisor(fencing, mode=mode, before=before))


# -- a silent host is fenced -----------------------------------------------------------------------


def test_dead_host_gets_an_attempt_recorded_before_anything_is_called() -> None:
    plan = planned()
    assert plan == RecoveryPlan(
        NOW, ATTEMPT, (RecoveryBlockedReason.GATES_PASSED, "MaxUnhealthy open: few"), None, 0 * S
    )


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        pytest.param({}, None, id="the attempt is another process's"),
        pytest.param({"mine": ATTEMPT.deadline}, Fence(ATTEMPT), id="the own one is called"),
        pytest.param(
            {"mine": ATTEMPT.deadline, "verdict": Dead(("silent",), "kvm-b")},
            Fence(ATTEMPT, "kvm-b"),
            id="of a host that one peer reaches the power is only read",
        ),
        pytest.param({"mine": ATTEMPT.deadline, "gates": (CLOSED,)}, None, id="gates have closed"),
        pytest.param(
            {"mine": ATTEMPT.deadline, "verdict": Suspected(())}, None, id="no longer judged dead"
        ),
        pytest.param({"mine": ATTEMPT.deadline, "silenced": "paused"}, None, id="silenced"),
    ],
)
def test_device_is_called_for_the_own_attempt_on_a_host_that_is_judged_dead(
    changes: dict[str, object], action: Action | None
) -> None:
    plan = planned(fenced(ATTEMPT), **changes)
    assert (plan.action, plan.fencing) == (action, ATTEMPT)
    assert plan.look_again == (0 * S if action else 5 * S)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"gates": (CLOSED,)}, id="a gate is closed"),
        pytest.param({"silenced": "paused"}, id="silenced"),
        pytest.param({"verdict": Suspected(("silent",))}, id="suspected"),
        pytest.param({"verdict": RebootGrace(("silent",), NOW + S)}, id="rebooting"),
        pytest.param({"hypervisor": hypervisor(mode="ha", boot="")}, id="no boot is known"),
        pytest.param({"hypervisor": hypervisor(boot="")}, id="nor is it taken out of service"),
    ],
)
def test_no_attempt_is_recorded_or_called(changes: dict[str, object]) -> None:
    plan = planned(FACTS, **changes)
    assert (plan.fencing, plan.action) == (None, None)


@pytest.mark.parametrize(
    ("verdict", "gates", "action"),
    [
        (Suspected(("silent",), probe=True), (OPEN,), AskPeers()),
        (Suspected(("silent",), probe=True), (CLOSED,), None),
        (Suspected(("silent",)), (OPEN,), None),
        (RebootGrace(("silent",), NOW + S), (OPEN,), None),
    ],
)
def test_peers_probe_while_the_gates_are_open(
    verdict: HostVerdict, gates: tuple[Gate, ...], action: Action | None
) -> None:
    assert planned(verdict=verdict, gates=gates).action == action


@pytest.mark.parametrize(
    ("mode", "action"),
    [
        ("", SetMaintenance("ha", before="")),
        ("termination", SetMaintenance("ha", before="termination")),
        ("ha", None),
        ("manual", None),
        ("auto", None),
    ],
)
def test_maintenance_is_set_before_the_attempt_where_it_may_be(
    mode: str, action: Action | None
) -> None:
    plan = planned(hypervisor=hypervisor(mode=mode))
    assert (plan.action, plan.fencing) == (action, None if action else ATTEMPT)
    assert plan.look_again == 0 * S


@pytest.mark.parametrize("verdict", [Suspected(("silent",)), RebootGrace(("silent",), NOW + S)])
def test_host_that_is_not_judged_dead_stays_in_service(verdict: HostVerdict) -> None:
    assert planned(hypervisor=hypervisor(), verdict=verdict).action is None


@pytest.mark.parametrize(
    ("changes", "method"),
    [
        pytest.param({"asserted": "ops"}, FencingMethod.EXTERNAL, id="asserted by a person"),
    ],
)
@pytest.mark.parametrize(
    "verdict", [DEAD, Suspected(("silent",), probe=True), RebootGrace((), NOW + S)]
)
def test_proof_that_is_free_is_recorded_at_once_whatever_the_gates(
    verdict: HostVerdict, changes: dict[str, object], method: FencingMethod
) -> None:
    plan = planned(FACTS, verdict=verdict, gates=(CLOSED,), **changes)
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.fencing.method) == (FencingPhase.FENCED, method)
    assert (plan.action, plan.look_again) == (None, 0 * S)


@pytest.mark.parametrize("verdict", [DEAD, Suspected(("silent",)), RebootGrace((), NOW + S)])
def test_boot_that_only_the_kubelet_has_reported_is_fenced_as_any(verdict: HostVerdict) -> None:
    """Its agent does not run, but instances may: Nova or their owners can start them."""
    for stopped in ("", "all were ended before"):
        plan = planned(verdict=verdict, latest=LatestReports("b2"), stopped=stopped)
        attempt = with_fields(ATTEMPT, nodeBootID="b2", leaseRenewedAt=None)
        assert (plan.fencing, plan.action) == (attempt if verdict == DEAD else None, None)


@pytest.mark.parametrize(
    ("verdict", "again"),
    [
        (Suspected((), NOW + 3 * S), 3 * S),
        (Suspected((), NOW + 9 * S), 5 * S),
        (Suspected((), NOW - 3 * S), 0 * S),
        (Suspected(()), 5 * S),
        (RebootGrace((), NOW + 2 * S), 2 * S),
    ],
)
def test_host_is_looked_at_again_when_its_wait_is_over(
    verdict: HostVerdict, again: timedelta
) -> None:
    assert planned(verdict=verdict).look_again == again


def test_attempt_that_is_under_way_is_looked_at_again_at_its_end() -> None:
    plan = planned(fenced(ATTEMPT), now=NOW + 59 * S)
    assert (plan.action, plan.look_again) == (None, 2 * S)


def test_attempt_of_before_the_clock_was_set_back_is_corrected_first() -> None:
    plan = planned(fenced(ATTEMPT), now=NOW - 3600 * S, mine=ATTEMPT.deadline)
    assert plan.fencing is not None
    assert plan.fencing.phase == FencingPhase.FAILED
    assert plan.fencing.deadline == NOW - 2900 * S
    assert (plan.action, plan.look_again) == (None, 0 * S)


def test_silent_host_is_unwell_since_it_was_seen_so_first() -> None:
    first = with_fields(
        FACTS.hypervisor, status=with_fields(FACTS.hypervisor.status, unhealthySince=None)
    )
    late = NOW + timedelta(seconds=7, milliseconds=9)
    assert planned(hypervisor=first, now=late).unhealthy_since == NOW + 7 * S
    assert planned(now=late).unhealthy_since == NOW
    assert planned(now=NOW - 3600 * S).unhealthy_since == NOW - 3600 * S, "the clock went back"
    assert planned(verdict=Well(), ready="True").unhealthy_since is None
    assert planned(verdict=Well(), ready="").unhealthy_since is None


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        ((OPEN,), RecoveryBlockedReason.GATES_PASSED),
        ((OPEN, CLOSED), RecoveryBlockedReason.MANY_HOSTS),
        ((OPEN, Gate("Silenced", False, "paused")), RecoveryBlockedReason.GATES_CLOSED),
        (
            (replace(OPEN, storm=True), Gate("Silenced", False, "paused")),
            RecoveryBlockedReason.GATES_CLOSED,
        ),
    ],
)
def test_condition_recovery_blocked_names_its_reason(
    gates: tuple[Gate, ...], reason: RecoveryBlockedReason
) -> None:
    blocked = planned(gates=gates).blocked
    assert blocked is not None
    assert blocked[0] == reason


# -- a host that is proven dead is evacuated -------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "changes", "action"),
    [
        pytest.param(fenced(PROVEN), {}, ForceDown(PROVEN), id="forced down first"),
        pytest.param(
            fenced(PROVEN, mode=""), {}, SetMaintenance("ha"), id="in maintenance before that"
        ),
        pytest.param(fenced(), {}, Evict(EVACUATION), id="then evacuated"),
        pytest.param(fenced(mode="manual"), {}, Evict(EVACUATION), id="in a person's maintenance"),
        pytest.param(fenced(), {"gates": (CLOSED,)}, Evict(EVACUATION), id="whatever the gates"),
        pytest.param(fenced(), {"silenced": "paused"}, None, id="silenced"),
        pytest.param(fenced(), {"host": None}, Evict(EVACUATION), id="unknown to Nova for now"),
        pytest.param(fenced(), {"host": EMPTY}, None, id="nothing is on it"),
        pytest.param(fenced(), {"evictions": (EVACUATION,)}, None, id="under way"),
        pytest.param(
            fenced(), {"evictions": (LIVE,)}, DeleteEviction(LIVE), id="a live one cannot go on"
        ),
        pytest.param(
            fenced(), {"evictions": (FOREIGN,)}, Evict(EVACUATION), id="a person's cannot go on"
        ),
        pytest.param(
            fenced(), {"evictions": (COLD,)}, Evict(EVACUATION), id="nor can one that moves cold"
        ),
        pytest.param(fenced(), {"evictions": (DRAIN,)}, None, id="that of a maintenance evacuates"),
        pytest.param(
            fenced(), {"evictions": (BY_HAND,)}, None, id="so does one that a person has made"
        ),
        pytest.param(
            fenced(),
            {"evictions": (FOREIGN, EVACUATION)},
            None,
            id="under way beside a person's",
        ),
        pytest.param(
            fenced(),
            {"evictions": (FOREIGN, over(EVACUATION))},
            None,
            id="over, whatever a person's still waits for",
        ),
        pytest.param(fenced(), {"evictions": (over(EVACUATION),)}, None, id="it has succeeded"),
        pytest.param(
            fenced(),
            {"evictions": (over(EVACUATION, gone=("vm-1",)),), "now": NOW + 59 * S, **FELL},
            None,
            id="it has succeeded just now: the list of the host may be older",
        ),
        pytest.param(
            fenced(),
            {"evictions": (over(EVACUATION, gone=("vm-1",)),), "now": NOW + 60 * S, **FELL},
            DeleteEviction(over(EVACUATION, gone=("vm-1",))),
            id="it has succeeded, and what it evacuated is back: its new host has died, too",
        ),
        pytest.param(
            fenced(),
            {"evictions": (over(EVACUATION, gone=("vm-2",)),), "now": NOW + 60 * S, **FELL},
            None,
            id="it has succeeded, and left what it lists as staying",
        ),
        pytest.param(
            fenced(),
            {"evictions": (over(EVACUATION, gone=("vm-1",)),), "now": NOW + 600 * S},
            None,
            id="its new host lives: its owner has removed what it evacuated",
        ),
        pytest.param(
            fenced(),
            {
                "evictions": (over(EVACUATION, gone=("vm-1",)),),
                "now": NOW + 600 * S,
                "fell": {"kvm-b": NOW + 120 * S},
            },
            None,
            id="its new host has died later, when it had stored what is there",
        ),
        pytest.param(
            fenced(),
            {"evictions": (over(LIVE),)},
            Evict(EVACUATION),
            id="a live one has left what was off",
        ),
        pytest.param(
            fenced(), {"evictions": (over(EVACUATION, "Failed"),)}, None, id="it has failed"
        ),
        pytest.param(
            fenced(),
            {"evictions": (over(EVACUATION, "Failed"),), "now": NOW + 600 * S},
            DeleteEviction(over(EVACUATION, "Failed")),
            id="it has failed ten minutes ago: another one is made next",
        ),
        pytest.param(
            fenced(with_fields(DOWN, fencedAt=NOW + 2 * S)),
            {"evictions": (over(EVACUATION, "Failed"),), "now": NOW + 3 * S},
            DeleteEviction(over(EVACUATION, "Failed")),
            id="it has failed before the proof was confirmed: another one is made at once",
        ),
        pytest.param(
            fenced(with_fields(DOWN, fencedAt=NOW)),
            {"evictions": (made_at(over(EVACUATION, "Failed"), NOW - 60 * S),), "now": NOW + 3 * S},
            DeleteEviction(made_at(over(EVACUATION, "Failed"), NOW - 60 * S)),
            id="it has failed by what it had read before the proof was confirmed",
        ),
        pytest.param(
            fenced(with_fields(DOWN, fencedAt=NOW - 60 * S)),
            {"evictions": (made_at(over(EVACUATION, "Failed"), NOW - 30 * S),), "now": NOW + 3 * S},
            None,
            id="it was made with the newest proof, and has failed",
        ),
        pytest.param(
            fenced(), {"evictions": (over(FOREIGN),)}, Evict(EVACUATION), id="another has succeeded"
        ),
        pytest.param(
            fenced(), {"evictions": (over(LIVE, "Failed"),)}, Evict(EVACUATION), id="a live failed"
        ),
        pytest.param(
            fenced(before="termination"),
            {"host": EMPTY},
            SetMaintenance("termination"),
            id="empty, and to go for good",
        ),
        pytest.param(
            fenced(before="termination"),
            {"host": None, "evictions": (over(EVACUATION),)},
            SetMaintenance("termination"),
            id="empty by the end of its Eviction, and to go for good",
        ),
        pytest.param(
            fenced(mode=""), {"host": EMPTY}, SetMaintenance("ha"), id="empty, and in service"
        ),
        pytest.param(
            fenced(before="manual"), {"host": EMPTY}, None, id="its mode comes back with the host"
        ),
        pytest.param(
            fenced(mode="termination"), {"host": EMPTY}, None, id="empty: stays in termination"
        ),
        pytest.param(
            fenced(mode="termination", before="termination"),
            {"host": EMPTY},
            None,
            id="and is not set again",
        ),
    ],
)
def test_host_that_is_proven_dead_is_evacuated_step_by_step(
    given: RecoveryFacts, changes: dict[str, object], action: Action | None
) -> None:
    plan = planned(given, **changes)
    assert plan.action == action
    assert plan.look_again == (0 * S if isinstance(action, ForceDown | SetMaintenance) else 5 * S)


def test_proof_of_a_former_boot_evacuates_nothing() -> None:
    given = hypervisor(with_fields(DOWN, bootID="b0"), mode="ha")
    plan = planned(hypervisor=given)
    assert plan.action is None
    assert plan.fencing == ATTEMPT


# -- its agent has ended every instance ------------------------------------------------------------


def test_agent_that_has_ended_every_instance_is_a_proof() -> None:
    plan = planned(verdict=Alive(("lease",)), stopped="all were ended")
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.fencing.method) == (FencingPhase.FENCED, FencingMethod.AGENT)
    assert (plan.action, plan.look_again) == (None, 0 * S)
    by_agent = with_fields(DOWN, method=FencingMethod.AGENT)
    then = planned(fenced(by_agent), verdict=Alive(("lease",)), stopped="all were ended")
    assert then.action == Evict(EVACUATION)
    silenced = planned(verdict=Alive(()), stopped="all were ended", silenced="paused")
    assert (silenced.fencing, silenced.action) == (None, None)


_Why = RecoveryBlockedReason
BY_AGENT = with_fields(DOWN, method=FencingMethod.AGENT)
ORDERED = with_fields(BY_AGENT, rebootDeadline=NOW + 121 * S)
REFUSED = with_fields(ORDERED, evidence=("reboot: 409",))
MINE = NOW + 121 * S
EMPTIED = {"host": EMPTY, "stopped": "all were ended", "verdict": Well(), "ready": "True"}
OF_WELL_NODE = recovery(FACTS.hypervisor, EvictionMode.EVACUATE, None)
SILENT = {"stopped": "", "verdict": DEAD, "ready": "Unknown"}


@pytest.mark.parametrize(
    ("given", "changes", "record", "action", "blocked"),
    [
        pytest.param(
            fenced(BY_AGENT),
            {},
            ORDERED,
            None,
            (_Why.NOT_NEEDED, "bmc reboots it"),
            id="recorded before the call",
        ),
        pytest.param(
            fenced(ORDERED),
            {"mine": MINE},
            ORDERED,
            Reboot(ORDERED),
            (_Why.NOT_NEEDED, "bmc reboots it"),
            id="then called",
        ),
        pytest.param(
            fenced(REFUSED),
            {},
            REFUSED,
            None,
            (_Why.AWAITS_REBOOT, "reboot it; 409"),
            id="refused",
        ),
        pytest.param(
            fenced(BY_AGENT),
            {"fence": FenceSetup()},
            BY_AGENT,
            None,
            (_Why.AWAITS_REBOOT, "reboot it; no fence device switches its power"),
            id="no device",
        ),
        pytest.param(
            fenced(BY_AGENT, mode="manual"),
            {},
            BY_AGENT,
            None,
            (_Why.AWAITS_REBOOT, "reboot it; it is in maintenance manual"),
            id="a person works on it",
        ),
        pytest.param(
            fenced(BY_AGENT),
            SILENT,
            BY_AGENT,
            None,
            (_Why.NOT_NEEDED, "None of its instances is left on the host"),
            id="a dead host waits for its repair",
        ),
        pytest.param(
            fenced(BY_AGENT), {"host": HOST}, BY_AGENT, Evict(OF_WELL_NODE), None, id="one is left"
        ),
        pytest.param(
            fenced(BY_AGENT),
            {"silenced": "paused"},
            BY_AGENT,
            None,
            (_Why.GATES_PASSED, "MaxUnhealthy open: few"),
            id="paused",
        ),
    ],
)
def test_host_that_was_fenced_wrongly_is_rebooted_once_it_is_empty(
    given: RecoveryFacts,
    changes: dict[str, object],
    record: Fencing,
    action: Action | None,
    blocked: tuple[RecoveryBlockedReason, str] | None,
) -> None:
    plan = planned(given, **{**EMPTIED, **changes})
    assert (plan.fencing, plan.action) == (record, action)
    assert (plan.blocked is None) is (blocked is None)
    if plan.blocked is not None and blocked is not None:
        assert (plan.blocked[0], plan.blocked[1][-len(blocked[1]) :]) == blocked


@pytest.mark.parametrize(
    ("verdict", "boot", "returns"),
    [
        pytest.param(Well(), "b2", True, id="Ready in another boot"),
        pytest.param(Well(), "b1", False, id="in the boot that was fenced"),
        pytest.param(DEAD, "b2", False, id="silent in another boot"),
    ],
)
def test_host_returns_when_it_is_ready_in_a_boot_that_nothing_has_proven_dead(
    verdict: Well | Dead, boot: str, *, returns: bool
) -> None:
    plan = planned(fenced(BY_AGENT), verdict=verdict, ready="True", latest=LatestReports(boot))
    assert plan.returns is returns


def test_host_that_was_fenced_wrongly_waits_for_a_person_where_the_site_has_it_so() -> None:
    facts = replace(fenced(BY_AGENT), **EMPTIED)  # type: ignore[arg-type]
    plan = decide(facts, replace(SETTINGS, reboots=False))
    assert plan.action is None
    assert plan.blocked is not None
    assert plan.blocked[1].endswith("reboot it; --ha-reboot-fenced is off")


# -- a host that lives -----------------------------------------------------------------------------

ALIVE = Alive(("the node agent renews its Lease",), movable=True)


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        pytest.param({}, Evict(LIVE), id="its instances migrate"),
        pytest.param({"verdict": replace(ALIVE, until=NOW + S)}, None, id="not before its wait"),
        pytest.param({"verdict": replace(ALIVE, movable=False)}, None, id="nor without compute"),
        pytest.param({"silenced": "paused"}, None, id="silenced"),
        pytest.param({"gates": (CLOSED,)}, None, id="a gate is closed"),
        pytest.param({"evictions": (LIVE,)}, None, id="they migrate already"),
        pytest.param({"evictions": (FOREIGN,)}, None, id="by a person's Eviction"),
        pytest.param(
            {"hypervisor": hypervisor()}, SetMaintenance("ha"), id="in maintenance before"
        ),
    ],
)
def test_host_that_lives_is_never_fenced(changes: dict[str, object], action: Action | None) -> None:
    plan = planned(replace(FACTS, verdict=ALIVE), **changes)
    assert (plan.action, plan.fencing) == (action, None)


@pytest.mark.parametrize(
    ("mode", "before", "action"),
    [
        pytest.param("ha", "termination", SetMaintenance("termination"), id="goes on leaving"),
        pytest.param("termination", "", None, id="stays in termination"),
        pytest.param("ha", "", None, id="waits for the host"),
    ],
)
def test_host_whose_running_instances_have_migrated_returns_to_its_maintenance(
    mode: str, before: str, action: Action | None
) -> None:
    given = hypervisor(mode=mode, before=before)
    plan = planned(hypervisor=given, verdict=ALIVE, evictions=(over(LIVE),))
    assert (plan.action, plan.fencing) == (action, None)


def test_host_that_lives_without_its_compute_service_is_named() -> None:
    blocked = planned(verdict=replace(ALIVE, movable=False)).blocked
    assert blocked is not None
    assert blocked[0] == RecoveryBlockedReason.GATES_CLOSED
    assert "the node agent renews its Lease" in blocked[1]
    assert "; MaxUnhealthy open: few" in blocked[1]


@pytest.mark.parametrize(
    ("gates", "reason"),
    [
        ((OPEN,), RecoveryBlockedReason.GATES_PASSED),
        ((CLOSED,), RecoveryBlockedReason.MANY_HOSTS),
    ],
)
def test_gates_have_their_answers_while_a_host_that_lives_is_waited_for(
    gates: tuple[Gate, ...], reason: RecoveryBlockedReason
) -> None:
    plan = planned(verdict=replace(ALIVE, until=NOW + 2 * S), gates=gates)
    assert plan.blocked is not None
    assert (plan.blocked[0], plan.look_again) == (reason, 2 * S)


# -- a proof was wrong -----------------------------------------------------------------------------


def test_wrong_proof_is_void_before_its_evacuation_is_stopped() -> None:
    wrong = Contradicted(("it is Ready",))
    plan = planned(fenced(PROVEN), verdict=wrong, evictions=(EVACUATION,))
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.fencing.proof) == (FencingPhase.FAILED, None)
    assert plan.action is None
    assert plan.blocked is not None
    assert "it is Ready" in plan.blocked[1]


@pytest.mark.parametrize(
    ("evictions", "action"),
    [
        ((EVACUATION,), DeleteEviction(EVACUATION)),
        ((over(EVACUATION),), None),
        ((FOREIGN,), None),
        ((), None),
    ],
)
def test_evacuation_of_a_host_that_lives_is_stopped(
    evictions: tuple[Eviction, ...], action: Action | None
) -> None:
    wrong = Contradicted(("Ready",))
    first = planned(fenced(DOWN), verdict=wrong, evictions=evictions)
    assert (first.action, first.fencing) == (None, overtaken(DOWN, ("Ready",), NOW))
    assert first.blocked is not None
    plan = planned(fenced(LIVES), verdict=wrong, evictions=evictions)
    assert (plan.action, plan.fencing) == (action, LIVES)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"verdict": Alive(("lease",))}, id="its agent"),
        pytest.param({"verdict": Alive(("NotReady",), NOW + S)}, id="its kubelet, NotReady"),
        pytest.param(
            {"verdict": Well(), "ready": "True", "latest": LatestReports("b2")},
            id="its kubelet, booted anew",
        ),
        pytest.param(
            {
                "verdict": Alive(("NotReady",)),
                "latest": LatestReports("b2"),
                "stopped": "all were ended",
            },
            id="its kubelet, after its agent had ended every instance",
        ),
        pytest.param({"latest": LatestReports("b2")}, id="its kubelet, which is silent again"),
        pytest.param(
            {"latest": LatestReports("b1", "12:01")}, id="its agent, which is silent again"
        ),
        pytest.param({"latest": LatestReports("b1", power=PowerReport.ON)}, id="its power"),
    ],
)
def test_proof_does_not_outlive_a_sign_of_life(changes: dict[str, object]) -> None:
    plan = planned(fenced(DOWN), **changes)
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.fencing.livesSince) == (FencingPhase.FENCED, NOW)
    assert (plan.action, plan.look_again) == (None, 0 * S)
    assert not is_fenced(hypervisor(plan.fencing, mode="ha"))
    early = planned(fenced(PROVEN), **changes).fencing
    assert early is not None
    assert (early.phase, early.livesSince) == (FencingPhase.FAILED, None)


CUT = with_fields(DOWN, method=FencingMethod.STORAGE, device="san", storageDevice="san")
UNCUT = LatestReports("b1", "12:00", PowerReport.ON)
BOTH = FenceSetup(Means("bmc", 60 * S), Means("san", 60 * S))


@pytest.mark.parametrize("host", [HOST, EMPTY], ids=["evacuated", "evacuated wholly"])
def test_host_that_reaches_its_storage_again_is_cut_off_at_once(host: Host) -> None:
    """Also once no instance is left there: its guests may run on, and would write."""
    plan = planned(fenced(CUT), latest=UNCUT, host=host)
    assert plan.fencing is not None
    assert (plan.fencing.livesSince, plan.fencing.poweredSince) == (NOW, None)
    again = planned(fenced(with_fields(plan.fencing, deadline=NOW)), latest=UNCUT, host=host)
    assert again.fencing is not None
    assert again.fencing.phase == FencingPhase.ATTEMPTING
    by_power = planned(fenced(DOWN), latest=UNCUT, host=EMPTY)
    assert by_power.fencing == DOWN, "a host that was switched on may be repaired"


def test_host_is_cut_off_from_its_storage_after_its_power_could_not_be_switched() -> None:
    failed = answered(ATTEMPT, DeviceAnswer(False, "bmc: no route"), NOW)
    plan = planned(fenced(failed), fence=BOTH)
    record = plan.fencing
    assert record is not None
    assert (record.phase, record.method, record.device) == ("Attempting", "Storage", "san")
    assert plan.action is None
    own = planned(fenced(record), fence=BOTH, mine=record.deadline)
    assert own.action == Fence(record)


def test_host_that_lives_behind_its_storage_fence_must_reboot() -> None:
    wrong = Contradicted(("Ready",))
    plan = planned(fenced(CUT), verdict=wrong)
    assert plan.blocked is not None
    assert plan.blocked[1].startswith("The host lives, cut off from its storage by san: Ready;")
    assert (plan.action, plan.fencing) == (None, overtaken(CUT, ("Ready",), NOW))


def test_device_that_confirms_nothing_is_named_by_the_proof() -> None:
    plan = planned(fenced(CUT), latest=replace(UNCUT, power=PowerReport.UNKNOWN), fence=BOTH)
    assert plan.blocked is not None
    assert "but san no longer confirms that" in plan.blocked[1]
    nameless = with_fields(CUT, device=None)
    plan = planned(fenced(nameless), latest=replace(UNCUT, power=PowerReport.UNKNOWN), fence=BOTH)
    assert plan.blocked is not None
    assert "but its fence device no longer confirms that" in plan.blocked[1]


def test_proof_outlives_reports_that_are_no_sign_of_life() -> None:
    changes: dict[str, object]
    for changes in (
        {"verdict": Well(), "ready": ""},
        {"verdict": Well(), "ready": "True", "latest": LatestReports()},
        {"verdict": Suspected(("silent",)), "latest": LatestReports("")},
    ):
        assert planned(fenced(DOWN), **changes).fencing == DOWN


def test_host_that_is_silent_after_a_sign_of_life_is_fenced_again() -> None:
    plan = planned(fenced(LIVES))
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.fencing.attempts) == (FencingPhase.ATTEMPTING, 2)
    again = answered(plan.fencing, DeviceAnswer(True, "off"), NOW)
    assert (again.livesSince, again.forcedDownAt) == (None, NOW)
    assert planned(fenced(again)).action == Evict(EVACUATION)
    refused = answered(plan.fencing, DeviceAnswer(False, "409"), NOW)
    taken = planned(back(with_fields(refused, deadline=NOW)))
    assert isinstance(taken.action, TakeBack), "its instances may run elsewhere"


# -- a host that is back ---------------------------------------------------------------------------


def back(
    fencing: Fencing | None = DOWN,
    *,
    mode: str = "ha",
    before: str = "",
    boot: str = "b2",
    unwell: str = "",
    reported: tuple[str, ...] = HEALTHY,
    blocked: bool = False,
) -> RecoveryFacts:
    """A host whose boot b1 was fenced, and whose boot b2 is well since NOW."""
    found = tuple(condition(type_, str(type_ != unwell)) for type_ in reported)
    found += (condition("RecoveryBlocked", "True"),) if blocked else ()
    return replace(
        FACTS,
        hypervisor=hypervisor(fencing, mode=mode, before=before, boot=boot, conditions=found),
        verdict=Returned("b2"),
        ready="True",
        latest=LatestReports("b2"),
        host=UP,
        now=NOW + 120 * S,
    )


UP = replace(HOST, up=True)
RELEASED = with_fields(DOWN, phase=FencingPhase.RELEASED)


@pytest.mark.parametrize(
    ("given", "changes", "action", "again"),
    [
        pytest.param(back(), {"now": NOW + 119 * S}, None, 1 * S, id="well for too short a time"),
        pytest.param(
            back(RELEASED), {"now": NOW - 3600 * S}, SetMaintenance(""), 0 * S, id="clock went back"
        ),
        pytest.param(back(unwell="AgentReporting"), {}, None, 5 * S, id="its agent is not well"),
        pytest.param(back(reported=HEALTHY[:2]), {}, None, 5 * S, id="libvirt is not reported"),
        pytest.param(back(LIVES, boot="b1"), {}, None, 5 * S, id="the new boot has not reported"),
        pytest.param(back(), {"host": None}, None, 5 * S, id="unknown to the compute service"),
        pytest.param(back(RELEASED), {}, SetMaintenance(""), 0 * S, id="maintenance ends"),
        pytest.param(
            back(RELEASED, before="manual"), {}, SetMaintenance("manual"), 0 * S, id="or comes back"
        ),
        pytest.param(
            back(RELEASED),
            {"evictions": (FOREIGN, over(EVACUATION))},
            DeleteEviction(over(EVACUATION)),
            5 * S,
            id="what was evacuated is forgotten first",
        ),
        pytest.param(
            back(RELEASED), {"evictions": (FOREIGN,)}, SetMaintenance(""), 0 * S, id="or not ours"
        ),
        pytest.param(back(RELEASED, mode="manual"), {}, None, None, id="at rest"),
        pytest.param(
            back(RELEASED, mode="manual", unwell="AgentReporting"), {}, None, None, id="for good"
        ),
        pytest.param(back(None, mode="manual"), {}, None, None, id="never fenced"),
        pytest.param(back(None), {}, SetMaintenance(""), 0 * S, id="recovered without a fence"),
    ],
)
def test_host_that_is_back_is_returned_to_service_step_by_step(
    given: RecoveryFacts, changes: dict[str, object], action: Action | None, again: timedelta | None
) -> None:
    plan = planned(given, **changes)
    assert (plan.action, plan.look_again) == (action, again)
    assert plan.fencing == given.hypervisor.status.fencing


def test_host_that_is_back_stays_in_maintenance_until_its_compute_service_reports() -> None:
    plan = planned(back(RELEASED), host=replace(HOST, up=False))
    assert (plan.action, plan.look_again) == (None, 5 * S)
    assert plan.blocked is not None
    assert plan.blocked[0] == "NotNeeded"
    assert plan.blocked[1].endswith("while its compute service kvm-a does not report")
    unknown = planned(back(RELEASED), host=None)
    assert unknown.action == SetMaintenance(""), "there is nothing to wait for"


def test_host_that_is_back_is_taken_back_though_its_record_has_no_declaration() -> None:
    """The pass that declared it could not store that."""
    unrecorded = with_fields(LIVES, phase=FencingPhase.FAILED, forcedDownAt=None)
    down = planned(back(unrecorded), host=replace(HOST, up=False, forced_down=True))
    assert isinstance(down.action, TakeBack)
    assert down.action.fencing.phase == FencingPhase.RELEASED
    up = planned(back(unrecorded), host=UP)
    assert up.action is None
    assert up.fencing is not None
    assert up.fencing.phase == FencingPhase.RELEASED


@pytest.mark.parametrize("mode", ["ha", "manual", ""])
def test_host_that_is_back_is_cleaned_before_its_record_is_closed(mode: str) -> None:
    plan = planned(back(mode=mode))
    assert isinstance(plan.action, TakeBack)
    assert (plan.action.host, plan.action.fencing.phase) == (UP, FencingPhase.RELEASED)
    assert "boot b2" in plan.action.fencing.evidence[-1]
    assert (plan.fencing, plan.look_again) == (DOWN, 0 * S)
    by_agent = planned(back(mode=mode), latest=LatestReports()).action
    assert by_agent == plan.action


def test_host_is_back_since_the_last_of_its_signs() -> None:
    given = back(reported=HEALTHY[:2])
    late = with_fields(condition(HEALTHY[2], "True"), lastTransitionTime=NOW + 30 * S)
    status = given.hypervisor.status
    status = with_fields(status, conditions=(*status.conditions, late))
    plan = planned(given, hypervisor=with_fields(given.hypervisor, status=status))
    assert (plan.action, plan.look_again) == (None, 30 * S)


CUT_ENDED = with_fields(CUT, deadline=NOW)
GIVING = with_fields(CUT_ENDED, unfenceDeadline=NOW + 181 * S)


def test_host_that_was_cut_off_has_its_storage_back_before_it_is_taken_back() -> None:
    first = planned(back(CUT_ENDED), fence=BOTH)
    assert (first.action, first.fencing, first.look_again) == (None, GIVING, 0 * S)
    then = planned(back(GIVING), fence=BOTH, mine=GIVING.unfenceDeadline)
    assert (then.action, then.fencing) == (GiveBack(GIVING), GIVING)
    other = planned(replace(back(GIVING), now=NOW + 180 * S), fence=BOTH)
    assert (other.action, other.look_again) == (None, 1 * S)
    done = planned(back(with_fields(GIVING, storageDevice=None)), fence=BOTH)
    assert isinstance(done.action, TakeBack)


def test_host_that_was_cut_off_gets_its_storage_back_once_it_reports_in_order() -> None:
    early = replace(back(CUT_ENDED), now=NOW + 1 * S)
    assert planned(early, fence=BOTH).fencing != CUT_ENDED, "before it is taken back"
    plan = planned(back(CUT_ENDED, unwell="AgentReporting"), fence=BOTH)
    assert (plan.action, plan.fencing, plan.blocked) == (None, CUT_ENDED, None)
    later = planned(back(CUT_ENDED), fence=BOTH, latest=LatestReports("b3"))
    assert later.fencing is not None
    assert later.fencing.unfenceDeadline is None, "its newest boot has not reported"


@pytest.mark.parametrize("active", [True, False])
def test_host_on_which_instances_run_stays_cut_off(active: bool) -> None:
    given = back(CUT_ENDED)
    status = with_fields(given.hypervisor.status, instances=(Instance("u", "vm-1", active),))
    plan = planned(given, hypervisor=with_fields(given.hypervisor, status=status), fence=BOTH)
    assert plan.action is None
    why = "san keeps the host cut off from its storage: instances run there: vm-1"
    assert plan.blocked == ((RecoveryBlockedReason.GATES_CLOSED, why) if active else None)
    assert plan.fencing == (CUT_ENDED if active else GIVING)


def test_host_that_was_cut_off_in_vain_gets_its_storage_back_as_it_is() -> None:
    """No evacuation began by the proof: the guests wait for their storage."""
    failed = with_fields(ATTEMPT, phase=FencingPhase.FAILED, storageDevice="san", deadline=NOW)
    alive = Alive(("NotReady",), movable=True)
    for given in (replace(fenced(failed), verdict=alive), back(failed, boot="b1", unwell="x")):
        plan = planned(given, fence=BOTH)
        assert plan.action is None
        assert plan.fencing is not None
        assert plan.fencing.unfenceDeadline is not None


@pytest.mark.parametrize("reported", [HEALTHY, HEALTHY[:2]], ids=["in order", "not in order"])
def test_host_that_lives_behind_its_fence_is_not_emptied_live(reported: tuple[str, ...]) -> None:
    """Its guests cannot write any more, and its instances may run elsewhere."""
    given = back(with_fields(LIVES, storageDevice="san"), boot="b1", reported=reported)
    plan = planned(given, verdict=Alive(("NotReady",), movable=True), ready="False", fence=BOTH)
    assert plan.action is None
    assert plan.fencing is not None
    assert plan.fencing.unfenceDeadline is None, "its instances may run elsewhere"
    in_order = reported == HEALTHY
    assert plan.blocked is not None
    assert ("its boot b1 was fenced; reboot the host" in plan.blocked[1]) is in_order


def test_host_that_is_back_after_a_failed_attempt_needs_no_cleaning() -> None:
    failed = with_fields(ATTEMPT, phase=FencingPhase.FAILED, deadline=NOW)
    plan = planned(back(failed))
    assert plan.action is None
    assert plan.fencing is not None
    assert (plan.fencing.phase, plan.look_again) == (FencingPhase.RELEASED, 0 * S)
    nameless = planned(back(failed, boot=""))
    assert nameless.fencing is not None
    assert "boot b2" in nameless.fencing.evidence[-1]


@pytest.mark.parametrize("phase", [FencingPhase.ATTEMPTING, FencingPhase.FAILED])
def test_host_that_may_still_be_switched_off_is_not_taken_back(phase: FencingPhase) -> None:
    late = with_fields(ATTEMPT, phase=phase, deadline=NOW + 123 * S)
    plan = planned(back(late))
    assert (plan.action, plan.fencing, plan.look_again) == (None, late, 3 * S)


def test_gates_do_not_block_a_host_that_has_nothing_left() -> None:
    closed = (Gate("MaxUnhealthy", passed=False, text="2 of 5", storm=True),)
    left = planned(fenced(), gates=closed)
    assert left.blocked is not None
    assert left.blocked[0] is RecoveryBlockedReason.MANY_HOSTS
    gone = planned(fenced(), gates=closed, host=EMPTY)
    assert gone.blocked is not None
    assert gone.blocked[0] is RecoveryBlockedReason.NOT_NEEDED


def test_condition_of_a_host_at_rest_no_longer_blocks() -> None:
    blocked = planned(back(RELEASED, mode="", blocked=True)).blocked
    assert blocked == (RecoveryBlockedReason.NOT_NEEDED, "The host is healthy")
    assert planned(back(RELEASED, mode="")).blocked is None
    well = planned(back(None, mode=""), verdict=Well())
    assert (well.action, well.look_again) == (None, None)


SUSPECTED, REBOOTING = Suspected(("silent",)), RebootGrace(("silent",), NOW + S)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param({}, True, id="judged dead"),
        pytest.param({"verdict": SUSPECTED}, True, id="silent"),
        pytest.param({"verdict": REBOOTING}, True, id="silent after a shutdown"),
        pytest.param({"gates": (CLOSED,)}, True, id="whatever the gates"),
        pytest.param({"verdict": Well()}, False, id="well"),
        pytest.param({"verdict": Alive(("lease",))}, False, id="lives"),
        pytest.param({"abandoned": True}, False, id="nothing is done about it"),
        pytest.param({"silenced": "not known"}, True, id="the compute service is away"),
        pytest.param({"hypervisor": hypervisor(boot="")}, False, id="can never be proven dead"),
        pytest.param({"hypervisor": hypervisor(DOWN)}, True, id="proven dead"),
        pytest.param(
            {"hypervisor": hypervisor(DOWN), "abandoned": True}, True, id="proven dead, paused"
        ),
    ],
)
def test_hypervisor_of_a_failed_host_is_kept_without_its_node(
    changes: dict[str, object], *, kept: bool
) -> None:
    assert is_to_be_kept(replace(FACTS, **changes)) is kept  # type: ignore[arg-type]


BY_ASSERTION = with_fields(ATTEMPT, phase=FencingPhase.FENCED, method=FencingMethod.EXTERNAL)
LEFT_CUT = with_fields(CUT, phase=FencingPhase.FAILED, forcedDownAt=None, deadline=NOW)


@pytest.mark.parametrize(
    ("fencing", "deleted", "changes", "over_"),
    [
        pytest.param(None, True, {"verdict": Well()}, True, id="the host is well"),
        pytest.param(None, True, {"verdict": Alive(())}, True, id="the host lives"),
        pytest.param(
            ATTEMPT, True, {"verdict": Well()}, False, id="an attempt may still switch it off"
        ),
        pytest.param(
            ATTEMPT,
            True,
            {"verdict": Well(), "now": NOW + 3600 * S},
            True,
            id="well after an attempt",
        ),
        pytest.param(
            ATTEMPT, False, {"verdict": Well()}, False, id="it may be deleted during the attempt"
        ),
        pytest.param(
            BY_ASSERTION,
            True,
            {"silenced": "paused", "abandoned": True},
            False,
            id="so it may though a person has asserted that the host is dead",
        ),
        pytest.param(
            LEFT_CUT, True, {"verdict": Alive(())}, False, id="it gets its storage back first"
        ),
        pytest.param(
            LEFT_CUT,
            True,
            {"verdict": Alive(()), "host": EMPTY},
            False,
            id="also once nothing is left there",
        ),
        pytest.param(LEFT_CUT, True, {"host": EMPTY}, True, id="nothing of it can get that back"),
        pytest.param(
            LEFT_CUT,
            True,
            {"verdict": Alive(()), "abandoned": True},
            True,
            id="a person will give it its storage",
        ),
        pytest.param(None, False, {"verdict": Well()}, True, id="well, and not deleted"),
        pytest.param(None, True, {}, False, id="it may be dead"),
        pytest.param(ATTEMPT, True, {"verdict": SUSPECTED}, False, id="it is silent"),
        pytest.param(None, True, {"verdict": REBOOTING}, False, id="it may come back"),
        pytest.param(None, False, {}, False, id="it may be dead, and is not deleted"),
        pytest.param(None, True, {"host": EMPTY}, True, id="nothing was on it"),
        pytest.param(
            None, True, {"silenced": "paused", "abandoned": True}, True, id="a person has paused it"
        ),
        pytest.param(
            None, True, {"silenced": "not known"}, False, id="the compute service is away"
        ),
        pytest.param(
            None, False, {"silenced": "paused", "abandoned": True}, False, id="it is not deleted"
        ),
        pytest.param(DOWN, True, {}, False, id="instances are left on a dead host"),
        pytest.param(DOWN, True, {"host": EMPTY}, True, id="nothing is left there"),
        pytest.param(
            DOWN, True, {"host": EMPTY, "unstored": frozenset({"a"})}, False, id="not stored yet"
        ),
        pytest.param(
            DOWN,
            True,
            {"host": EMPTY, "unstored": None},
            False,
            id="not known if stored",
        ),
        pytest.param(DOWN, False, {"host": EMPTY}, False, id="dead, empty, and not deleted"),
        pytest.param(DOWN, True, {"host": EMPTY, "verdict": Well()}, True, id="back, and empty"),
        pytest.param(
            DOWN, True, {"silenced": "paused", "abandoned": True}, True, id="given up by a person"
        ),
        pytest.param(
            DOWN,
            True,
            {"verdict": Well()},
            False,
            id="another boot is back, and not taken back",
        ),
        pytest.param(
            with_fields(LIVES, phase=FencingPhase.FAILED),
            True,
            {"verdict": Alive(("lease",))},
            False,
            id="it lives after an evacuation, and could not be fenced anew: its guests have to end",
        ),
    ],
)
def test_deleted_hypervisor_is_released_once_its_recovery_is_over(
    fencing: Fencing | None, changes: dict[str, object], *, deleted: bool, over_: bool
) -> None:
    found = hypervisor(fencing)
    gone = with_fields(found.metadata, deletionTimestamp=NOW if deleted else None)
    facts = replace(FACTS, hypervisor=with_fields(found, metadata=gone))
    assert is_over(replace(facts, **changes)) is over_  # type: ignore[arg-type]


def test_proof_of_a_device_that_is_gone_delays_evacuations_not_begun() -> None:
    """Until the device answers again, or a person asserts the death; the proof stays."""
    gone = LatestReports("b1", "12:00", PowerReport.UNKNOWN)
    for record in (PROVEN, DOWN):
        plan = planned(fenced(record), latest=gone)
        assert (plan.action, plan.fencing) == (None, record)
        assert plan.blocked is not None
        assert "bmc no longer confirms that" in plan.blocked[1]
        asserted = planned(fenced(record), latest=gone, asserted="a person asserts it").fencing
        assert asserted is not None
        assert (asserted.method, asserted.proof) == (FencingMethod.EXTERNAL, "a person asserts it")
    assert planned(fenced(DOWN), latest=LatestReports("b1", "12:00")).action == Evict(EVACUATION)


def test_assertion_that_does_not_count_is_named() -> None:
    plan = planned(
        latest=LatestReports("b1", power=PowerReport.ON), rejected="asserted, but bmc reads on"
    )
    assert plan.blocked is not None
    assert plan.blocked[1].startswith("asserted, but bmc reads on; ")


def test_report_of_an_agent_that_became_silent_is_requested_again() -> None:
    lives = with_fields(LIVES, startedAt=NOW)
    silent = LatestReports("b1", "12:00", agent=False)
    again = planned(fenced(lives), latest=silent, stopped="ended").fencing
    assert again is not None
    assert again.startedAt == NOW + S


BY_PERSON = Assertion(by=f"{ASSERTED_DEAD}=b2", seenAt=NOW, leaseRenewedAt="12:00")
BY_TAINT = with_fields(BY_PERSON, by=f"{OUT_OF_SERVICE}=:NoExecute")


@pytest.mark.parametrize(
    ("stored", "found", "mode", "again", "kept"),
    [
        pytest.param(None, None, "", None, None, id="without an assertion"),
        pytest.param(None, BY_PERSON, "", SETTINGS.poll, BY_PERSON, id="just now: it is recorded"),
        pytest.param(BY_PERSON, BY_PERSON, "", SETTINGS.poll, BY_PERSON, id="it may disprove that"),
        pytest.param(BY_PERSON, BY_PERSON, "ha", 0 * S, BY_PERSON, id="it is given back anyway"),
        pytest.param(
            BY_PERSON, with_fields(BY_PERSON, disproved=True), "", None, None,
            id="wrongly: the annotation goes, and its record",
        ),
        pytest.param(
            BY_TAINT, with_fields(BY_TAINT, disproved=True), "", None,
            with_fields(BY_TAINT, disproved=True), id="wrongly: the taint stays",
        ),
        pytest.param(BY_TAINT, None, "", None, None, id="the taint was taken away"),
    ],
)  # fmt: skip
def test_assertion_about_a_well_host_is_recorded_and_removed(
    stored: Assertion | None,
    found: Assertion | None,
    mode: str,
    again: timedelta | None,
    kept: Assertion | None,
) -> None:
    given = back(None, mode=mode)
    host = given.hypervisor
    host = with_fields(host, status=with_fields(host.status, assertion=stored))
    plan = planned(given, hypervisor=host, assertion=found)
    assert (plan.look_again, plan.assertion) == (again, kept)
    assert plan.removes_assertion is (found is not None and kept is None)


@pytest.mark.parametrize("found", [BY_PERSON, BY_TAINT])
def test_assertion_goes_with_the_proof_that_a_sign_of_life_overtakes(found: Assertion) -> None:
    on = LatestReports("b1", "12:00", PowerReport.ON)
    plan = planned(fenced(DOWN), latest=on, assertion=found)
    assert plan.fencing is not None
    assert plan.fencing.livesSince == NOW
    assert plan.removes_assertion is (found == BY_PERSON)
    disproved = with_fields(BY_TAINT, disproved=True)
    assert plan.assertion == (None if found == BY_PERSON else disproved)
    lasting = planned(fenced(DOWN), assertion=found)
    assert (lasting.assertion, lasting.removes_assertion) == (found, False)


@pytest.mark.parametrize("mode", ["", "ha", "manual"])
@pytest.mark.parametrize("record", [None, DOWN], ids=["never fenced", "fenced before"])
def test_crash_loop_is_named_while_it_lasts(record: Fencing | None, mode: str) -> None:
    boots = tuple(NOW - minutes * 60 * S for minutes in (50, 30, 1))
    facts = back(record, mode=mode, unwell="NodeHealthy")
    host = facts.hypervisor
    host = with_fields(host, status=with_fields(host.status, recentBoots=boots))
    plan = decide(replace(facts, hypervisor=host, now=NOW), SETTINGS)
    if mode == "manual":
        assert plan.blocked is None or plan.blocked[0] != RecoveryBlockedReason.CRASH_LOOP
        return
    assert plan.blocked is not None
    assert plan.blocked[0] == RecoveryBlockedReason.CRASH_LOOP
    assert "booted 3 times" in plan.blocked[1]
    assert plan.look_again is not None
    assert plan.look_again <= 601 * S, "until the first of them is an hour ago"
    later = decide(replace(facts, hypervisor=host, now=NOW + 601 * S), SETTINGS)
    assert later.blocked is None or later.blocked[0] != RecoveryBlockedReason.CRASH_LOOP


def test_host_that_is_switched_on_to_be_mended_is_left_alone() -> None:
    """This holds once no instance is left; until then it has its grace, and is fenced again."""
    on = LatestReports("b1", "12:00", PowerReport.ON)
    empty = planned(fenced(DOWN), latest=on, host=EMPTY)
    assert (empty.fencing, empty.action) == (DOWN, None)
    left = planned(fenced(DOWN), latest=on).fencing
    assert left is not None
    assert (left.livesSince, left.poweredSince) == (NOW, NOW)
