"""`status.recovery` of a host, by its verdict, gates, fencing and Evictions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.ha.made import (
    ATTEMPT,
    CLOSED,
    DOWN,
    EMPTY,
    EVACUATION,
    FACTS,
    HEALTHY,
    SETTINGS,
    hypervisor,
)
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import EvictionMode, EvictionStatus
from hypercobalt.api.fencing import FencingMethod, FencingPhase
from hypercobalt.api.recovery import Recovery, RecoveryPhase
from hypercobalt.ha.host_failure.doubts import LatestReports
from hypercobalt.ha.host_failure.node_failure import (
    Alive,
    Contradicted,
    RebootGrace,
    Returned,
    Suspected,
    Well,
)
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.planning.evictions import recovery as eviction
from hypercobalt.operator.ha.recording.phase import recovery

_Phase = RecoveryPhase
MINUTE, LATER = timedelta(minutes=1), NOW + timedelta(minutes=5)
CONDITIONS = tuple(condition(type_, "True", "Fine") for type_ in HEALTHY)
BY_ASSERTION = with_fields(ATTEMPT, phase=FencingPhase.FENCED, method=FencingMethod.EXTERNAL)
RELEASED = with_fields(DOWN, phase=FencingPhase.RELEASED, deadline=None)
FAILED = with_fields(ATTEMPT, phase=FencingPhase.FAILED)
FENCED = replace(FACTS, hypervisor=hypervisor(DOWN, mode="ha"), now=LATER)
BACK = replace(FACTS, verdict=Returned("b2"), ready="True", now=LATER)
SINCE = CONDITIONS[0].lastTransitionTime
MIGRATED = with_fields(
    eviction(FACTS.hypervisor, EvictionMode.LIVE, NOW),
    status=EvictionStatus(conditions=(condition("Evicting", "False", "Succeeded"),)),
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(
            replace(FACTS, verdict=Suspected((), probe=True)),
            Recovery(_Phase.SUSPECTED, NOW + MINUTE),
            id="peers are to probe it: fenced a minute after it became unwell",
        ),
        pytest.param(
            replace(FACTS, verdict=Suspected((), NOW + 2 * MINUTE)),
            Recovery(_Phase.SUSPECTED, NOW + 2 * MINUTE),
            id="peers answer late",
        ),
        pytest.param(
            replace(FACTS, verdict=Suspected(()), now=LATER),
            Recovery(_Phase.SUSPECTED),
            id="the wait is over, but something is not known",
        ),
        pytest.param(
            replace(FACTS, verdict=Suspected(()), now=NOW + MINUTE),
            Recovery(_Phase.SUSPECTED),
            id="the wait ends now",
        ),
        pytest.param(
            replace(FACTS, verdict=RebootGrace((), LATER)),
            Recovery(_Phase.REBOOT_GRACE, LATER),
            id="was shutting down",
        ),
        pytest.param(
            replace(FACTS, verdict=Alive((), LATER, movable=True)),
            Recovery(_Phase.UNWELL, LATER),
            id="lives",
        ),
        pytest.param(
            replace(FACTS, verdict=Alive((), movable=True)),
            Recovery(_Phase.RECOVERING),
            id="lives, and the wait is over",
        ),
        pytest.param(
            replace(FACTS, verdict=Alive((), movable=True), evictions=(MIGRATED,)),
            Recovery(_Phase.RECOVERED),
            id="lives, and what ran has migrated",
        ),
        pytest.param(
            replace(FENCED, evictions=(MIGRATED,)),
            Recovery(_Phase.RECOVERING),
            id="proven dead: what was off is still there",
        ),
        pytest.param(
            replace(FACTS, verdict=Alive(())), Recovery(_Phase.BLOCKED), id="lives without libvirt"
        ),
        pytest.param(
            replace(FACTS, verdict=Contradicted(("kubelet",))),
            Recovery(_Phase.BLOCKED),
            id="lives though proven dead",
        ),
        pytest.param(FACTS, Recovery(_Phase.FENCING, ATTEMPT.deadline), id="attempt is recorded"),
        pytest.param(
            replace(FACTS, hypervisor=hypervisor(ATTEMPT, mode="ha"), gates=(CLOSED,)),
            Recovery(_Phase.FENCING, ATTEMPT.deadline),
            id="gates closed during an attempt",
        ),
        pytest.param(
            replace(FACTS, hypervisor=hypervisor(FAILED), gates=(CLOSED,), now=LATER),
            Recovery(_Phase.BLOCKED),
            id="gates closed after an attempt",
        ),
        pytest.param(replace(FACTS, gates=(CLOSED,)), Recovery(_Phase.BLOCKED), id="gate closed"),
        pytest.param(replace(FACTS, silenced="paused"), Recovery(_Phase.BLOCKED), id="paused"),
        pytest.param(
            replace(FACTS, hypervisor=hypervisor(mode="ha", boot="")),
            Recovery(_Phase.BLOCKED),
            id="boot not known",
        ),
        pytest.param(FENCED, Recovery(_Phase.RECOVERING), id="proven dead"),
        pytest.param(
            replace(FACTS, hypervisor=hypervisor(FAILED), stopped="its agent", now=LATER),
            Recovery(_Phase.RECOVERING),
            id="its agent has ended all instances",
        ),
        pytest.param(
            replace(FENCED, evictions=(EVACUATION,), gates=(CLOSED,)),
            Recovery(_Phase.RECOVERING),
            id="Eviction runs while a gate is closed",
        ),
        pytest.param(
            replace(FENCED, silenced="paused"), Recovery(_Phase.BLOCKED), id="paused after proof"
        ),
        pytest.param(replace(FENCED, host=EMPTY), Recovery(_Phase.RECOVERED), id="nothing left"),
        pytest.param(
            replace(BACK, hypervisor=hypervisor(DOWN, mode="ha", boot="b2")),
            Recovery(_Phase.RETURNING),
            id="back, and nothing has reported",
        ),
        pytest.param(
            replace(BACK, hypervisor=hypervisor(DOWN, mode="ha", conditions=CONDITIONS)),
            Recovery(_Phase.RETURNING),
            id="back and healthy, but the agent has not reported its boot",
        ),
        pytest.param(
            replace(
                BACK,
                hypervisor=hypervisor(DOWN, mode="ha", conditions=CONDITIONS),
                stopped="its agent",
                latest=LatestReports("b1"),
            ),
            Recovery(_Phase.RECOVERING),
            id="fenced wrongly, and not evacuated yet",
        ),
        pytest.param(
            replace(
                BACK,
                hypervisor=hypervisor(DOWN, mode="ha", conditions=CONDITIONS),
                host=EMPTY,
                stopped="its agent",
                latest=LatestReports("b1"),
            ),
            Recovery(_Phase.RECOVERED),
            id="fenced wrongly, and evacuated",
        ),
        pytest.param(
            replace(BACK, hypervisor=hypervisor(DOWN, boot="b2", conditions=CONDITIONS)),
            Recovery(_Phase.RETURNING, SINCE + 2 * MINUTE),
            id="back, and healthy, in another maintenance",
        ),
        pytest.param(
            replace(BACK, hypervisor=hypervisor(RELEASED, mode="ha", conditions=CONDITIONS)),
            Recovery(_Phase.RETURNING, SINCE + 2 * MINUTE),
            id="back, and healthy",
        ),
        pytest.param(
            replace(BACK, verdict=Well(), hypervisor=hypervisor(conditions=CONDITIONS)),
            None,
            id="well",
        ),
        pytest.param(
            replace(BACK, verdict=Well(), hypervisor=hypervisor(ATTEMPT, boot="b1"), now=NOW),
            Recovery(_Phase.FENCING, ATTEMPT.deadline),
            id="answers again while an attempt may still switch it off",
        ),
        pytest.param(
            replace(BACK, hypervisor=hypervisor(BY_ASSERTION, boot="b2", mode="ha"), now=NOW),
            Recovery(_Phase.FENCING, ATTEMPT.deadline),
            id="so it is though a person has asserted that it is dead",
        ),
        pytest.param(
            replace(FENCED, abandoned=True, silenced="paused"),
            Recovery(_Phase.BLOCKED),
            id="nothing is done about it",
        ),
        pytest.param(
            replace(FENCED, abandoned=True, silenced="paused", host=EMPTY),
            Recovery(_Phase.RECOVERED),
            id="nothing has to be done about it",
        ),
    ],
)
def test_recovery_names_the_phase_and_when_it_ends(
    facts: RecoveryFacts, expected: Recovery | None
) -> None:
    assert recovery(facts, decide(facts, SETTINGS), SETTINGS) == expected
