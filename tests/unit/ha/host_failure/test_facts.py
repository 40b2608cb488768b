"""What the facts about a host mean for its fencing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.records import recorded
from tests.unit.ha.host_failure.made import DEAD, NOW, but

from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport
from hypercobalt.ha.host_failure.facts import HostFacts
from hypercobalt.ha.host_failure.guard import Gate
from hypercobalt.ha.host_failure.node_failure import Dead, Well

PROVEN = Fencing(
    phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.BMC, device="bmc", fencedAt=NOW
)
ENDED = replace(DEAD, stopped="every instance was ended")


def test_power_that_is_unknown_leaves_a_proof_unconfirmed_and_nothing_else() -> None:
    unknown = LatestReports("b1", power=PowerReport.UNKNOWN)
    assert but(DEAD, unconfirmed=PROVEN).is_unconfirmed
    assert not replace(DEAD, latest=unknown).is_unconfirmed, "nothing is proven"
    proven = but(DEAD, unconfirmed=PROVEN).hypervisor
    assert not replace(DEAD, hypervisor=recorded(proven), latest=LatestReports("b1")).is_unconfirmed


@pytest.mark.parametrize(
    ("facts", "dead", "silent", "evidence"),
    [
        pytest.param(DEAD, True, True, ("silent",), id="its waits are over"),
        pytest.param(
            replace(DEAD, gates=(Gate("Samples", False, "few"),)), False, True, ("silent",),
            id="a gate is closed",
        ),
        pytest.param(but(DEAD, dead=False), False, True, ("silent",), id="a suspicion"),
        pytest.param(but(DEAD, silent=False), False, False, (), id="it lives"),
        pytest.param(replace(DEAD, verdict=Well()), False, False, (), id="it is well"),
    ],
)  # fmt: skip
def test_host_is_silent_before_it_is_dead(
    facts: HostFacts, dead: bool, silent: bool, evidence: tuple[str, ...]
) -> None:
    assert (facts.is_dead, facts.is_silent, facts.silence) == (dead, silent, evidence)


@pytest.mark.parametrize(
    ("facts", "stopped"),
    [
        pytest.param(DEAD, False, id="nothing shows that they were ended"),
        pytest.param(ENDED, True, id="the agent still runs"),
        pytest.param(
            replace(ENDED, latest=LatestReports("b1", agent=False)), False, id="it is silent"
        ),
        pytest.param(but(ENDED, node_boot="b2"), False, id="the kubelet reports another boot"),
        pytest.param(but(ENDED, node_boot=""), True, id="the kubelet reports none"),
    ],
)
def test_ended_instances_count_while_the_agent_that_ended_them_runs(
    facts: HostFacts, stopped: bool
) -> None:
    assert facts.is_stopped is stopped


def test_one_peer_keeps_a_dead_host_from_being_switched_off() -> None:
    assert replace(DEAD, verdict=Dead(("silent",), reached_by="kvm-b")).reached_by == "kvm-b"
    assert but(DEAD, dead=False).reached_by == ""


def test_boot_that_no_agent_has_reported_is_none() -> None:
    assert (DEAD.boot, but(DEAD, boot="").boot) == ("b1", "")
