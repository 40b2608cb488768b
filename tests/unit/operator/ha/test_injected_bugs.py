"""Wrong operators, and what has to happen so that the protocol's state machine finds them.

Each walk was found by it. The right operator passes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pytest
from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.ha.model import Bug
from tests.unit.operator.ha.protocol import NO_POWER, Event, Recovery, fails

from hypercobalt.adapters.fencing.port import PowerState, combined
from hypercobalt.api.fencing import FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.doubts import LatestReports
from hypercobalt.operator.ha.model.facts import RecoveryFacts

CUT_OFF: Final = partial(Recovery.partition, connected=False)
NO_AGENT: Final = partial(Recovery.agent, runs=False)
NO_DEVICE: Final = partial(Recovery.device_answers, nothing=True)
TAINTED: Final = partial(Recovery.taint, present=True)
WRONGLY: Final = Recovery.asserted_wrongly_and_found_out


def goes_on(passes: int) -> Event:
    return partial(Recovery.goes_on_for_a_while, passes=passes)


def looks_at_nothing(facts: RecoveryFacts) -> RecoveryFacts:
    """The operator goes by the proof, whatever the host has reported since."""
    boot = facts.hypervisor.status.bootID or ""
    return replace(facts, latest=LatestReports(boot, agent=facts.latest.agent))


def believes_any_report(facts: RecoveryFacts) -> RecoveryFacts:
    """The operator takes guests ended in any boot and by any order for a proof."""
    ended = facts.hypervisor.status.guestsStopped is not None
    latest = replace(facts.latest, agent=True)
    return replace(facts, stopped="ended", latest=latest) if ended else facts


def believes_any_assertion(facts: RecoveryFacts) -> RecoveryFacts:
    return replace(facts, asserted=facts.asserted or facts.rejected)


def takes_every_attempt_for_its_own(facts: RecoveryFacts) -> RecoveryFacts:
    record = facts.hypervisor.status.fencing
    return replace(facts, mine=record.deadline if record is not None else None)


def takes_one_feed_for_all(readings: list[tuple[str, PowerState | None]]) -> PowerState | None:
    """The operator takes a host for dead while another feed is on."""
    states = [state for _, state in readings]
    return PowerState.OFF if PowerState.OFF in states else combined(readings)


def forgets_what_is_cut_off_with_its_boot(facts: RecoveryFacts) -> RecoveryFacts:
    """The operator takes a host in a new boot for one that has its storage."""
    return with_record(facts, storageDevice=None) if boots_differ(facts) else facts


def gives_storage_to_any_host_that_reports(facts: RecoveryFacts) -> RecoveryFacts:
    """The operator takes any report of a host for a proof that it has begun another boot."""
    record = facts.hypervisor.status.fencing
    alive = facts.latest.agent and record is not None and record.method == FencingMethod.STORAGE
    return with_record(facts, phase=FencingPhase.FAILED, forcedDownAt=None) if alive else facts


def boots_differ(facts: RecoveryFacts) -> bool:
    record = facts.hypervisor.status.fencing
    return record is not None and record.bootID != facts.hypervisor.status.bootID


def with_record(facts: RecoveryFacts, **changes: object) -> RecoveryFacts:
    """The decision of the operator by another record."""
    status = facts.hypervisor.status
    if status.fencing is None:
        return facts
    fencing = with_fields(status.fencing, **changes)
    hypervisor = recorded(
        with_fields(facts.hypervisor, status=with_fields(status, fencing=fencing))
    )
    return replace(facts, hypervisor=hypervisor)


CUT_OFF_ALIVE: Final = (
    Recovery.storage_is_set_up, NO_POWER, CUT_OFF, goes_on(12), Recovery.evacuates,
)  # fmt: skip
"""A host that lives, cut off from its storage, and whose server runs elsewhere."""
RECONNECTED: Final = partial(Recovery.partition, connected=True)

IS_BACK: Final = (
    Recovery.power_cut, TAINTED, goes_on(12), Recovery.evacuates, Recovery.host_boots,
    goes_on(12), goes_on(12), Recovery.places,
)  # fmt: skip
"""A host that was tainted, evacuated and taken back; the taint is still there."""


@pytest.mark.parametrize(
    ("bug", "walk"),
    [
        pytest.param(
            Bug(sees=looks_at_nothing, trusts=True),
            (
                Recovery.power_cut, goes_on(12), CUT_OFF, Recovery.host_boots,
                Recovery.owner_starts_unreported, Recovery.evacuates,
            ),
            id="a proof outlives a boot that was never reported",
        ),
        pytest.param(
            Bug(sees=looks_at_nothing, trusts=True),
            (
                Recovery.power_cut, goes_on(12), NO_AGENT, Recovery.host_boots,
                Recovery.owner_starts_before_anyone_looks, NO_DEVICE, CUT_OFF, Recovery.reports,
                Recovery.evacuates,
            ),
            id="a proof outlives a boot that only its kubelet has reported",
        ),
        pytest.param(
            Bug(trusts=True),
            (
                Recovery.power_cut, TAINTED, CUT_OFF, goes_on(6), Recovery.host_boots,
                Recovery.owner_starts_unreported, Recovery.evacuates,
            ),
            id="the eviction core goes by the record alone",
        ),
        pytest.param(
            Bug(keeps=True),
            (
                partial(WRONGLY, passes=4), NO_AGENT,
                Recovery.owner_starts_before_anyone_looks, NO_DEVICE, CUT_OFF,
                goes_on(4), Recovery.evacuates,
            ),
            id="an assertion that was wrong is not removed",
        ),
        pytest.param(
            Bug(sees=believes_any_report),
            (
                partial(WRONGLY, passes=2), Recovery.power_cut, Recovery.host_boots,
                Recovery.owner_starts, goes_on(12), Recovery.evacuates,
            ),
            id="guests that were ended in an earlier boot",
        ),
        pytest.param(
            Bug(sees=believes_any_report, trusts=True),
            (
                partial(WRONGLY, passes=4), NO_AGENT, Recovery.owner_starts, goes_on(12),
                Recovery.evacuates,
            ),
            id="guests that were ended by an agent which has ended since",
        ),
        pytest.param(
            Bug(sees=believes_any_assertion),
            (*IS_BACK, NO_DEVICE, CUT_OFF, goes_on(12), Recovery.evacuates),
            id="a taint that was left from an earlier failure",
        ),
        pytest.param(
            Bug(sees=believes_any_assertion),
            (
                NO_DEVICE, Recovery.power_cut, goes_on(3), TAINTED, Recovery.host_boots,
                Recovery.owner_starts, CUT_OFF, goes_on(6), Recovery.evacuates,
            ),
            id="a taint of the boot before, of a host that is not taken back yet",
        ),
        pytest.param(
            Bug(sees=takes_every_attempt_for_its_own),
            (
                Recovery.power_cut, goes_on(6), Recovery.freezes_in_a_call_and_another_leads,
                goes_on(12),
            ),
            id="another process's attempt is made once more",
        ),
        pytest.param(
            Bug(combines=takes_one_feed_for_all),
            (
                Recovery.has_a_second_feed, partial(Recovery.second_feed, refuses=True), CUT_OFF,
                goes_on(12), Recovery.evacuates,
            ),
            id="one of two power feeds is off",
        ),
        pytest.param(
            Bug(sees=gives_storage_to_any_host_that_reports),
            (*CUT_OFF_ALIVE, RECONNECTED, goes_on(12)),
            id="storage is given to a host in the boot that was fenced",
        ),
        pytest.param(
            Bug(sees=forgets_what_is_cut_off_with_its_boot),
            (*CUT_OFF_ALIVE, Recovery.power_cut, Recovery.host_boots, RECONNECTED, goes_on(12)),
            id="a host is taken back without its storage",
        ),
    ],
)  # fmt: skip
def test_wrong_operator_is_detected(bug: Bug, walk: Sequence[Event]) -> None:
    assert fails(walk, bug)
    assert not fails(walk)
