"""Where instances go while hosts have a broken network, or OVN binds no ports."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.eviction.made import POLICY, assessed, capacity, server
from tests.unit.operator.samples import condition, hypervisor

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Capacity
from hypercobalt.operator.eviction.model.facts import Networks, need
from hypercobalt.operator.eviction.model.policy import Order
from hypercobalt.operator.eviction.model.states import Mode, Ready
from hypercobalt.operator.eviction.observing.networks import BY_NETWORK, network_of, networks
from hypercobalt.operator.eviction.planning.starts import Places, Starts, choose_starts
from hypercobalt.runtime import Cache

MOVES = [Mode.LIVE, Mode.COLD, Mode.EVACUATE]
ALL_AWAY = Networks(unbound=frozenset({"a", "b"}), named=True)
ONE_AWAY = Networks(unbound=frozenset({"a"}), named=True)


def host(name: str, reason: str = "", *, disabled: bool = False) -> Hypervisor:
    shown = (condition("NetworkHealthy", "False", reason),) if reason else ()
    off = (condition("HypervisorDisabled", "True", "Succeeded"),) if disabled else ()
    return replace(hypervisor(*shown, *off), metadata=ObjectMeta(name=name))


def fleet(*hosts: Hypervisor) -> Cache[Hypervisor]:
    made = Cache[Hypervisor](indexes={BY_NETWORK: network_of})
    for one in hosts:
        made.put(one)
    return made


def chosen(
    mode: Mode,
    networks: Networks,
    *candidates: Capacity,
    avoid: frozenset[str] = frozenset(),
) -> Starts:
    one = server()
    return choose_starts(
        [assessed(one, Ready(mode, avoid=avoid))],
        {need(one): candidates},
        Places(10, 0),
        POLICY,
        order=Order.LARGEST,
        chooses=False,
        networks=networks,
        others=(),
        limits={},
    )


def targets(starts: Starts) -> list[str]:
    return [start.target for start in starts.chosen]


@pytest.mark.parametrize(
    ("hosts", "broken", "unbound", "named"),
    [
        pytest.param((host("a"), host("b")), "", "", False, id="a fleet in order"),
        pytest.param((host("a", "Degraded"),), "", "", False, id="a bond of one has lost a member"),
        pytest.param(
            (host("a", "BridgeDown", disabled=True),), "a", "", False, id="Nova leaves it out"
        ),
        pytest.param((host("a", "BridgeDown"),), "a", "", True, id="Nova does not yet"),
        pytest.param((host("a", "SwitchNotResponding"),), "a", "", True, id="no switch"),
        pytest.param(
            (host("a", "OVNDisconnected"),), "", "a", True, id="Nova does not observe this"
        ),
        pytest.param((host("a", "OVNControllerFailed"),), "", "a", True, id="likewise"),
        pytest.param((host("here", "BridgeDown"),), "", "", False, id="the one that is emptied"),
    ],
)
def test_hosts_with_a_broken_network_are_listed(
    hosts: tuple[Hypervisor, ...], broken: str, unbound: str, *, named: bool
) -> None:
    found = networks(fleet(*hosts), "here")
    assert found == Networks(frozenset(broken), frozenset(unbound), named)


def test_host_that_took_the_name_of_another_one_keeps_nothing_from_it() -> None:
    claimed = condition("Registered", "False", "Claimed")
    broken = condition("NetworkHealthy", "False", "BridgeDown")
    taken = hypervisor(broken, claimed, labels={"kubernetes.io/hostname": "a"})
    assert networks(fleet(taken), "here").broken == frozenset()


def test_host_with_a_broken_switch_is_no_candidate_at_all() -> None:
    both = (capacity("a"), capacity("b"))
    left = Networks(broken=frozenset({"a"})).without_broken(both)
    assert [one.host for one in left] == ["b"]


@pytest.mark.parametrize("mode", MOVES)
def test_host_in_order_is_taken_before_one_that_binds_no_ports(mode: Mode) -> None:
    found = chosen(mode, ONE_AWAY, capacity("a", 99_999), capacity("b"))
    assert targets(found) == ["b"]


def test_live_moves_wait_while_no_host_binds_ports_and_the_reason_is_shown() -> None:
    found = chosen(Mode.LIVE, ALL_AWAY, capacity("a"), capacity("b"))
    assert targets(found) == []
    assert found.homeless == {
        "a": "OVN binds no ports on any of 2 candidate hosts (NetworkHealthy of their "
        "Hypervisors); waiting until ovn-controller is connected there"
    }


def test_live_move_does_not_fall_back_to_a_host_without_ports_for_want_of_capacity() -> None:
    found = chosen(Mode.LIVE, ONE_AWAY, capacity("a"), capacity("b", 10))
    assert targets(found) == []
    assert "none of 1 candidate hosts has capacity" in found.homeless["a"]


@pytest.mark.parametrize("mode", [Mode.COLD, Mode.EVACUATE])
def test_cold_move_takes_a_host_that_binds_no_ports_if_there_is_no_other(mode: Mode) -> None:
    found = chosen(mode, ONE_AWAY, capacity("a"), capacity("b", 10))
    assert targets(found) == ["a"]


def test_host_where_it_failed_comes_after_one_without_ports() -> None:
    given = (capacity("a"), capacity("b", 99_999))
    found = chosen(Mode.EVACUATE, ONE_AWAY, *given, avoid=frozenset({"b"}))
    assert targets(found) == ["a"]
