"""A host, its fence device, the API and two operators in a model; the decisions are the real ones.

What a frozen process may still do is in it: a call to the device that was under way when the lease
went takes effect until its deadline, and everything else of that process is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec.structs import replace as with_fields
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, is_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.ha import fencing
from hypercobalt.ha.guard import Gate
from hypercobalt.ha.node_failure import Agent, Question, Signs, judge
from hypercobalt.operator.ha.conditions import part
from hypercobalt.operator.ha.decide import decide
from hypercobalt.operator.ha.facts import (
    BEFORE,
    AskPeers,
    DeleteEviction,
    Evict,
    Facts,
    Fence,
    ForceDown,
    Plan,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.fences import Setup
from hypercobalt.operator.ha.observe import declared_dead
from hypercobalt.operator.ha.settings import HaMode, HaSettings

S = timedelta(seconds=1)
SETTINGS = HaSettings(mode=HaMode.INTERNAL)
LASTS = 60 * S
SERVER = "vm-1"


@dataclass
class Call:
    """A call to the fence device that was sent: for which boot, and until when it may act."""

    boot: str
    until: datetime


@dataclass
class Operator:
    """What one process has in memory, and what it is about to do."""

    mine: datetime | None = None
    question: Question | None = None
    facts: Facts | None = None
    plan: Plan | None = None
    call: Call | None = None


@dataclass
class World:
    """What is so, and what is stored.

    Args:
        on: the host has power.
        boot: number of its boot.
        heard: kubelet, agent and compute service reach the API.
        agent: the agent runs while the host does; else the host's other programs do without it.
        at_source: boot in which the server was started there; None when it does not run there.
        elsewhere: the server runs on another host.
        lies: the device reports off without doing anything.
    """

    now: datetime = NOW
    on: bool = True
    boot: int = 1
    heard: bool = True
    agent: bool = True
    at_source: int | None = 1
    elsewhere: bool = False
    lies: bool = False
    refuses: bool = False
    gate: bool = True
    forced_down: bool = False
    on_source: bool = True  # as the compute service has it
    node_boot: int = 1
    ready: str = "True"
    healthy_since: datetime = NOW
    evictions: list[Eviction] = field(default_factory=list[Eviction])
    calls: list[Fencing] = field(default_factory=list[Fencing])
    hypervisor: Hypervisor = field(
        default_factory=lambda: Hypervisor(
            metadata=ObjectMeta(name="kvm-a", uid="u"),
            spec=HypervisorSpec(highAvailability=True, lifecycleEnabled=True),
            status=HypervisorStatus(bootID="1", internalIp="192.0.2.1"),
        )
    )

    # What happens by itself

    def report(self) -> None:
        """Kubelet and agent report what they can."""
        if self.on and self.heard:
            if self.ready != "True":
                self.healthy_since = self.now
            self.ready, self.node_boot = "True", self.boot
            if self.agent:
                self.store(bootID=str(self.boot))
        else:
            self.ready = "Unknown"

    def power_off(self) -> None:
        """Every guest of the boot is gone with it."""
        self.on, self.at_source = False, None

    def boots(self) -> None:
        if not self.on:
            self.on, self.boot = True, self.boot + 1

    def owner_starts(self) -> None:
        """Nova starts a server that is off on its host, forced down or not, agent or not."""
        ready = self.ready == "True" and self.node_boot == self.boot
        if ready and self.on and self.heard and self.on_source and self.at_source is None:
            self.at_source = self.boot

    def store(self, **fields: object) -> None:
        status = with_fields(self.hypervisor.status, **fields)
        self.hypervisor = with_fields(self.hypervisor, status=status)

    # What others do

    def evacuate(self) -> None:
        """The eviction core: by a running Eviction, with the proof for the present boot."""
        if self.evictions and self.forced_down and is_fenced(self.hypervisor) and self.on_source:
            self.elsewhere, self.on_source = True, False
            self.evictions = [ended(one) for one in self.evictions]

    def place(self) -> None:
        """The scheduler: the server comes back to a host that is in service."""
        usable = not self.hypervisor.spec.maintenance and self.ready == "True"
        if usable and self.on and self.heard and self.elsewhere:
            self.elsewhere, self.on_source, self.at_source = False, True, self.boot
            self.forced_down = False

    # One operator's pass, in its parts

    def observe(self, operator: Operator) -> None:
        facts = self._facts(operator)
        operator.facts, operator.plan = facts, decide(facts, SETTINGS)

    def act(self, operator: Operator) -> None:
        plan, facts = operator.plan, operator.facts
        assert plan is not None
        assert facts is not None
        match plan.action:
            case None:
                pass
            case AskPeers():
                operator.question = Question(self.now)
            case SetMaintenance(mode, before):
                notes = {BEFORE: before} if before else {}
                self.hypervisor = with_fields(
                    self.hypervisor,
                    spec=with_fields(self.hypervisor.spec, maintenance=mode),
                    metadata=with_fields(self.hypervisor.metadata, annotations=notes),
                )
            case Fence(record):
                operator.mine = None
                self.calls.append(record)
                operator.call = Call(record.bootID or "", record.deadline or self.now)
                operator.plan = replace(plan, fencing=self._answer(operator, record))
            case ForceDown(record):
                self.forced_down = True
                at = self.now.replace(microsecond=0)
                operator.plan = replace(plan, fencing=with_fields(record, forcedDownAt=at))
            case TakeBack(_, record):
                operator.plan = replace(plan, fencing=record)
            case Evict(eviction):
                self.evictions = [*self.evictions, eviction]
            case DeleteEviction(eviction):
                name = eviction.metadata.name
                self.evictions = [e for e in self.evictions if e.metadata.name != name]

    def write(self, operator: Operator) -> None:
        plan, facts = operator.plan, operator.facts
        assert plan is not None
        assert facts is not None
        written = part(facts.hypervisor, plan, self.now)
        others = tuple(c for c in self.hypervisor.conditions if c.type not in written.types)
        self.store(conditions=(*others, *written.conditions), **written.fields)
        record, before = plan.fencing, facts.hypervisor.status.fencing
        begun = record is not None and record.phase == FencingPhase.ATTEMPTING
        if begun and record is not None and (before is None or before.attempts != record.attempts):
            operator.mine = record.deadline
        operator.facts = operator.plan = None

    def take_effect(self, operator: Operator) -> None:
        """A call that is under way switches the host off, unless its deadline is over."""
        call, operator.call = operator.call, None
        if call is not None and self.now < call.until and not (self.lies or self.refuses):
            self.power_off()

    def _answer(self, operator: Operator, record: Fencing) -> Fencing:
        if self.refuses:
            answer = fencing.Answer(False, "409 Conflict")
        elif self.lies:
            answer = fencing.Answer(True, "off")
        else:
            self.take_effect(operator)
            answer = fencing.Answer(not self.on, "power is read")
        return fencing.answered(record, answer, self.now)

    def _facts(self, operator: Operator) -> Facts:
        status = self.hypervisor.status
        alive = self.on and self.heard
        signs = Signs(
            ready=self.ready,
            node_boot=str(self.node_boot),
            boot=status.bootID or "",
            agent=Agent.ALIVE if alive and self.agent else Agent.SILENT,
            compute=alive,
            unhealthy_since=status.unhealthySince,
            fenced=declared_dead(self.hypervisor),
            question=operator.question,
        )
        servers = (SERVER,) if self.on_source else ()
        return Facts(
            hypervisor=with_fields(
                self.hypervisor,
                status=with_fields(status, conditions=(*status.conditions, *self._health(alive))),
            ),
            verdict=judge(signs, SETTINGS.waits, self.now),
            ready=self.ready,
            node_boot=str(self.node_boot),
            silenced="",
            abandoned=False,
            gates=(Gate("MaxUnhealthy", self.gate, "as told"),),
            host=Host("kvm-a", "h", "s", enabled=True, up=alive, servers=servers),
            evictions=tuple(self.evictions),
            fence=Setup(("bmc",), LASTS),
            stopped="",
            claim="",
            mine=operator.mine,
            now=self.now,
        )

    def _health(self, alive: bool) -> tuple[Condition, ...]:
        well = "True" if alive and self.agent and self.ready == "True" else "False"
        types = ("NodeHealthy", "AgentReporting", "LibVirtConnection")
        return tuple(
            with_fields(condition(type_, well), lastTransitionTime=self.healthy_since)
            for type_ in types
        )


def ended(eviction: Eviction) -> Eviction:
    done = condition("Evicting", "False", "Succeeded")
    return with_fields(eviction, status=EvictionStatus(conditions=(done,)))
