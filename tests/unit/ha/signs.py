"""A story for tests of the rules: signals of one instance, on a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import AvailableMemory, EscalationPlan, plan, recovering
from hypercobalt.ha.incidents.history import record
from hypercobalt.ha.incidents.probes import InstanceProbe, probed
from hypercobalt.ha.incidents.signals import HOST, Kind, Signal
from hypercobalt.ha.incidents.verdict import Verdict

U1 = "11111111-0000-4000-8000-000000000001"
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NODE = "kvm-a"
PLENTY = AvailableMemory(available_bytes=1 << 40)


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


@dataclass
class Story:
    """The signals of a host, one after the other.

    Attributes:
        now: the time.
        known: what is remembered.
        verdicts: of each signal.
    """

    config: HaConfig = field(default_factory=HaConfig)
    now: datetime = NOON
    known: dict[str, InstanceRecord] = field(default_factory=dict[str, InstanceRecord])
    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    starts: int = 0

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def see(
        self,
        *kinds: Kind,
        who: str = U1,
        action: str = "",
        about: str = "",
        reason: str = "",
        seconds: float = 0,
        missed: bool = False,
    ) -> Verdict:
        """Judge signals of an instance, 10 ms after each other; returns the last verdict."""
        for kind in kinds:
            self.now += timedelta(milliseconds=10)
            before = self.get(who)
            if kind is Kind.STARTED:
                self.starts += 1
            signal = Signal(
                kind=kind,
                instance=who,
                name=f"vm-{who[:8]}",
                at=self.now,
                domain_id=self.starts,
                action=action,
                about=about,
                reason=reason,
                seconds=seconds,
                missed=missed,
            )
            verdict = classify(signal, before, self.config)
            self.known[who] = record(before, signal, verdict, self.config)
            self.verdicts.append(verdict)
        return self.verdicts[-1]

    def run(self, *who: str) -> None:
        """Have instances started."""
        for one in who or (U1,):
            self.see(Kind.STARTED, who=one)

    def get(self, who: str = U1) -> InstanceRecord:
        return self.known.get(who) or InstanceRecord(uuid=who)

    def cases(self, who: str = U1) -> list[IncidentType]:
        """Types of the open cases."""
        return [case.type for case in self.get(who).cases]

    def only(self, who: str = U1) -> Case:
        """The one open case."""
        (case,) = self.get(who).cases
        return case

    def plan(self, *, after: float = 1, memory: AvailableMemory = PLENTY) -> EscalationPlan:
        """The reactions planned a second later; they are taken as done."""
        self.pass_(after)
        planned = plan(self.known, NODE, self.config, self.now, memory)
        self.known = planned.instances
        for recovery in planned.recoveries:
            for who, case_id in recovery.cases:
                self.known[who] = recovering(self.known[who], case_id, self.now)
        return planned

    def look(self, state: State = State.RUNNING, who: str = U1, **found: object) -> None:
        """Probe the cases that require it, when they are due."""
        for case in self.get(who).cases:
            if case.step is Step.PROBE and case.due is not None:
                self.now = max(self.now, case.due)
                probe = InstanceProbe(state=state, **found)  # type: ignore[arg-type]
                self.known[who] = probed(self.get(who), case, probe, self.config, self.now)

    def probe_until(self, then: datetime) -> None:
        """Let time pass, in which the instance runs at each probe that is due."""
        while any(c.step is Step.PROBE and c.due and c.due <= then for c in self.get().cases):
            self.look()
        self.now = then

    @property
    def host(self) -> InstanceRecord:
        return self.get(HOST)
