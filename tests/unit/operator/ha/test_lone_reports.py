"""Reports of hosts that no other one confirms are named, and drain nobody's Events."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import cast

from tests.unit.operator.ha.made import FACTS, S
from tests.unit.operator.samples import NOW

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.host_failure.doubts import LockRefusal
from hypercobalt.ha.host_failure.node_failure import PeerAnswer, Question, Well
from hypercobalt.operator.ha.lone_reports import MOST_NOTED, LoneReports
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.runtime import Recorder
from hypercobalt.runtime.write_cache import WriteCache

LIAR = Hypervisor(metadata=ObjectMeta(name="kvm-b", uid="b"))
REFUSAL = LockRefusal("vm-1", "kvm-b", 130 * S, 'Failed to get "write" lock')


class Events:
    """Events by host and reason, with the last text."""

    def __init__(self) -> None:
        self.counts, self.text = Counter[str](), ""

    def record(self, about: Hypervisor, type_: str, reason: str, text: str, *, action: str) -> None:
        assert (type_, action) == ("Warning", "RecoveringHost")
        self.counts[f"{about.metadata.name} {reason}"] += 1
        self.text = text


def reports(*, gone: bool = False) -> tuple[LoneReports, Events]:
    events = Events()
    found = {} if gone else {"kvm-b": LIAR}
    return LoneReports(cast("WriteCache[Hypervisor]", found), cast("Recorder", events)), events


def asked(number: int) -> RecoveryFacts:
    """The liar answers a question in words of its own, another peer has not reached the host."""
    answers = PeerAnswer("kvm-b", True, f"text {number}"), PeerAnswer("kvm-c", False)
    question = Question(NOW + number * timedelta(minutes=2), ("kvm-b", "kvm-c"), answers)
    return replace(FACTS, question=question)


def test_peer_whose_answer_does_not_count_is_named_on_both_hosts_once_for_a_question() -> None:
    unconfirmed, events = reports()
    for _ in range(3):
        unconfirmed.report(asked(0))
    assert events.counts == {"kvm-a PeerDoubted": 1, "kvm-b PeerDoubted": 1}
    assert events.text == "kvm-b alone reports that kvm-a answers: text 0"


def test_host_that_is_queried_about_for_long_gets_few_events_in_the_words_of_another() -> None:
    unconfirmed, events = reports()
    for number in range(3 * MOST_NOTED):
        unconfirmed.report(asked(number))
        unconfirmed.report(replace(FACTS, question=None))  # between two questions
    assert events.counts == {"kvm-a PeerDoubted": MOST_NOTED, "kvm-b PeerDoubted": MOST_NOTED}


def test_next_silence_of_a_host_has_events_of_its_own() -> None:
    unconfirmed, events = reports()
    for number in range(2 * MOST_NOTED):
        unconfirmed.report(asked(number))
    unconfirmed.report(replace(FACTS, verdict=Well()))
    unconfirmed.report(asked(100))
    assert events.counts["kvm-a PeerDoubted"] == MOST_NOTED + 1
    unconfirmed.forget("kvm-a")
    unconfirmed.report(asked(100))
    assert events.counts["kvm-a PeerDoubted"] == MOST_NOTED + 2


def test_target_that_alone_is_refused_a_lock_is_named_on_both_hosts_once() -> None:
    unconfirmed, events = reports()
    for seconds in (130, 190):
        unconfirmed.report(replace(FACTS, refusal=replace(REFUSAL, after=seconds * S)))
    assert events.counts == {"kvm-a LockDoubted": 1, "kvm-b LockDoubted": 1}
    assert events.text == (
        "kvm-b alone reports that a disk of instance vm-1 is in use 130 s after kvm-a was proven "
        'dead: Failed to get "write" lock. Other hosts are tried; make sure that kvm-a does not run'
    )


def test_report_of_a_host_that_has_left_is_named_on_the_other_one() -> None:
    unconfirmed, events = reports(gone=True)
    unconfirmed.report(replace(FACTS, refusal=REFUSAL))
    assert events.counts == {"kvm-a LockDoubted": 1}
