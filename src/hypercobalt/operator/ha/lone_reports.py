"""Names hosts that alone report something of a silent one, which does not count by itself.

The text is in the words of a host that may be captured, and may be another one each time: of each
reason a host gets few Events while it is silent, so that others about it are not lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.ha.host_failure.doubts import refusal
from hypercobalt.logs import get_logger
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.runtime import Recorder
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

MOST_NOTED: Final = 5
"""Events of one reason while a host is silent; the operator's log has all."""


@dataclass(slots=True)
class _Silence:
    """What was reported while a host is silent.

    Args:
        question: the last one whose doubted answers were reported.
        targets: hosts whose refusals were reported.
        noted: Events by reason.
    """

    question: datetime | None = None
    targets: set[str] = field(default_factory=set[str])
    noted: Counter[str] = field(default_factory=Counter[str])


class LoneReports:
    """Reports of hosts that no other one confirms.

    Args:
        hypervisors: all there are.
        events: for people.
    """

    def __init__(self, hypervisors: WriteCache[Hypervisor], events: Recorder) -> None:
        self._hypervisors, self._events = hypervisors, events
        self._silences: dict[str, _Silence] = {}

    def report(self, facts: RecoveryFacts) -> None:
        """Record what is new of a silent host, on it and on the host that reports it."""
        if not facts.is_silent:
            self.forget(facts.hypervisor.metadata.name)
            return
        silence = self._silences.setdefault(facts.hypervisor.metadata.name, _Silence())
        self._report_peers(facts, silence)
        self._report_lock(facts, silence)

    def forget(self, name: str) -> None:
        """Forget what was reported: the host is silent no more."""
        self._silences.pop(name, None)

    def _report_peers(self, facts: RecoveryFacts, silence: _Silence) -> None:
        """Name peers whose answer does not count, once for each question."""
        question, name = facts.question, facts.hypervisor.metadata.name
        if question is None or silence.question == question.sent:
            return
        for answer in (*question.contradicted, *question.alone):
            silence.question = question.sent
            log.warning("peer_doubted", hypervisor=name, peer=answer.peer, text=answer.text)
            text = (
                f"{answer.peer} alone reports that {name} answers: {answer.text or 'no evidence'}"
            )
            self._note(facts, silence, answer.peer, "PeerDoubted", text)

    def _report_lock(self, facts: RecoveryFacts, silence: _Silence) -> None:
        """Name a target that alone was refused the lock of a disk, once."""
        found, name = facts.refusal, facts.hypervisor.metadata.name
        if found is None or found.target in silence.targets:
            return
        silence.targets.add(found.target)
        log.warning("lock_doubted", hypervisor=name, target=found.target, server=found.instance)
        text = (
            f"{found.target} alone reports that a disk of instance {found.instance} is in use "
            f"{found.after.total_seconds():.0f} s after {name} was proven dead: "
            f"{refusal(found.text)}. Other hosts are tried; make sure that {name} does not run"
        )
        self._note(facts, silence, found.target, "LockDoubted", text)

    def _note(
        self, facts: RecoveryFacts, silence: _Silence, by: str, reason: str, text: str
    ) -> None:
        if silence.noted[reason] >= MOST_NOTED:
            return
        silence.noted[reason] += 1
        other = self._hypervisors.get(by)
        for about in (facts.hypervisor, *((other,) if other is not None else ())):
            self._events.record(about, "Warning", reason, text, action="RecoveringHost")
