"""A host, its fence device, the API and two operators in a model; the decisions are the real ones.

What a frozen process may still do is in it: a call to the device that was under way when the lease
went takes effect until its deadline, and everything else of that process is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from msgspec.structs import replace as with_fields
from tests.records import recorded
from tests.unit.operator.samples import NOW, condition

from hypercobalt.adapters.fencing.port import PowerState, combined
from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.fencing import (
    ASSERTED_DEAD,
    OUT_OF_SERVICE,
    Fencing,
    FencingMethod,
    FencingPhase,
    GuestsStopped,
    is_ordered,
)
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, is_fenced
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure import fencing_record, rebooting
from hypercobalt.ha.host_failure.assertions import LastReports
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport, doubts
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.ha.host_failure.fencing import Fence
from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.ha.host_failure.node_failure import AgentLiveness, Question, Signs, judge
from hypercobalt.ha.host_failure.rebooting import Reboot
from hypercobalt.ha.host_failure.unfencing import GiveBack, given_back
from hypercobalt.operator.ha import decide as rules
from hypercobalt.operator.ha.devices.fences import vanished
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.model.plan import (
    BEFORE,
    AskPeers,
    DeleteEviction,
    Evict,
    ForceDown,
    RecoveryPlan,
    SetMaintenance,
    TakeBack,
)
from hypercobalt.operator.ha.observing.signs import (
    asserted_death,
    declared_dead,
    powered_since,
    reported_at,
    stopped,
    with_power,
    with_record,
)
from hypercobalt.operator.ha.observing.silenced import is_kept
from hypercobalt.operator.ha.planning.keeping import is_over, is_to_be_kept
from hypercobalt.operator.ha.recording.attempts import new_deadline
from hypercobalt.operator.ha.recording.conditions import part
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.ha_mode import HaMode

S = timedelta(seconds=1)
SETTINGS = HaSettings(mode=HaMode.INTERNAL)
LASTS = 60 * S
decide = inspect.unwrap(rules.decide)  # walks are long: once a step, not twice
SERVER = "vm-1"


@dataclass
class Call:
    """A call to a fence device that was sent: for which boot, and until when it may act.

    Args:
        cuts: it switches the host off or cuts it off; else it gives the storage back.
        skew: how far the operators' clock was ahead then.
    """

    boot: str
    until: datetime
    acts: Callable[[], None]
    skew: timedelta
    cuts: bool = True


@dataclass
class Operator:
    """What one process has in memory, and what it is about to do."""

    mine: datetime | None = None
    question: Question | None = None
    facts: RecoveryFacts | None = None
    plan: RecoveryPlan | None = None
    call: Call | None = None


@dataclass(frozen=True)
class Bug:
    """What a wrong operator would do otherwise; by default nothing is wrong.

    Args:
        sees: what it takes the facts for.
        trusts: the eviction core goes by the record, and looks at nothing else.
        keeps: it does not withdraw an assertion that the host has disproved.
        combines: what it takes the readings of several devices for.
    """

    sees: Callable[[RecoveryFacts], RecoveryFacts] = lambda facts: facts
    trusts: bool = False
    keeps: bool = False
    combines: Callable[[list[tuple[str, PowerState | None]]], PowerState | None] = combined


@dataclass
class World:
    """The actual state of the host, and the stored objects.

    Args:
        on: the host has power.
        boot: number of its boot.
        connected: kubelet, agent and compute service reach the API.
        agent: the agent runs while the host does; else the host's other programs do without it.
        at_source: boot in which the server was started there; None when it does not run there.
        elsewhere: the server runs on another host.
        lies: the BMC reports off without doing anything.
        refuses: it takes no orders; it reports the power all the same.
        mute: it answers nothing.
        second: the host has a second power feed, on a device of its own, which does not lie.
        feeds: which feeds are on.
        second_refuses: that device takes no orders.
        storage: the host has a device that cuts it off from its storage.
        cut: it is cut off: what runs there writes nothing, and nothing starts there.
        storage_lies, storage_refuses, storage_mute: as for the BMC.
        renewed: renewals of the agent's Lease.
        heartbeat: when the kubelet has reported last.
        obeyed: boot whose agent has read that it counts as dead.
        tainted: the Node has the taint that asserts that it is dead.
        skew: how far the clock of the operators, and of the records, is ahead.
        off: why nothing must be done about the host; "" without a reason.
        away: the compute service cannot be read or called.
        landing: an evacuation was accepted, and its target has not started the server yet.
        registered: there is a Node; a kubelet registers it when it starts.
        known: there is a Hypervisor.
        setup: version of the fence devices' document and Secrets.
        by_hand: a person has to give the host its storage back: no record has it any more.
    """

    now: datetime = NOW
    on: bool = True
    boot: int = 1
    connected: bool = True
    agent: bool = True
    at_source: int | None = 1
    elsewhere: bool = False
    lies: bool = False
    refuses: bool = False
    mute: bool = False
    second: bool = False
    feeds: tuple[bool, bool] = (True, True)
    second_refuses: bool = False
    storage: bool = False
    cut: bool = False
    storage_lies: bool = False
    storage_refuses: bool = False
    storage_mute: bool = False
    gate: bool = True
    forced_down: bool = False
    on_source: bool = True  # as the compute service has it
    node_boot: int = 1
    renewed: int = 0
    heartbeat: datetime = NOW
    obeyed: int = 0
    tainted: bool = False
    skew: timedelta = timedelta(0)
    off: str = ""
    away: bool = False
    landing: bool = False
    registered: bool = True
    known: bool = True
    by_hand: bool = False
    setup: int = 1
    ready: str = "True"
    healthy_since: datetime = NOW
    bug: Bug = field(default_factory=Bug)
    evictions: list[Eviction] = field(default_factory=list[Eviction])
    calls: list[Fencing] = field(default_factory=list[Fencing])
    gifts: list[Fencing] = field(default_factory=list[Fencing])
    hypervisor: Hypervisor = field(
        default_factory=lambda: Hypervisor(
            metadata=ObjectMeta(name="kvm-a", uid="u"),
            spec=HypervisorSpec(highAvailability=True, lifecycleEnabled=True),
            status=HypervisorStatus(bootID="1", internalIp="192.0.2.1"),
        )
    )

    @property
    def clock(self) -> datetime:
        """What the operators take for the present."""
        return self.now + self.skew

    # What happens by itself

    def report(self) -> None:
        """Kubelet and agent report what they can."""
        if not self.known and self.registered:
            self._is_created()
        if self.on and self.connected and self.registered:
            if self.ready != "True":
                self.healthy_since = self.clock
            self.ready, self.node_boot = "True", self.boot
            self.heartbeat += S
        else:
            self.ready = "Unknown"
        if self.on and self.connected and self.agent and self.known:
            self.renewed += 1
            runs = (Instance(SERVER, SERVER, True),) if self.at_source is not None else ()
            self.store(bootID=str(self.boot), instances=runs)

    def _is_created(self) -> None:
        """The operator makes a Hypervisor of a Node that has none."""
        self.hypervisor, self.known = _hypervisor(), True

    def power_off(self) -> None:
        """Every guest of the boot is gone with it."""
        self.on, self.at_source, self.feeds = False, None, (False, False)

    def boots(self) -> None:
        if not self.on:
            self.on, self.boot, self.registered = True, self.boot + 1, True
            self.feeds = (True, True)

    def owner_starts(self) -> None:
        """Nova starts a server that is off on its host, forced down or not, agent or not.

        An agent whose boot counts as dead ends it at once.
        """
        if self._is_ended() or self.cut:
            return
        ready = self.ready == "True" and self.node_boot == self.boot
        if ready and self.on and self.connected and self._is_startable():
            self.at_source = self.boot

    def owner_starts_unreported(self) -> None:
        """The same while only the compute service reaches the API server.

        Nothing but the device shows that.
        """
        reached = self.on and not (self.connected or self.mute or self.lies or self.cut)
        if reached and not self._is_ended() and self._is_startable():
            self.at_source = self.boot

    def _is_startable(self) -> bool:
        """Nova starts no server that it rebuilds elsewhere at the time."""
        return self.on_source and self.at_source is None and not self.landing

    def falls_silent(self, mute: bool) -> None:
        """The device answers nothing more, or again; not while all depends on its answer."""
        unreported = self.at_source is not None and self.node_boot != self.boot
        self.mute = mute and not unreported

    def _is_ended(self) -> bool:
        """Whether the agent ends what is started: it has read the order, cut off or not."""
        return (
            self.agent
            and self.obeyed == self.boot
            and is_ordered(self.hypervisor.status.fencing, str(self.boot))
        )

    def agent_obeys(self) -> None:
        """The agent ends every guest of a boot that counts as dead, and reports that."""
        record = self.hypervisor.status.fencing
        reads = self.on and self.connected and self.agent and self.known
        if reads and is_ordered(record, str(self.boot)):
            self.at_source, self.obeyed = None, self.boot
            started = record.startedAt if record is not None else None
            done = GuestsStopped(str(self.boot), started, self.clock, 1)
            self.store(bootID=str(self.boot), guestsStopped=done)

    # What people do

    def asserts_dead(self) -> None:
        """A person verifies that the host is off, and asserts that its boot is dead."""
        if not self.on:
            self.note(ASSERTED_DEAD, self.hypervisor.status.bootID or "")

    def orders_the_agent(self) -> None:
        """A person has the agent of a host that cannot be emptied end every instance."""
        boot = self.hypervisor.status.bootID
        if self.known and boot and self.hypervisor.status.fencing is None:
            order = Fencing(
                phase=FencingPhase.ATTEMPTING,
                method=FencingMethod.AGENT,
                bootID=boot,
                startedAt=self.clock.replace(microsecond=0),
            )
            self.store(fencing=order)

    def taints(self) -> None:
        """Another system does the same, by the taint; it takes that away when it likes."""
        self.tainted = self.tainted or not self.on

    def delete_node(self) -> None:
        """The Hypervisor goes with it, unless it is kept for the instances of a failed host."""
        self.registered, self.ready = False, "Unknown"
        meta = self.hypervisor.metadata
        if FINALIZER not in meta.finalizers:
            self._is_gone()
        elif meta.deletionTimestamp is None:
            meta = with_fields(meta, deletionTimestamp=self.clock)
            self.hypervisor = with_fields(self.hypervisor, metadata=meta)

    def _is_gone(self) -> None:
        """With the Hypervisor go its Evictions, which it owns, and what has cut the host off."""
        self.by_hand = self.by_hand or self.cut
        self.known, self.hypervisor, self.evictions = False, _hypervisor(), []

    def note(self, key: str, value: str) -> None:
        """Set an annotation; "" takes it away."""
        notes = {k: v for k, v in self.hypervisor.metadata.annotations.items() if k != key}
        if value:
            notes[key] = value
        meta = with_fields(self.hypervisor.metadata, annotations=notes)
        self.hypervisor = with_fields(self.hypervisor, metadata=meta)

    def node(self) -> Node:
        """Return the Node as the API has it."""
        taint = Taint(OUT_OF_SERVICE, "NoExecute", "nodeshutdown")
        return Node(
            metadata=self.hypervisor.metadata,
            spec=NodeSpec(taints=(taint,) if self.tainted else ()),
            status=NodeStatus(
                conditions=(NodeCondition("Ready", self.ready, lastHeartbeatTime=self.heartbeat),),
                nodeInfo=NodeSystemInfo(bootID=str(self.node_boot)),
            ),
        )

    def seen_node(self) -> Node:
        return self.node() if self.registered else vanished(self.hypervisor)

    def read(self, record: Fencing | None) -> LatestReports:
        """The host's last reports, and its power where that matters."""
        if record is not None and record.method == FencingMethod.STORAGE:
            return replace(self.read(None), power=self._storage(record))
        methods = {FencingMethod.BMC, FencingMethod.EXTERNAL}
        reads_power = record is not None and record.method in methods
        reads_power = reads_power or bool(asserted_death(self.hypervisor, self.seen_node()).by)
        state = self._power() if reads_power else PowerState.OFF
        power = PowerReport.ON if state is PowerState.ON else PowerReport.OFF
        if state is None:
            by_device = record is not None and record.method == FencingMethod.BMC
            power = PowerReport.UNKNOWN if by_device else PowerReport.OFF
        agent = self.on and self.connected and self.agent
        return LatestReports(self._reported_boot(), str(self.renewed), power, agent=agent)

    def _reported_boot(self) -> str:
        return str(self.node_boot) if self.registered else ""

    def _storage(self, record: Fencing) -> PowerReport:
        """What the storage device reports, of a host that it has proven dead."""
        if not is_fenced(self.hypervisor):
            return PowerReport.OFF
        if self.storage_mute:
            return PowerReport.UNKNOWN
        return PowerReport.OFF if self.cut or self.storage_lies else PowerReport.ON

    def store(self, **fields: object) -> None:
        status = with_fields(self.hypervisor.status, **fields)
        self.hypervisor = with_fields(self.hypervisor, status=status)
        if "fencing" in fields:
            self.hypervisor = recorded(self.hypervisor)

    # What others do

    def evacuate(self) -> None:
        """The eviction core: by a running Eviction, with a proof that nothing speaks against."""
        record = self.hypervisor.status.fencing
        proven = record is not None and is_fenced(self.hypervisor)
        if not proven or record is None:
            return
        latest = self.read(record)
        doubted = doubts(record, latest) or latest.power is PowerReport.UNKNOWN
        if doubted and not self.bug.trusts:
            return
        begins = self.known and not self.off and not self.away
        if begins and self.evictions and self.forced_down and self.on_source:
            self.landing = True

    def lands(self) -> None:
        """The target of an evacuation starts the server."""
        if self.landing:
            self.landing, self.elsewhere, self.on_source = False, True, False
            self.evictions = [ended(one) for one in self.evictions]

    def fails_to_land(self) -> None:
        """The target refuses it; Nova has it where it was."""
        self.landing = False

    def place(self) -> None:
        """The scheduler: the server comes back to a host that is in service."""
        usable = not self.hypervisor.spec.maintenance and self.ready == "True"
        if usable and self.on and self.connected and self.elsewhere:
            self.elsewhere, self.on_source, self.at_source = False, True, self.boot
            self.forced_down = False

    # One operator's pass, in its parts

    def observe(self, operator: Operator) -> None:
        operator.facts = operator.plan = None
        if not self.known or not (self.registered or is_kept(self.hypervisor)):
            self._let_go()
            return
        if is_to_be_kept(self._facts(operator)):
            self._keep()
        facts = self._facts(operator)
        operator.facts, operator.plan = facts, decide(self.bug.sees(facts), SETTINGS)

    def _keep(self) -> None:
        """Have its Hypervisor stay when its Node is deleted."""
        meta = self.hypervisor.metadata
        if meta.deletionTimestamp is None:
            meta = with_fields(meta, finalizers=(FINALIZER,))
            self.hypervisor = with_fields(self.hypervisor, metadata=meta)

    def _let_go(self) -> None:
        if self.hypervisor.metadata.deletionTimestamp is not None:
            self._is_gone()
        meta = with_fields(self.hypervisor.metadata, finalizers=())
        self.hypervisor = with_fields(self.hypervisor, metadata=meta)

    def act(self, operator: Operator) -> None:
        plan, facts = operator.plan, operator.facts
        if plan is None or facts is None:
            return
        match plan.action:
            case None:
                pass
            case AskPeers():
                operator.question = Question(self.clock)
            case SetMaintenance(mode, before):
                self.note(BEFORE, before)
                spec = with_fields(self.hypervisor.spec, maintenance=mode)
                self.hypervisor = with_fields(self.hypervisor, spec=spec)
            case Fence(record):
                operator.mine = None
                self.calls.append(record)
                storage = record.method == FencingMethod.STORAGE
                acts = self._cut_off if storage else self._switch_off
                operator.call = Call(
                    record.bootID or "", self._until(record.deadline), acts, self.skew
                )
                answer = self._of_storage if storage else self._of_power
                done = fencing_record.answered(record, answer(operator), self.clock)
                operator.plan = replace(plan, fencing=done)
            case GiveBack(record):
                operator.plan = replace(plan, fencing=self._gives_back(operator, record))
            case Reboot(record):
                operator.plan = replace(plan, fencing=self._reboots(operator, record))
            case ForceDown() | TakeBack() if self.away:
                pass
            case ForceDown(record):
                self.forced_down = True
                at = self.clock.replace(microsecond=0)
                operator.plan = replace(plan, fencing=with_fields(record, forcedDownAt=at))
            case TakeBack(_, record):
                operator.plan = replace(plan, fencing=record)
            case Evict(eviction):
                self.evictions = [*self.evictions, eviction]
            case DeleteEviction(eviction):
                name = eviction.metadata.name
                self.evictions = [e for e in self.evictions if e.metadata.name != name]

    def _gives_back(self, operator: Operator, record: Fencing) -> Fencing:
        operator.mine = None
        self.gifts.append(record)
        until, boot = self._until(record.unfenceDeadline), record.bootID or ""
        operator.call = Call(boot, until, self._give_back, self.skew, cuts=False)
        if self.storage_refuses or self.storage_mute:
            return record
        self.take_effect(operator)
        return given_back(record)

    def _reboots(self, operator: Operator, record: Fencing) -> Fencing:
        operator.mine = None
        until, boot = self._until(record.rebootDeadline), record.bootID or ""
        operator.call = Call(boot, until, self._reboot, self.skew)
        problem = "409 Conflict, or no answer"
        if not (self.refuses or self.lies) and self._power() is PowerState.ON:
            self.take_effect(operator)
            problem = ""
        return rebooting.answered(record, problem, "bmc", self.clock)

    def write(self, operator: Operator) -> None:
        plan, facts = operator.plan, operator.facts
        if plan is None or facts is None:
            return
        if plan.removes_assertion and not self.bug.keeps:
            self.note(ASSERTED_DEAD, "")
        written = part(facts.hypervisor, plan, self.clock)
        others = tuple(c for c in self.hypervisor.conditions if c.type not in written.types)
        self.store(conditions=(*others, *written.conditions), **written.fields)
        deadline = new_deadline(facts.hypervisor.status.fencing, plan.fencing)
        operator.mine = deadline or operator.mine
        operator.facts = operator.plan = None
        if is_over(facts):
            self._let_go()

    def seems_over(self, call: Call) -> bool:
        """Whether the clock was set so far ahead that a call counts as over."""
        return self.now + self.skew >= call.until + call.skew

    def _until(self, deadline: datetime | None) -> datetime:
        """When a deadline by the operators' clock is over."""
        return self.now + ((deadline or self.clock) - self.clock)

    def take_effect(self, operator: Operator) -> None:
        """A call that is under way does what was ordered, unless its deadline is over."""
        call, operator.call = operator.call, None
        if call is not None and self.now < call.until:
            call.acts()

    def _power(self) -> PowerState | None:
        """What an operator takes from the readings of all devices that switch the power."""

        def read(feed: int) -> PowerState:
            # A host without power may stand on a feed that is on.
            return PowerState.ON if self.on and self.feeds[feed] else PowerState.OFF

        first = None if self.mute else PowerState.OFF if self.lies else read(0)
        return self.bug.combines([("", first), *((("", read(1)),) if self.second else ())])

    def _switch_off(self) -> None:
        if self.lies or self.refuses or self.mute:
            return
        self.feeds = (False, self.feeds[1] and self.second and self.second_refuses)
        if not any(self.feeds):
            self.power_off()

    def _reboot(self) -> None:
        if not (self.lies or self.refuses or self.mute or self.second_refuses):
            self.power_off()
            self.boots()

    def _cut_off(self) -> None:
        if not (self.storage_lies or self.storage_refuses or self.storage_mute):
            self.cut = True

    def _give_back(self) -> None:
        if not (self.storage_refuses or self.storage_mute):
            self.cut = False

    def _of_power(self, operator: Operator) -> fencing_record.DeviceAnswer:
        if self.mute:
            return fencing_record.DeviceAnswer(False, "no answer")
        if self.refuses:
            operator.call = None  # it was answered, and nothing was ordered
            why = "401 Unauthorized"
            return fencing_record.DeviceAnswer(
                False, why, acts_late=False, refused=why, setup=str(self.setup)
            )
        if not self.lies:
            self.take_effect(operator)
        return fencing_record.DeviceAnswer(self._power() is PowerState.OFF, "power is read")

    def _of_storage(self, operator: Operator) -> fencing_record.DeviceAnswer:
        if self.storage_refuses or self.storage_mute:
            return fencing_record.DeviceAnswer(False, "the switch refuses, or does not answer")
        if self.storage_lies:
            return fencing_record.DeviceAnswer(True, "off")
        self.take_effect(operator)
        return fencing_record.DeviceAnswer(self.cut, "the access is read")

    def _facts(self, operator: Operator) -> RecoveryFacts:
        status = self.hypervisor.status
        alive = self.on and self.connected
        signs = Signs(
            ready=self.ready,
            node_boot=self._reported_boot(),
            boot=status.bootID or "",
            agent=AgentLiveness.ALIVE if alive and self.agent else AgentLiveness.SILENT,
            compute=None if self.away else alive,
            unhealthy_since=status.unhealthySince,
            fenced=declared_dead(self.hypervisor),
            powered_since=powered_since(self.hypervisor, self.seen_node()),
            question=operator.question,
        )
        latest = self.read(status.fencing)
        reports = LastReports(latest.lease, reported_at(self.seen_node()))
        found = with_power(asserted_death(self.hypervisor, self.seen_node()), latest.power, "bmc")
        asserted = with_record(found, status.assertion, reports, self.clock)
        servers = (SERVER,) if self.on_source else ()
        return RecoveryFacts(
            hypervisor=with_fields(
                self.hypervisor,
                status=with_fields(status, conditions=(*status.conditions, *self._health(alive))),
            ),
            verdict=judge(signs, SETTINGS.waits, self.clock),
            ready=self.ready,
            latest=latest,
            silenced=self.off,
            abandoned=bool(self.off) and not self.away,
            gates=self._gates(),
            host=None
            if self.away
            else Host("kvm-a", "h", "s", enabled=True, up=alive, servers=servers),
            evictions=tuple(self.evictions),
            fence=FenceSetup(
                Means("bmc", LASTS),
                Means("san", LASTS) if self.storage else Means(),
                version=str(self.setup),
            ),
            stopped=stopped(self.hypervisor),
            asserted=asserted.text if not asserted.doubt else "",
            rejected=asserted.doubt,
            assertion=asserted.record,
            mine=operator.mine,
            now=self.clock,
        )

    def _gates(self) -> tuple[Gate, ...]:
        return (
            Gate("MaxUnhealthy", self.gate, "as set by the model"),
            Gate("Silenced", not self.off, self.off),
            Gate("ComputeService", not self.away, "away"),
        )

    def _health(self, alive: bool) -> tuple[Condition, ...]:
        well = "True" if alive and self.agent and self.ready == "True" else "False"
        types = ("NodeHealthy", "AgentReporting", "LibVirtConnection")
        return tuple(
            with_fields(condition(type_, well), lastTransitionTime=self.healthy_since)
            for type_ in types
        )


def _hypervisor() -> Hypervisor:
    """A world whose host has not reported yet."""
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-a", uid="u"),
        spec=HypervisorSpec(highAvailability=True, lifecycleEnabled=True),
        status=HypervisorStatus(internalIp="192.0.2.1"),
    )


def ended(eviction: Eviction) -> Eviction:
    done = condition("Evicting", "False", "Succeeded")
    return with_fields(eviction, status=EvictionStatus(conditions=(done,)))
