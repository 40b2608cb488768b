"""An attacker that knows the operator's reactions, as a state machine of Hypothesis.

It holds one credential of one host, and writes whatever the server takes from it, while other hosts
fail and come back, and the operator is restarted. What that brings about is judged by `effects`.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import tracemalloc
import warnings
from asyncio import sslproto
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import ClassVar, Concatenate, Final, ParamSpec, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.conformance.captured import arrangements, guests
from tests.conformance.captured.attacks import (
    ATTACKS,
    COHERENT,
    DEFINITIONS,
    REACTIONS,
    Attack,
    Attacks,
    definitions,
    hostile,
)
from tests.conformance.captured.credentials import (
    CREDENTIALS,
    KUBELET,
    NODE_AGENT,
    OF_A_HOST,
    SCRAPERS,
    UNBOUND,
    WHOLE_HOST,
    User,
)
from tests.conformance.captured.effects import EffectError, Effects
from tests.conformance.captured.knowledge import (
    VICTIM,
    Definitions,
    Knowledge,
    Request,
    recovery_name,
)
from tests.conformance.captured.site import (
    CAPTURED,
    EVENTS,
    HYPERVISORS,
    LEASES,
    NODES,
    OTHERS,
    REQUESTS,
    Site,
)
from tests.conformance.real import Server
from tests.conformance.wire import Json
from tests.cost import spare_the_collector

from hypercobalt.adapters.libvirt.model import MIGRATION_OUT, Domain, JobStats, JobType
from hypercobalt.adapters.libvirt.port import DiskInUseError, LibvirtRefusedError
from hypercobalt.api.eviction import EvictionMode, Trigger
from hypercobalt.api.peers import PeerProbe
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import RecoveryRequest
from hypercobalt.lab import rights
from hypercobalt.node_agent.incidents.recovery_evictions import Evictions
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Kube, guard, load_connection
from hypercobalt.runtime.routes import Request as PageRequest
from hypercobalt.runtime.routes import Requester

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Rule = Callable[Concatenate["CapturedHost", P], None]


def counted(method: Rule[P]) -> Rule[P]:
    """Count the runs of a rule."""

    @functools.wraps(method)
    def run(self: CapturedHost, /, *given: P.args, **named: P.kwargs) -> None:
        self.ran[method.__name__] += 1
        method(self, *given, **named)

    return run


_CLAIMS: Final = ("addresses", "hostUUID", "internalIp", "kubernetes.io/hostname")
"""Fields by which a host claims what is another's."""
_HIDES: Final = ("addresses", "kubernetes.io/hostname")
"""Fields by which a host makes itself silent to the operator, so that what it may run waits."""

_LAST_MOMENT: Final = {
    **dict.fromkeys(("capabilities", "domain_capabilities", "domains", "document"), 9.5),
    **dict.fromkeys(("define", "undefine", "has_file", "mark", "delete_file"), 9.5),
    **dict.fromkeys(("job_stats", "control_info"), 2.5),
    **dict.fromkeys(("boot", "destroy"), 59.0),
}
"""Seconds after which the operator has not yet given up what it asks of a host's libvirtd."""
_LATE_START: Final = {"boot": _LAST_MOMENT["boot"]}
_LONG_MOVE: Final = 60.0
"""Seconds of a live migration, in which the operator is restarted."""
_LEVELS: Final = 3000
_DEEP: Final = (
    b'{"metadata":{"managedFields":[{"manager":"x","operation":"Update",'
    b'"apiVersion":"coordination.k8s.io/v1","time":"2026-01-01T00:00:00Z",'
    b'"fieldsType":"FieldsV1","fieldsV1":%s{}%s}]}}'
) % (b'{"f:a":' * _LEVELS, b"}" * _LEVELS)
_AGAIN: Final = 10.0
"""Seconds between two writes of what persists: as often as an agent renews its Lease."""
_LONGEST_AGAIN: Final = 640.0
"""The same, doubled each time while all are refused: such a write changes nothing."""
_AHEAD: Final = 1.3
"""Seconds between two renewals of a Lease of one second, which the operator's watch shows half a
second later where something else has changed just before: when the Lease has run out, and is read,
the next one is there.
"""
_LARGE: Final = 2**50
"""Bytes of a guest that a move takes for ever to carry."""
_PROGRESS: Final = 20.0
"""Seconds between two reports of it."""
_LOCKED: Final = 'internal error: process exited: Failed to get "write" lock'
_LONG_TURN: Final = 0.5
"""Seconds of CPU for which the operator may do one thing alone, on a slow machine."""
_HELD_BYTES: Final = 6 * 2**20
"""What may stay in memory of what is stored nowhere any more."""
_NOT_OF_CONNECTIONS: Final = tracemalloc.Filter(inclusive=False, filename_pattern=sslproto.__file__)
_PERSISTING: Final = 2
"""Most writes that persist in one run: each costs as much as a host does."""
PATIENCE: Final = 180
"""Seconds within which a host is offboarded, as far as that depends on what it writes."""
_UNTIL_NEW: Final = 60
"""Seconds within which a failing host's status shows something new, or nothing for long."""
_WATCHED: Final = 0.3
"""Seconds of real time for the first events of a watch."""


class CapturedHost(RuleBasedStateMachine):
    """See the module.

    Attributes:
        steps: what was done to all sites, one by one: a rule takes none, one or several.
        ran: how often each rule has run.
        codes: answers by credential, method and code.
        collects: what was found, with the number of steps until then; None fails at the first.
    """

    server: ClassVar[Server]
    users: ClassVar[Mapping[str, User]]
    runner: ClassVar[asyncio.Runner]
    credentials: ClassVar[tuple[str, ...]] = CREDENTIALS
    steps: ClassVar[int] = 0
    ran: ClassVar[Counter[str]] = Counter()
    codes: ClassVar[Counter[str]] = Counter()
    collects: ClassVar[dict[str, int] | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.running: Site | None = None
        self.credential, self.failed, self.leaving = "", False, False
        self.last: tuple[tuple[Request, ...], str] | None = None
        self.persisting, self.ahead = 0, False
        self.unending: frozenset[str] = frozenset()

    def _do(self, work: Coroutine[None, None, T]) -> T:
        return self.runner.run(work)

    def _step(self, work: Coroutine[None, None, object]) -> None:
        type(self).steps += 1
        try:
            self._do(work)
            self.effects.check()
        except EffectError as error:
            if self.collects is None:
                self.failed = True
                log.warning(
                    "step %d of the search: %s", self.steps, error
                )  # minutes before its end
                raise
            for one in self.effects.found or [str(error)]:
                self.collects.setdefault(one, self.steps)
            self.effects.found.clear()

    @initialize(data=st.data(), compute=st.sampled_from(["direct", "nova"]))
    def host_is_captured(self, data: st.DataObject, compute: str) -> None:
        credential = data.draw(st.sampled_from(self.credentials), label="credential")
        self.begins(credential, compute)

    def begins(self, credential: str, compute: str) -> None:
        """Have a site in service, and an attacker with one credential of a host of it."""
        self.credential = credential
        self._do(self._start(compute))

    async def _start(self, compute: str) -> None:
        self.running = site = Site(self.server, compute)
        await site.start()
        self.knowledge, self.effects = Knowledge(site), Effects(site)
        await site.rest.good("POST", EVENTS, _event(OTHERS[0]))
        self.knowledge.events.append("crash.1")
        await self.effects.begin()

    @property
    def site(self) -> Site:
        """The site, which runs."""
        assert self.running is not None
        return self.running

    # -- the attacker --------------------------------------------------------------------------

    @rule(data=st.data())
    @counted
    def writes(self, data: st.DataObject) -> None:
        self._writes(data, ATTACKS)

    @rule(data=st.data())
    @counted
    def writes_more(self, data: st.DataObject) -> None:
        """Hypothesis takes rules in turn: an attacker writes oftener than hosts fail."""
        self._writes(data, ATTACKS)

    @precondition(lambda self: self.is_agent and bool(self.silent))
    @rule(data=st.data())
    @counted
    def reacts(self, data: st.DataObject) -> None:
        """Write in the moment in which the status of a silent host shows something new.

        Between two steps of the operator lie a few seconds, which a wait of any length misses.
        """
        self._step(self._turns(self.silent[0]))
        self._writes(data, REACTIONS)

    async def _turns(self, name: str) -> None:
        before = await self._shown(name)

        async def is_new() -> bool:
            return bool(await self._shown(name) != before)

        await self.site.until(is_new, _UNTIL_NEW)

    async def _shown(self, name: str) -> Json:
        """What the operator shows of a host's failure; messages and times change with each pass."""
        status = ((await self.site.object(f"{HYPERVISORS}/{name}")) or {}).get("status", {})
        phases = [status.get(key, {}).get("phase") for key in ("recovery", "fencing")]
        states = [
            (one["type"], one["status"], one["reason"]) for one in status.get("conditions", ())
        ]
        return [status.get("unhealthySince"), *phases, *states]

    def _writes(self, data: st.DataObject, attacks: Mapping[str, Attacks]) -> None:
        each = st.sampled_from(OF_A_HOST if self.credential == WHOLE_HOST else (self.credential,))
        for _ in range(data.draw(st.integers(1, 5))):
            credential = data.draw(each)
            self.sends(*data.draw(attacks[credential], label=credential), credential=credential)

    @precondition(lambda self: self.is_agent)
    @rule(write=COHERENT, patient=st.booleans())
    @counted
    def writes_coherently(self, write: Attack, patient: bool) -> None:
        """What only means something together; and it may wait for what comes of it."""
        self.sends(*write, credential=self._agent)
        if patient and self.leaving:
            self.persists()
            self.passes(PATIENCE)

    @precondition(lambda self: self.is_agent and self.is_direct)
    @rule(write=DEFINITIONS)
    @counted
    def writes_definitions_of(self, write: Definitions) -> None:
        self.site.hosts[CAPTURED].stores = False
        own = self._do(self.site.rest.good("GET", f"{HYPERVISORS}/{CAPTURED}"))
        self.sends(*definitions(write, self.knowledge.symbols(), own), credential=self._agent)

    @precondition(lambda self: self.is_agent)
    @rule(answers=st.booleans())
    @counted
    def answers_probes_with(self, answers: bool) -> None:
        async def answer(asked: tuple[PeerProbe, ...]) -> None:
            reports: Json = [
                {"host": one.name, "answers": answers, "asked": one.asked} for one in asked
            ]
            path = f"{HYPERVISORS}/{CAPTURED}/status"
            lie = Request("PATCH", path, {"status": {"peerReports": reports}})
            await self._send((lie,), self._agent)

        self.site.lies = answer

    @precondition(lambda self: self.is_agent and self.is_direct)
    @rule(what=st.sampled_from([*guests.HOSTILE, "arguments"]))
    @counted
    def lies_about_definitions(self, what: str) -> None:
        """Its libvirt gives a hostile definition to whoever moves a guest."""
        libvirt = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        libvirt.lie = hostile(what, "UUID", f"{CAPTURED}-vm-1", CAPTURED)

    @precondition(lambda self: self.is_direct)
    @rule(slowly=st.booleans())
    @counted
    def answers(self, slowly: bool) -> None:
        """Its libvirtd answers in the last moment, or at once again."""
        there = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        there.delays = dict(_LAST_MOMENT) if slowly else {}

    @precondition(lambda self: self.is_agent)
    @rule()
    @counted
    def nests_its_fields(self) -> None:
        """Put thousands of levels under a name of its own into what all hosts have one of."""
        self._step(self._nest())

    async def _nest(self) -> None:
        path, user = f"{LEASES}/node-agent-{CAPTURED}", self.users[self._agent]
        answer = await self.site.rest.send_text("PATCH", path, _DEEP, user=user)
        self.codes[f"{self._agent} nests {answer.code}"] += 1

    def renews_ahead(self, *, ahead: bool) -> None:
        """Renew its Lease so that each read of it shows more than the watch, until it stops."""
        self.ahead = ahead
        if ahead:
            self.site.run(self._renew_ahead())

    async def _renew_ahead(self) -> None:
        path, user = f"{LEASES}/node-agent-{CAPTURED}", self.users[self._agent]
        number = 0
        while self.ahead:
            number += 1
            at = f"{self.site.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
            renewal = {"leaseDurationSeconds": 1, "holderIdentity": "agent", "renewTime": at}
            for spec in ({"leaseTransitions": number}, renewal):
                answer = await self.site.rest.send("PATCH", path, {"spec": spec}, user=user)
                self.codes[f"{self._agent} renews {answer.code}"] += 1
            await asyncio.sleep(_AHEAD)

    @precondition(lambda self: self.is_direct and self.site.has_power(CAPTURED))
    @rule(
        name=st.sampled_from((VICTIM, VICTIM, *OTHERS)),
        copy=st.builds(
            guests.Copy,
            st.sampled_from([0, 0, 1]),
            st.sampled_from(sorted(guests.COPIES)),
            st.booleans(),
            st.booleans(),
            st.booleans(),
        ),
    )
    @counted
    def has_a_copy(self, name: str, copy: guests.Copy) -> None:
        """Its libvirtd has a domain with the UUID of another host's guest."""
        own = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        if (uuid := guests.guest(name, copy.number)) in own.here:
            return
        seals = [mark.seal for one in own.here.values() for mark in one.marks if mark.seal]
        boot = self.site.hosts[name].boot
        own.put(guests.copied(copy, name, boot, seals[0] if seals else "0"))
        self.effects.copied.add(uuid)
        self._step(_at_once())

    def lists_a_move(self, name: str) -> None:
        """Have another host emptied, and list its guest that moves as one that arrives here.

        The operator is restarted meanwhile: it has to find out where the guest goes.
        """
        uuid = guests.guest(name, 0)
        own, theirs = (self.site.machines.at(self.site.hosts[one].uri) for one in (CAPTURED, name))
        self.site.machines.seconds[uuid] = _LONG_MOVE
        own.denies = True
        self.is_drained(name)
        self._do(self.site.until(_holds(lambda: uuid in theirs.jobs), PATIENCE))
        self.has_a_copy(name, guests.Copy(0, "arrives"))
        self.operator_restarts()
        self._do(self.site.until(_holds(lambda: uuid not in theirs.here), PATIENCE))
        own.put(guests.copied(guests.Copy(0, "runs"), name, "", ""))
        self.passes(60)
        own.denies = False

    def refuses_starts(self, *, for_locks: bool) -> None:
        """Have its libvirtd refuse each start, late, in the words of a lock that is held."""
        there = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        there.failures = {"boot": DiskInUseError(_LOCKED)} if for_locks else {}
        there.delays = dict(_LATE_START) if for_locks else {}

    def refuses_starts_late(self, *, late: bool) -> None:
        """Have its libvirtd take as long as it may to start nothing; a slow one is asked last."""
        there = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        there.failures = {"boot": LibvirtRefusedError("there is no memory")} if late else {}
        there.delays = dict(_LATE_START) if late else {}

    def answers_no_call(self, *, silent: bool) -> None:
        """Cut its libvirtd off, while its agent reports."""
        there = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        if silent:
            there.disconnect("no route to host")
        else:
            there.connect()

    def returns_with(self, name: str, guest: Domain) -> None:
        """Have another host come back, with a guest that it has got since it failed."""
        self.site.machines.at(self.site.hosts[name].uri).put(guest)
        self.returns(name)
        self._step(self.effects.back_in_time(name))

    def has_moves_without_end(self, moving: Iterable[Domain]) -> None:
        """Have its libvirtd show moves of these domains, and of no other, which make progress."""
        there, added = self.site.machines.at(self.site.hosts[CAPTURED].uri), tuple(moving)
        for uuid in self.unending:
            there.forget(uuid)
            there.jobs.pop(uuid, None)
        begins = bool(added) and not self.unending
        self.unending = frozenset(one.uuid for one in added)
        for one in added:
            there.put(one)
        self._progress()
        if begins:
            self.site.run(self._go_on())

    async def _go_on(self) -> None:
        while self.unending:
            await asyncio.sleep(_PROGRESS)
            self._progress()

    def _progress(self) -> None:
        there = self.site.machines.at(self.site.hosts[CAPTURED].uri)
        left = max(_LARGE - int(self.site.loop.time()), 1)
        values = {"operation": MIGRATION_OUT, "memory_total": _LARGE, "memory_remaining": left}
        for uuid in self.unending:
            there.jobs[uuid] = JobStats(JobType.UNBOUNDED, dict(values))

    def stores_large_definitions(self, domains: int, disks: int) -> None:
        """Store definitions of guests that no other host takes, which take long to parse."""
        self.site.hosts[CAPTURED].stores = False
        own = self._do(self.site.rest.good("GET", f"{HYPERVISORS}/{CAPTURED}"))
        found = guests.large_definitions(CAPTURED, self.site.hosts[CAPTURED].boot, domains, disks)
        body = arrangements.definitions_body(CAPTURED, found, own)
        self.sends(Request("PATCH", arrangements.definitions_path(CAPTURED), body))

    def passes_without_a_long_turn(self, seconds: int) -> None:
        """Let time pass, in which the operator may do nothing for long that all else waits for."""
        spare_the_collector()
        self._step(self._without_a_long_turn(asyncio.sleep(seconds)))

    def is_recovered_without_a_long_turn(self) -> None:
        """Have silent hosts recovered, the captured one dead among them, in the same way."""
        self._step(self._without_a_long_turn(self.effects.recovered_in_time()))

    async def _without_a_long_turn(self, work: Coroutine[None, None, None]) -> None:
        loop = self.site.loop
        loop.longest = 0.0
        waiting = asyncio.create_task(work)
        while not waiting.done() and loop.longest < _LONG_TURN:
            await asyncio.wait({waiting}, timeout=1.0)
        if loop.longest >= _LONG_TURN:
            waiting.cancel()
            await asyncio.wait({waiting})
            raise EffectError(f"the operator did nothing else for {loop.longest:.1f} s of CPU")
        await waiting

    def rewrites_its_node(self, times: int) -> None:
        """Have its kubelet report long texts, each time new ones, and none of them in the end."""
        self._step(self._rewrite(times))

    async def _rewrite(self, times: int) -> None:
        site, user = self.site, self.users[KUBELET]
        path = f"{NODES}/{CAPTURED}/status"
        tracemalloc.start()
        try:
            for number in range(times):
                change = {"status": {"conditions": guests.wordy_conditions(number)}}
                answer = await site.rest.send("PATCH", path, change, user=user)
                self.codes[f"{KUBELET} rewrites {answer.code}"] += 1
                await asyncio.sleep(1)
            del change, answer
            await site.kubelet(site.hosts[CAPTURED], "True")
            await asyncio.sleep(10)
            gc.collect()
            # An operator that was restarted has new connections, each with buffers of 128 KiB.
            texts = tracemalloc.take_snapshot().filter_traces([_NOT_OF_CONNECTIONS])
            held = sum(trace.size for trace in texts.traces)
        finally:
            tracemalloc.stop()
        if held > _HELD_BYTES:
            raise EffectError(f"{held / 2**20:.0f} MiB of texts stay in the operator's memory")

    def has_a_guest_crash(self, name: str) -> None:
        """Have a guest of another host crash, and that host's agent recover it at once."""
        self._step(self._recovered_at_once(name))

    async def _recovered_at_once(self, name: str) -> None:
        site, uuid = self.site, guests.guest(name, 0)
        settings = NodeAgentSettings(node=name, label=name, namespace=rights.NAMESPACE)
        recovery = RecoveryRequest(
            "ha-none",
            "none",
            site.clock.now(),
            (uuid,),
            ((uuid, "none"),),
            Trigger.INSTANCE_CRASH,
            EvictionMode.RESTART,
            "crash",
        )
        async with Kube(load_connection(self.server.kubeconfig)) as kube:
            agent = Evictions(kube, Store(), settings, clock=site.clock, config=HaConfig)
            if why := await agent.under_way(recovery):
                raise EffectError(f"the guest of {name} that has crashed waits for {why}")

    def requests_a_certificate(self, *, own_key: bool) -> None:
        """Request a certificate of the own host, by the token of its agent."""
        key = arrangements.HOST_KEY if own_key else arrangements.new_key()
        body = arrangements.certificate_request(CAPTURED, self.site.hosts[CAPTURED].address, key)
        self.sends(Request("POST", REQUESTS, body), credential=self._agent)

    def is_scraped(self) -> str:
        """Have the metrics of its agent read as Prometheus does, and return what it learns by that.

        Whoever runs Prometheus gives it the token of its pod, and another one only if that is
        refused.
        """
        return self._do(self._scraped())

    async def _scraped(self) -> str:
        async with Kube(load_connection(self.server.kubeconfig)) as kube:
            page = guard.guard(kube, guard.METRICS)

            async def admitted() -> str:
                """Rights may count a moment after they were given."""
                for name in SCRAPERS:
                    request = PageRequest("GET", "/metrics", "", _named_as_read(self.users[name]))
                    if isinstance(await page.admits(request, None), Requester):
                        return name
                return ""

            assert await self.site.until(admitted, _UNTIL_NEW)
            return await admitted()

    @precondition(lambda self: self.is_direct)
    @rule()
    @counted
    def ends_its_guests(self) -> None:
        """Its root may: nothing runs where the attacker says that nothing runs."""
        self.site.ends_guests(CAPTURED)

    @precondition(lambda self: self.last is not None and self.persisting < _PERSISTING)
    @rule()
    @counted
    def persists(self) -> None:
        """Repeat the last writes until the end: what the operator puts right is wrong again."""
        assert self.last is not None
        self.persisting += 1
        self.site.run(self._repeat(*self.last))
        self.last = None

    async def _repeat(self, requests: tuple[Request, ...], credential: str) -> None:
        wait = _AGAIN
        while True:
            accepted = await self._send(requests, credential)
            wait = _AGAIN if accepted else min(wait * 2, _LONGEST_AGAIN)
            await asyncio.sleep(wait)

    @property
    def is_agent(self) -> bool:
        return self.credential in {NODE_AGENT, UNBOUND, WHOLE_HOST}

    @property
    def _agent(self) -> str:
        return NODE_AGENT if self.credential == WHOLE_HOST else self.credential

    def sends(self, *requests: Request, credential: str = "") -> None:
        """Send requests with one credential."""
        credential = credential or self.credential
        changes = tuple(one for one in requests if one.method == "PATCH")
        self.last = (changes, credential) if changes else None
        self._step(self._send(requests, credential))

    async def _send(self, requests: tuple[Request, ...], credential: str) -> bool:
        """Send requests, and return whether one of them was accepted."""
        site, user, accepted = self.site, self.users[credential], False
        await self._look()
        for one in requests:
            path, body = str(self.knowledge.resolved(one.path)), self.knowledge.resolved(one.body)
            if one.watch:
                answer = await site.rest.first_events(path, user, _WATCHED)
            else:
                answer = await site.rest.send(one.method, path, body, patch=one.patch, user=user)
            accepted = accepted or answer.code < 300
            self.codes[f"{credential} {one.method} {answer.code}"] += 1
            self.effects.read(f"{one.method} {path} {str(body)[:100]}", answer.text)
            if answer.code < 300 and any(claim in str(body) for claim in _CLAIMS):
                self.effects.claimed = True
            if answer.code < 300 and any(field in str(body) for field in _HIDES):
                self.effects.hidden = True
        return accepted

    async def _look(self) -> None:
        """What the attacker reads before it writes: any agent may read all Hypervisors."""
        found = await self.site.object(f"{HYPERVISORS}/{CAPTURED}")
        began = (found or {}).get("status", {}).get("fencing", {}).get("startedAt", "")
        self.knowledge.fencing_began = began
        for name in self.silent:
            if (theirs := await self.site.object(f"{HYPERVISORS}/{name}")) is not None:
                self.knowledge.their_recovery = recovery_name(theirs)

    # -- what happens meanwhile ----------------------------------------------------------------

    @property
    def is_direct(self) -> bool:
        return self.site.compute == "direct"

    @property
    def silent(self) -> list[str]:
        return [name for name in OTHERS if not self.site.hosts[name].reports]

    @precondition(lambda self: not self.silent)
    @rule(name=st.sampled_from(OTHERS))
    @counted
    def dies(self, name: str) -> None:
        self.effects.befallen.add(name)
        self.effects.fails(name)
        self.site.dies(name)
        self._step(_at_once())

    @precondition(lambda self: not self.silent)
    @rule(name=st.sampled_from(OTHERS))
    @counted
    def falls_silent(self, name: str) -> None:
        if name != CAPTURED:
            self.effects.befallen.add(name)
            self.effects.fails(name)
        self.site.falls_silent(name)
        self._step(_at_once())

    @precondition(lambda self: bool(self.silent))
    @rule()
    @counted
    def silent_host_returns(self) -> None:
        self.returns(self.silent[0])

    def returns(self, name: str) -> None:
        self._step(self.site.comes_back(name))

    @precondition(lambda self: not self.silent)
    @rule(name=st.sampled_from(OTHERS))
    @counted
    def is_drained(self, name: str) -> None:
        """An administrator has another host emptied, alive."""
        if not self.effects.drained:
            self.effects.befallen.add(name)
            self.effects.drained.add(name)
            self._step(self.site.drain(name))

    @precondition(lambda self: bool(self.silent))
    @rule()
    @counted
    def operator_restarts(self) -> None:
        async def restart() -> None:
            await self.site.stop_operator()
            await self.site.start_operator()

        self._step(restart())

    @precondition(lambda self: self.site.hosts[CAPTURED].reports)
    @rule()
    @counted
    def captured_host_falls_silent(self) -> None:
        self.falls_silent(CAPTURED)

    @precondition(lambda self: not self.site.hosts[CAPTURED].reports)
    @rule()
    @counted
    def captured_host_returns(self) -> None:
        self.returns(CAPTURED)

    @precondition(lambda self: not self.leaving)
    @rule(forgotten=st.booleans())
    @counted
    def captured_host_is_to_leave(self, forgotten: bool) -> None:
        """Its administrator has it terminated; with Nova, its service may be gone by then."""
        self.leaving = True
        if forgotten:
            self.site.forget(CAPTURED)
        self._step(self.site.terminate(CAPTURED))

    @rule(seconds=st.sampled_from([1, 15, 60, 120]))
    @counted
    def passes(self, seconds: int) -> None:
        """Let time pass, and look at everything."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            await self.effects.compare()

        self._step(wait())

    def until_noticed(self, name: str) -> None:
        """Let time pass until the silence of a host shows in its status."""

        async def noticed() -> bool:
            found = await self.site.object(f"{HYPERVISORS}/{name}")
            return found is not None and "unhealthySince" in found["status"]

        self._do(self.site.until(noticed, PATIENCE))

    def is_recovered_in_time(self) -> None:
        if not self.effects.hidden and self.site.hosts[CAPTURED].reports:
            self._step(self.effects.recovered_in_time())

    # -- the end -------------------------------------------------------------------------------

    def teardown(self) -> None:
        if self.running is None:
            return
        try:
            if not self.failed:
                self._step(self._settle())
        finally:
            self._do(self.site.stop())
            problems, self.running = self.site.problems, None
            with warnings.catch_warnings():  # of sockets of operators that were stopped
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
        assert self.failed or problems == [], problems

    async def _settle(self) -> None:
        await asyncio.sleep(5)
        # What has no answer waits as long as the captured host is silent; it may not wait longer.
        await self.site.comes_back(CAPTURED)
        if not self.effects.hidden:
            await self.effects.recovered_in_time()
        await self.effects.compare()


def _named_as_read(headers: User) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items()}


def _holds(fact: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return fact()

    return holds


async def _at_once() -> None:
    """Nothing is waited for."""


def _event(about: str) -> Json:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "crash.1", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kvm.cloud.sap/node-agent",
        "reportingInstance": about,
        "action": "Watching",
        "reason": "Crash",
        "type": "Warning",
        "note": "an instance has crashed",
        "regarding": {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": about},
    }
