"""The protocol of fencing and evacuation as a state machine over the real decisions.

Two operators, of which one leads, and everything that may happen to a host, in any order. Random
walks search it without Hypothesis, whose own work took nine tenths of the time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from tests.unit.operator.ha.model import Bug, Operator, World

from hypercobalt.api.fencing import ASSERTED_DEAD, FencingPhase

S = timedelta(seconds=1)


class Recovery:
    """Two operators, of which one leads, and everything that may happen to a host."""

    def __init__(self, bug: Bug | None = None) -> None:
        self.world = World(bug=bug or Bug())
        self.operators = [Operator(), Operator()]
        self.leader = 0

    @property
    def leading(self) -> Operator:
        return self.operators[self.leader]

    # The host

    def power_cut(self) -> None:
        self.world.power_off()

    def host_boots(self) -> None:
        self.world.boots()

    def partition(self, connected: bool) -> None:
        self.world.connected = connected

    def agent(self, runs: bool) -> None:
        """One that ends is missed once its Lease has run out; one that starts obeys first."""
        self.world.agent = runs
        if runs:
            self.world.agent_obeys()
        else:
            self.whole_pass()

    def owner_starts(self) -> None:
        """Some time after the host was Ready; no instance can be started there before."""
        self.goes_on_for_a_while(2)
        self.world.owner_starts()

    def owner_starts_before_anyone_looks(self) -> None:
        """Some time after the host was Ready, and no operator has made a pass since."""
        self.world.report()
        self.world.owner_starts()

    def owner_starts_unreported(self) -> None:
        self.world.owner_starts_unreported()

    def reports(self) -> None:
        self.world.report()

    def agent_obeys(self) -> None:
        self.world.agent_obeys()

    def person_asserts(self) -> None:
        """The leader reads it at once: a host that is off does not boot meanwhile."""
        self.world.asserts_dead()
        self.whole_pass()

    def person_orders_the_agent(self) -> None:
        self.world.orders_the_agent()

    def asserted_wrongly_and_found_out(self, passes: int) -> None:
        """A person is wrong about a host that is cut off, which is back before it is evacuated."""
        world = self.world
        if not (world.on and world.connected and world.agent):
            return
        mute, world.mute, world.connected = world.mute, True, False
        world.report()
        world.note(ASSERTED_DEAD, world.hypervisor.status.bootID or "")
        for _ in range(passes):
            self.whole_pass()
        world.mute, world.connected = mute, True
        world.report()
        world.agent_obeys()

    def taint(self, present: bool) -> None:
        if present:
            self.world.taints()
            self.whole_pass()
        else:
            self.world.tainted = False

    def node_flaps(self, status: str) -> None:
        if self.world.ready != "True":
            self.world.ready = status

    def device(self, refuses: bool) -> None:
        self.world.refuses = refuses
        self.world.setup += not refuses  # it is mended by another password

    def device_answers(self, nothing: bool) -> None:
        self.world.falls_silent(nothing)

    def recovery(self, on: bool) -> None:
        """A person pauses it, or turns high availability off, and on again."""
        self.world.off = "" if on else "recovery is paused"

    def person_deletes_the_eviction(self) -> None:
        self.world.evictions = []

    def compute_service(self, away: bool) -> None:
        self.world.away = away

    def clock_is_set(self, seconds: int) -> None:
        """Set the clock of the operators' machines back or ahead."""
        self.world.skew += seconds * S

    def node_is_deleted(self) -> None:
        self.world.delete_node()

    def node_of_a_silent_host_is_deleted(self) -> None:
        """A cloud controller deletes a silent Node, after an operator has seen the silence."""
        self.world.report()
        self.whole_pass()
        self.world.delete_node()

    def has_a_second_feed(self) -> None:
        """From now on the host has two power feeds, each on a device of its own."""
        self.world.second = True

    def second_feed(self, refuses: bool) -> None:
        self.world.second_refuses = refuses

    def storage_is_set_up(self) -> None:
        """From now on there is a device that cuts the host off from its storage."""
        self.world.storage = True

    def storage(self, refuses: bool) -> None:
        self.world.storage_refuses = refuses

    def storage_answers(self, nothing: bool) -> None:
        self.world.storage_mute = nothing

    def gate(self, opened: bool) -> None:
        self.world.gate = opened

    def time_passes(self, seconds: int) -> None:
        self.world.now += seconds * S

    # The operators

    def whole_pass(self) -> None:
        world, operator = self.world, self.leading
        world.observe(operator)
        world.act(operator)
        world.write(operator)

    def goes_on_for_a_while(self, passes: int) -> None:
        for _ in range(passes):
            self.world.report()
            self.whole_pass()
            self.world.now += 15 * S

    def dies_before_it_acts(self) -> None:
        self.world.observe(self.leading)
        self.operators[self.leader] = Operator()

    def dies_after_it_has_acted(self) -> None:
        self.world.observe(self.leading)
        self.world.act(self.leading)
        self.operators[self.leader] = Operator(call=self.leading.call)

    def freezes_in_a_call_and_another_leads(self) -> None:
        """The order is sent and acts later; nothing else of that process gets through."""
        world, operator = self.world, self.leading
        world.observe(operator)
        refused = world.refuses, world.storage_refuses
        world.refuses = world.storage_refuses = True
        world.act(operator)
        world.refuses, world.storage_refuses = refused
        self.operators[self.leader] = Operator(call=operator.call)
        self.leader = 1 - self.leader

    def another_leads(self) -> None:
        self.leader = 1 - self.leader

    def late_call_acts(self, number: int) -> None:
        self.world.take_effect(self.operators[number])

    # Who follows the record

    def evacuates(self) -> None:
        self.world.evacuate()
        self.world.lands()

    def evacuation_is_accepted(self) -> None:
        self.world.evacuate()

    def evacuation_ends(self, well: bool) -> None:
        if well:
            self.world.lands()
        else:
            self.world.fails_to_land()

    def places(self) -> None:
        self.world.place()

    def server_never_runs_twice(self) -> None:
        """A server behind a storage fence must not write either."""
        world = self.world
        assert not (world.elsewhere and world.at_source is not None and not world.cut)

    def no_attempt_calls_the_device_twice(self) -> None:
        called = Counter((one.bootID, one.startedAt, one.attempts) for one in self.world.calls)
        assert all(count == 1 for count in called.values())
        given = Counter(one.unfenceDeadline for one in self.world.gifts)
        assert all(count == 1 for count in given.values())

    def host_that_serves_has_its_storage(self) -> None:
        """But where a person has to give that back: what has cut it off is not recorded."""
        record = self.world.hypervisor.status.fencing
        if record is not None and record.phase == FencingPhase.RELEASED:
            assert self.world.by_hand or not self.world.cut

    def running_server_is_lost_only_with_its_host(self) -> None:
        """A host that is back and serves is not switched off by an order from before.

        But where the order seems over, since the clock was set ahead, and its record was deleted.
        """
        world = self.world
        serves = not world.hypervisor.spec.maintenance and world.on_source
        if serves and world.at_source is not None and world.on:
            forgotten = world.hypervisor.status.fencing is None
            sent = [one.call for one in self.operators if one.call is not None]
            late = [one for one in sent if one.cuts and not (forgotten and world.seems_over(one))]
            boot = str(world.boot)
            assert not [c for c in late if c.boot != boot and world.now < c.until]

    # How it ends

    def all_is_in_order_but_the_host(self) -> None:
        """From now on only the host is down."""
        world = self.world
        world.power_off()
        world.refuses = world.lies = world.mute = world.away = world.second_refuses = False
        world.storage_refuses = world.storage_lies = world.storage_mute = False
        world.gate, world.off, world.connected, world.agent = True, "", True, True
        world.fails_to_land()

    def person_gives_the_storage_back(self) -> None:
        """The host's Hypervisor is gone, and with it the record of what has cut the host off."""
        if self.world.by_hand:
            self.world.cut = self.world.by_hand = False

    def goes_on_until(self, so: Callable[[], bool]) -> bool:
        for _ in range(100):
            self.world.report()
            self.whole_pass()
            self.world.agent_obeys()
            self.evacuates()
            self.world.now += 15 * S
            self.check()
            if so():
                return True
        return False

    def is_recovered(self) -> bool:
        """Whether the server runs elsewhere; a host that never reported cannot be proven dead."""
        world = self.world
        return world.elsewhere or not (world.known and world.hypervisor.status.bootID)

    def is_in_service(self) -> bool:
        world = self.world
        found = world.hypervisor
        open_ = found.status.fencing is not None and found.status.fencing.phase != "Released"
        kept = open_ or found.metadata.finalizers or found.metadata.deletionTimestamp
        return world.known and world.ready == "True" and not (kept or found.spec.maintenance)

    def comes_back(self) -> None:
        """However a walk has ended: the server runs again, without its host and then with it."""
        world = self.world
        self.all_is_in_order_but_the_host()
        assert self.goes_on_until(self.is_recovered), "its host is dead, and it runs nowhere"
        self.person_gives_the_storage_back()
        world.boots()
        assert self.goes_on_until(self.is_in_service), "the host is back, and not in service"
        world.place()
        world.owner_starts()
        assert world.at_source == world.boot, "its host is back, and it runs nowhere"

    def check(self) -> None:
        """What holds after every event."""
        self.server_never_runs_twice()
        self.no_attempt_calls_the_device_twice()
        self.running_server_is_lost_only_with_its_host()
        self.host_that_serves_has_its_storage()


Event = Callable[[Recovery], None]

EVENTS: Final[tuple[tuple[Event, ...], ...]] = (
    (Recovery.power_cut,),
    (Recovery.host_boots,),
    tuple(partial(Recovery.partition, connected=connected) for connected in (True, False)),
    (Recovery.reports,),
    tuple(partial(Recovery.agent, runs=runs) for runs in (True, False)),
    (Recovery.owner_starts,),
    (Recovery.owner_starts_before_anyone_looks,),
    (Recovery.owner_starts_unreported,),
    (Recovery.agent_obeys,),
    (Recovery.person_asserts,),
    (Recovery.person_orders_the_agent,),
    tuple(partial(Recovery.asserted_wrongly_and_found_out, passes=n) for n in (1, 2, 4)),
    tuple(partial(Recovery.taint, present=present) for present in (True, False)),
    tuple(partial(Recovery.node_flaps, status=status) for status in ("False", "Unknown")),
    tuple(partial(Recovery.device, refuses=refuses) for refuses in (True, False)),
    tuple(partial(Recovery.device_answers, nothing=nothing) for nothing in (True, False)),
    (Recovery.has_a_second_feed,),
    tuple(partial(Recovery.second_feed, refuses=refuses) for refuses in (True, False)),
    (Recovery.storage_is_set_up,),
    tuple(partial(Recovery.storage, refuses=refuses) for refuses in (True, False)),
    tuple(partial(Recovery.storage_answers, nothing=nothing) for nothing in (True, False)),
    tuple(partial(Recovery.gate, opened=opened) for opened in (True, False)),
    tuple(partial(Recovery.time_passes, seconds=seconds) for seconds in (1, 20, 61, 200)),
    (Recovery.whole_pass,),
    tuple(partial(Recovery.goes_on_for_a_while, passes=passes) for passes in (3, 6, 12)),
    (Recovery.dies_before_it_acts,),
    (Recovery.dies_after_it_has_acted,),
    (Recovery.freezes_in_a_call_and_another_leads,),
    (Recovery.another_leads,),
    tuple(partial(Recovery.late_call_acts, number=number) for number in (0, 1)),
    (Recovery.evacuates,),
    (Recovery.evacuation_is_accepted,),
    tuple(partial(Recovery.evacuation_ends, well=well) for well in (True, False)),
    (Recovery.places,),
    tuple(partial(Recovery.recovery, on=on) for on in (True, False)),
    (Recovery.person_deletes_the_eviction,),
    tuple(partial(Recovery.compute_service, away=away) for away in (True, False)),
    tuple(partial(Recovery.clock_is_set, seconds=seconds) for seconds in (-3600, -20, 20, 3600)),
    (Recovery.node_is_deleted,),
    (Recovery.node_of_a_silent_host_is_deleted,),
)
"""All that may happen, each with its variants."""

NO_POWER: Final = partial(Recovery.device, refuses=True)

WALKS: Final = 1500
LONGEST: Final = 40


def random_walk(chance: random.Random) -> list[Event]:
    """Events in some order; not all kinds of them, since the rarer ones then meet more often.

    In half of the walks the host is fenced by its storage to begin with.
    """
    kinds = chance.sample(EVENTS, chance.randint(len(EVENTS) // 2, len(EVENTS)))
    begun = chance.choice([(), (Recovery.storage_is_set_up, NO_POWER)])
    return [*begun, *(chance.choice(chance.choice(kinds)) for _ in range(LONGEST))]


def fails(events: Sequence[Event], bug: Bug | None = None) -> bool:
    """Whether what has to hold does not, at some point of a walk; without a bug, or after it."""
    machine = Recovery(bug)
    try:
        for event in events:
            event(machine)
            machine.check()
        if bug is None:
            machine.comes_back()
    except AssertionError:
        return True
    return False


def shortened(events: list[Event]) -> list[Event]:
    """A walk that fails, without the events that this does not need."""
    for number in reversed(range(len(events))):
        without = [*events[:number], *events[number + 1 :]]
        events = without if fails(without) else events
    return events


def described(event: Event) -> str:
    if isinstance(event, partial):
        return f"{event.func.__name__} {event.keywords}"
    return event.__name__
