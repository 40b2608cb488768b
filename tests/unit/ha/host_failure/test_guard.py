"""Each gate's answer, with its numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.cost import cpu
from tests.unit.ha.host_failure.fleets import NOW, OBSERVER, SUBJECT, S, fleet

from hypercobalt.ha.host_failure.census import Census, HostState, UnwellHosts, census
from hypercobalt.ha.host_failure.guard import (
    FLEET,
    SEPARATOR,
    Closure,
    Gate,
    GatedHost,
    GateLimits,
    ObserverState,
    allowed,
    closures,
    gates,
    is_open,
    summary,
)

LIMITS = GateLimits()
WAY_OUT = "bring them back or set the annotation kvm.cloud.sap/open-gates=b0 of Hypervisor h0"


def closed(
    hosts: list[HostState] | Census,
    *,
    subject: GatedHost = SUBJECT,
    observer: ObserverState = OBSERVER,
    limits: GateLimits = LIMITS,
) -> dict[str, str]:
    """The closed gates' answers by name."""
    counted = hosts if isinstance(hosts, Census) else census(hosts)
    answers = gates(subject, counted, observer, limits, NOW)
    return {gate.name: gate.text for gate in answers if not gate.passed}


def test_one_host_of_many_may_be_recovered() -> None:
    assert closed(fleet(10, [0])) == {}


def test_every_gate_gives_its_numbers_when_it_is_open() -> None:
    answers = gates(SUBJECT, census(fleet(10, [0])), OBSERVER, LIMITS, NOW)
    assert {gate.name: gate.text for gate in answers} == {
        "Observer": "the lease is held, every watch had contact within 90 s",
        "ComputeService": "the compute service was just read",
        "Silenced": "recovery is on for the host",
        "FenceSetUp": "the host can be fenced",
        "Samples": "10 of 10 hosts are observed, more than half are needed",
        "NotEveryone": "1 of 10 hosts are silent",
        "MaxUnhealthy": "1 of 10 hosts are unhealthy, 2 are allowed",
        "FailureDomain": "1 of 10 hosts of zone a are unhealthy, 2 are allowed, "
        "1 of 10 hosts of rack 0 are unhealthy, 2 are allowed",
        "Cliff": "1 of 10 hosts were lost within 30 s, 30 % and at least 3 close it for 120 s",
        "CoolDown": "no gate about many hosts was closed",
        "InFlight": "0 other hosts are being recovered, 2 at once are allowed, "
        "10 instances with this host, 200 are allowed",
        "TargetCapacity": "36864 MiB are free on healthy hosts for 10240 MiB in 10 instances",
    }


def test_gates_about_many_hosts_are_marked_so() -> None:
    for domains in ((), ("zone a",), ("rack 0",)):
        subject = replace(SUBJECT, domains=domains)
        answers = gates(subject, census(fleet(100, range(10))), OBSERVER, LIMITS, NOW)
        storm = [gate.name for gate in answers if gate.storm]
        assert storm == ["NotEveryone", "MaxUnhealthy", "FailureDomain", "Cliff"]


def test_host_counts_as_well_and_observed_unless_it_is_seen_otherwise() -> None:
    assert census([HostState("h0")]) == Census(1, 0, 0, 1, 0, (), {}, {}, UnwellHosts(size=1))


def test_host_in_no_known_domain_is_judged_by_the_fleet() -> None:
    none = gates(replace(SUBJECT, domains=()), census(fleet(10, [0])), OBSERVER, LIMITS, NOW)
    assert [gate.text for gate in none if gate.name == "FailureDomain"] == [
        "the host is in no failure domain"
    ]
    other = replace(SUBJECT, domains=("rack 9",))
    texts = gates(other, census(fleet(10, [0])), OBSERVER, LIMITS, NOW)
    assert [gate.text for gate in texts if gate.name == "FailureDomain"] == [
        "0 of 0 hosts of rack 9 are unhealthy, 1 are allowed"
    ]


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        pytest.param({"observer": replace(OBSERVER, contact={"nodes": 90 * S})}, "", id="contact"),
        pytest.param({"observer": replace(OBSERVER, pauses={FLEET: NOW})}, "", id="pause over"),
        pytest.param({"limits": GateLimits(max_unhealthy=10)}, "", id="as many as are allowed"),
    ],
)
def test_gate_is_open_at_its_limit(change: dict[str, object], gate: str) -> None:
    assert set(closed(fleet(10, [0]), **change)) == ({gate} if gate else set())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observer", "text"),
    [
        (replace(OBSERVER, leads=False), "this operator does not hold its lease"),
        (
            replace(OBSERVER, contact={"nodes": 91 * S}),
            "the watch of nodes had no contact for 91 s, at most 90 s are allowed",
        ),
        (
            replace(OBSERVER, contact={"nodes": None}),
            "the watch of nodes is not established, at most 90 s are allowed",
        ),
    ],
)
def test_observer_that_may_be_cut_off_does_nothing(observer: ObserverState, text: str) -> None:
    assert closed(fleet(10, [0]), observer=observer) == {"Observer": text}


@pytest.mark.parametrize(
    ("change", "gate", "text"),
    [
        (
            {"observer": replace(OBSERVER, compute="Nova: 503")},
            "ComputeService",
            "Nova: 503",
        ),
        ({"subject": replace(SUBJECT, silenced="paused: upgrade")}, "Silenced", "paused: upgrade"),
        ({"subject": replace(SUBJECT, fence="no device")}, "FenceSetUp", "no device"),
        (
            {"observer": replace(OBSERVER, pauses={FLEET: NOW + S, "zone a": NOW})},
            "CoolDown",
            "a gate about many hosts was closed, recovery pauses until 2026-11-21T12:00:01Z",
        ),
    ],
)
def test_each_gate_closes_for_its_own_reason(
    change: dict[str, object], gate: str, text: str
) -> None:
    assert closed(fleet(10, [0]), **change) == {gate: text}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "percent", "most"),
    [(1, 20, 1), (3, 20, 1), (10, 20, 2), (10, 100, 4), (1000, 60, 490), (10, 0, 1)],
)
def test_limit_is_a_percentage_of_at_least_one_host_and_never_a_majority(
    size: int, percent: int, most: int
) -> None:
    assert allowed(size, GateLimits(max_unhealthy=percent)) == most


def test_a_fifth_of_the_fleet_may_be_unwell_where_nothing_else_is_set() -> None:
    assert allowed(100, GateLimits()) == 20


def test_hosts_that_are_lost_slowly_count_together() -> None:
    found = closed(fleet(20, range(0, 20, 4)), subject=replace(SUBJECT, domains=()))
    assert found == {
        "MaxUnhealthy": "5 of 20 hosts are unhealthy, 4 are allowed: h0, h4, h8, h12, h16, "
        + WAY_OUT,
        "CoolDown": "a gate about many hosts is closed",
    }


@pytest.mark.parametrize(
    ("size", "lost", "evacuated", "opens"),
    [
        pytest.param(5, 2, 0, False, id="two of five at once"),
        pytest.param(5, 2, 1, True, id="the second of five, once the first is evacuated"),
        pytest.param(6, 2, 1, True, id="the second of six"),
        pytest.param(6, 3, 2, False, id="the third of six: a person"),
        pytest.param(6, 3, 1, False, id="nor two at once beside one that is evacuated"),
        pytest.param(4, 2, 1, False, id="half of four"),
        pytest.param(10, 3, 1, True, id="one more of ten"),
        pytest.param(10, 4, 2, False, id="and no other"),
        pytest.param(20, 5, 1, True, id="one more of twenty"),
        pytest.param(20, 6, 5, False, id="hosts that are lost slowly count together"),
    ],
)
def test_host_that_is_dead_and_evacuated_gives_its_place_to_one_more(
    size: int, lost: int, evacuated: int, *, opens: bool
) -> None:
    hosts = fleet(size, range(lost), evacuated=range(1, evacuated + 1))
    assert ("MaxUnhealthy" not in closed(hosts)) is opens


def test_person_opens_the_gates_about_many_hosts_and_no_others() -> None:
    shut = ObserverState(True, {}, compute="Nova does not answer", pauses={FLEET: NOW + S})
    hosts = fleet(10, range(6), apart=S)
    opened = replace(SUBJECT, opened=True)
    assert {"MaxUnhealthy", "FailureDomain", "Cliff", "CoolDown"} <= closed(hosts).keys()
    assert closed(hosts, subject=opened, observer=shut).keys() == {"ComputeService"}
    everyone = closed(fleet(3, range(3)), subject=opened)
    assert {"NotEveryone", "CoolDown"} <= everyone.keys()
    texts = {one.name: one.text for one in gates(opened, census(hosts), OBSERVER, LIMITS, NOW)}
    assert texts["MaxUnhealthy"].endswith("opened by the annotation kvm.cloud.sap/open-gates")


def test_rack_below_the_limit_of_the_fleet_is_stopped_by_the_limit_of_its_domain() -> None:
    found = closed(fleet(100, range(10)))
    text = "10 of 10 hosts of rack 0 are unhealthy, 2 are allowed: h0, h1, h2, h3, h4 and 5 more"
    assert found["FailureDomain"] == f"{text}, {WAY_OUT}"
    assert "MaxUnhealthy" not in found
    other = replace(SUBJECT, name="h50", domains=("zone a", "rack 5"))
    assert closed(fleet(100, range(10)), subject=other) == {}


@pytest.mark.parametrize("size", [2, 8, 9, 10, 11, 40])
def test_host_that_moves_itself_into_a_rack_closes_its_gate_while_it_is_ill_if_that_is_small(
    size: int,
) -> None:
    """Labels of zone and rack are the kubelet's; `size` is the rack with the host itself."""
    honest = [replace(one, domains=("rack 0",)) for one in fleet(size - 1, [0])]
    others = [replace(one, name=f"o{at}", domains=()) for at, one in enumerate(fleet(40))]
    captured = HostState("captured", unwell=True, since=NOW - timedelta(hours=1))
    subject = replace(SUBJECT, domains=("rack 0",))
    moved = replace(captured, domains=("rack 0",))
    assert closed([*honest, *others, captured], subject=subject) == {}
    found = set(closed([*honest, *others, moved], subject=subject))
    assert found == ({"FailureDomain", "CoolDown"} if size < 10 else set())
    back = replace(moved, unwell=False)
    assert closed([*honest, *others, back], subject=subject) == {}


def test_fleet_that_is_silent_as_a_whole_is_not_judged() -> None:
    assert closed(fleet(2, range(2)))["NotEveryone"] == "2 of 2 hosts are silent"


def test_cliff_closes_for_a_while_although_so_many_may_be_unwell() -> None:
    loose = GateLimits(max_unhealthy=49)
    sudden = fleet(10, [0, 3, 6], apart=10 * S)
    assert "Cliff" in closed(sudden, limits=loose, subject=replace(SUBJECT, domains=()))
    slow = fleet(10, [0, 3, 6], apart=40 * S)
    assert closed(slow, limits=loose, subject=replace(SUBJECT, domains=())) == {}


@pytest.mark.parametrize(
    ("size", "lost", "apart", "limits", "falls"),
    [
        pytest.param(10, 3, 15 * S, GateLimits(), True, id="within the interval to the second"),
        pytest.param(10, 3, 16 * S, GateLimits(), False, id="a second more"),
        pytest.param(10, 2, S, GateLimits(), False, id="two hosts are none"),
        pytest.param(4, 2, S, GateLimits(), False, id="nor when they are half of the fleet"),
        pytest.param(2, 2, S, GateLimits(cliff_hosts=2, cliff=100), True, id="all of them"),
        pytest.param(20, 3, S, GateLimits(), False, id="nor are 15 percent"),
        pytest.param(20, 6, S, GateLimits(), True, id="30 percent are"),
        pytest.param(101, 30, S, GateLimits(), False, id="just below 30 percent"),
        pytest.param(10, 5, 20 * S, GateLimits(), False, id="never three within the interval"),
        pytest.param(10, 4, 41 * S, GateLimits(interval=82 * S), True, id="at the end of the hold"),
        pytest.param(
            10, 4, 40 * S, GateLimits(hold=79 * S, interval=80 * S), False, id="before it"
        ),
        pytest.param(
            10, 4, 40 * S, GateLimits(hold=80 * S, interval=80 * S), True, id="just in it"
        ),
    ],
)
def test_cliff_is_a_share_of_the_fleet_and_some_hosts_lost_at_once(
    size: int, lost: int, apart: timedelta, limits: GateLimits, falls: bool
) -> None:
    found = closed(fleet(size, range(lost), apart=apart), limits=limits)
    assert ("Cliff" in found) is falls


def test_cliff_is_found_wherever_the_interval_begins() -> None:
    lost = (NOW - 35 * S, NOW - 30 * S, NOW - 4 * S, NOW - 3 * S)
    counted = replace(census(fleet(10)), since=lost)  # three of them are within 27 s
    assert closed(counted)["Cliff"].startswith("3 of 10 hosts were lost within 30 s")


def test_fleet_without_a_loss_has_no_cliff() -> None:
    loose = GateLimits(cliff_hosts=0, cliff=100)
    assert "Cliff" not in closed(fleet(1), limits=loose)


def test_host_pauses_by_the_closings_of_the_fleet_and_of_its_own_domains() -> None:
    paused = replace(OBSERVER, pauses={"rack 5": NOW + S})
    assert closed(fleet(100, [0]), observer=paused) == {}
    other = replace(SUBJECT, domains=("zone a", "rack 5"))
    assert set(closed(fleet(100, [0]), observer=paused, subject=other)) == {"CoolDown"}


@pytest.mark.parametrize(
    ("size", "lost", "evacuated", "expected"),
    [
        pytest.param(10, 2, 0, Closure.OPEN, id="as many as are allowed"),
        pytest.param(10, 3, 0, Closure.BY_ONE, id="one more"),
        pytest.param(10, 4, 0, Closure.BY_MANY, id="two more"),
        pytest.param(5, 2, 0, Closure.BY_ONE, id="two of five"),
        pytest.param(5, 2, 1, Closure.OPEN, id="of which one is evacuated"),
        pytest.param(5, 3, 1, Closure.BY_ONE, id="and one more"),
        pytest.param(2, 2, 0, Closure.BY_ONE, id="everyone"),
        pytest.param(3, 3, 0, Closure.BY_MANY, id="everyone of three"),
    ],
)
def test_gate_is_closed_by_one_host_while_any_single_one_could_open_it(
    size: int, lost: int, evacuated: int, expected: Closure
) -> None:
    counted = census(fleet(size, range(lost), evacuated=range(evacuated)))
    found = closures(replace(SUBJECT, domains=("zone a",)), counted, LIMITS, NOW)
    assert found == {FLEET: expected, "zone a": expected}


@pytest.mark.parametrize(
    ("lost", "expected"), [(2, Closure.OPEN), (3, Closure.BY_ONE), (4, Closure.BY_MANY)]
)
def test_cliff_is_closed_by_one_host_while_any_single_one_could_open_it(
    lost: int, expected: Closure
) -> None:
    loose = GateLimits(max_unhealthy=49)
    counted = census(fleet(10, range(lost), apart=S))
    assert closures(replace(SUBJECT, domains=()), counted, loose, NOW) == {FLEET: expected}


def test_one_host_that_reports_opens_the_gate_about_everyone() -> None:
    silent = [replace(one, unwell=False, stale=True, since=None) for one in fleet(5)]
    subject = replace(SUBJECT, domains=("nowhere",))
    found = closures(subject, census(silent), LIMITS, NOW)
    assert found == {FLEET: Closure.BY_ONE, "nowhere": Closure.OPEN}
    assert closures(subject, census(silent[1:] + fleet(1)), LIMITS, NOW)[FLEET] is Closure.OPEN


def test_hosts_that_were_not_observed_stop_everything() -> None:
    blind = [replace(one, observed=number < 5) for number, one in enumerate(fleet(10, [0]))]
    assert closed(blind) == {"Samples": "5 of 10 hosts are observed, more than half are needed"}


@pytest.mark.parametrize(
    ("others", "instances", "passes"),
    [
        ((), 500, True),
        ((50,), 10, True),
        ((190,), 10, True),
        ((191,), 10, False),
        ((1, 1), 1, False),
        ((0,), 500, True),
        ((0, 0), 1, False),
    ],
    ids=[
        "alone",
        "few",
        "as many as are allowed",
        "too many instances",
        "too many hosts",
        "another of which none are counted",
        "too many of those",
    ],
)
def test_gate_counts_hosts_and_instances_in_recovery(
    others: tuple[int, ...], instances: int, *, passes: bool
) -> None:
    hosts = fleet(100, [0])
    for number, count in enumerate(others, start=20):
        hosts[number] = replace(hosts[number], recovering=count)
    found = closed(hosts, subject=replace(SUBJECT, instances=instances, memory_mib=0))
    assert ("InFlight" not in found) is passes


def test_own_recovery_is_not_another() -> None:
    hosts = fleet(10, [0])
    hosts[0] = replace(hosts[0], recovering=10)
    assert closed(hosts, limits=GateLimits(nodes=1)) == {}


def test_no_room_for_a_single_instance_stops_the_recovery() -> None:
    full = [replace(one, free_mib=100) for one in fleet(10, [0])]
    text = "900 MiB are free on healthy hosts for 10240 MiB in 10 instances"
    assert closed(full) == {"TargetCapacity": text}


@pytest.mark.parametrize(
    ("free", "instances", "memory", "passes"),
    [
        (1024, 10, 10_240, True),
        (1023, 10, 10_240, False),
        (1, 0, 0, True),
        (0, 0, 0, False),
        (1, 10, 10, True),
    ],
)
def test_one_instance_of_mean_size_has_to_find_its_place(
    free: int, instances: int, memory: int, passes: bool
) -> None:
    counted = replace(census(fleet(10, [0])), free_mib=free)
    subject = replace(SUBJECT, instances=instances, memory_mib=memory)
    assert ("TargetCapacity" not in closed(counted, subject=subject)) is passes


def test_summary_has_every_gate_the_closed_ones_first() -> None:
    answers = gates(SUBJECT, census(fleet(20, range(5))), OBSERVER, LIMITS, NOW)
    text = summary(answers)
    assert text.startswith("MaxUnhealthy closed: 5 of 20 hosts are unhealthy, 4 are allowed: h0, ")
    assert text.count(SEPARATOR) == len(answers) - 1
    assert not is_open(answers)
    assert [gate.name for gate in answers] == [*GATES]


GATES = (
    "Observer", "ComputeService", "Silenced", "FenceSetUp", "Samples", "NotEveryone",
    "MaxUnhealthy", "FailureDomain", "Cliff", "CoolDown", "InFlight", "TargetCapacity",
)  # fmt: skip


def test_ten_thousand_hosts_are_judged_within_a_second() -> None:
    hosts = fleet(10_000, range(2000), apart=S)
    with cpu() as used:
        counted = census(hosts)
        answers: list[Gate] = []
        for number in range(2000):
            subject = replace(
                SUBJECT, name=f"h{number}", domains=("zone a", f"rack {number // 10}")
            )
            answers += gates(subject, counted, OBSERVER, LIMITS, NOW)
    assert used.seconds < 1
    assert not is_open(answers)
