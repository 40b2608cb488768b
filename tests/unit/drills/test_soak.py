"""The failures that follow from a seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.drills import soak
from hypercobalt.drills.faults import FAULTS

HOSTS = ("kvm-1", "kvm-2", "kvm-3")
VMS = tuple(f"vm-{number}" for number in range(12))


@given(st.integers())
def test_a_seed_is_one_plan(seed: int) -> None:
    assert soak.plan(seed, 20, HOSTS, VMS) == soak.plan(seed, 20, HOSTS, VMS)


@given(st.integers())
def test_a_wave_fails_in_one_to_three_places(seed: int) -> None:
    for wave in soak.plan(seed, 20, HOSTS, VMS):
        targets = [strike.target for strike in wave]
        assert len(set(targets)) == len(targets)
        assert 1 <= len(wave) <= 3


@given(st.integers())
def test_failures_are_mended_in_their_time(seed: int) -> None:
    for wave in soak.plan(seed, 20, HOSTS, VMS):
        for strike in wave:
            assert 1 <= strike.seconds <= strike.fault.longest


@given(st.integers())
def test_a_wave_begins_with_its_first_failure(seed: int) -> None:
    for wave in soak.plan(seed, 20, HOSTS, VMS):
        assert wave[0].after == 0
        assert all(0 <= strike.after <= soak.LATEST for strike in wave)


def test_everything_fails_in_half_an_hour_of_waves() -> None:
    waves = soak.plan(1, 100, HOSTS, VMS)
    assert {strike.fault.name for wave in waves for strike in wave} == {
        fault.name for fault in FAULTS
    }
    assert {len(wave) for wave in waves} == {1, 2, 3}


def test_some_hosts_fail_during_another_recovery() -> None:
    waves = soak.plan(1, 100, HOSTS, VMS)
    later = [strike.after > wave[0].seconds for wave in waves for strike in wave[1:]]
    assert True in later
    assert False in later


def strike(name: str, target: str, after: float = 0.0) -> soak.Strike:
    (fault,) = (one for one in FAULTS if one.name == name)
    return soak.Strike(fault, target, 5, after)


def test_a_failure_is_mended_in_its_time_also_while_another_begins() -> None:
    cut, killed = strike("power cut", "kvm-1"), strike("its QEMU is killed", "vm-1", after=3)
    assert soak.moments([cut, killed]) == [
        (0, cut, True),
        (3, killed, True),
        (5, cut, False),
        (8, killed, False),
    ]


@pytest.mark.parametrize(
    ("name", "target", "ended"),
    [
        pytest.param("power cut", "kvm-1", True, id="its host lost power"),
        pytest.param("power cut", "kvm-2", False, id="another host lost power"),
        pytest.param("its QEMU is killed", "vm-1", True, id="it was killed"),
        pytest.param("its QEMU is killed", "vm-2", False, id="another guest was killed"),
        pytest.param("BMC refuses orders", "the BMC of kvm-1", False, id="its host's BMC failed"),
        pytest.param("its disks hang", "kvm-1", False, id="its disks wait"),
        pytest.param("node agent is killed", "kvm-1", False, id="its host's agent was killed"),
        pytest.param("the operator is killed", "the control plane", False, id="control plane"),
        pytest.param("a person empties it", "kvm-1", True, id="a person moves it"),
        pytest.param("libvirtd hangs", "kvm-1", False, id="its host's libvirtd hangs"),
        pytest.param("shuts down", "kvm-1", True, id="its host is shut down"),
    ],
)
def test_only_what_ends_a_guest_excuses_its_recovery(
    name: str, target: str, *, ended: bool
) -> None:
    assert soak.has_ended([strike(name, target)], "vm-1", "kvm-1") is ended


def test_figures_count_faults_and_time_recoveries() -> None:
    tally = soak.Tally(moved=1)
    tally.faults.update({"power cut": 2, "freezes": 1})
    tally.recovered += [40.0, 2.0, 3.0]
    tally.whole += [60.0]
    assert tally.figures() == {
        "waves": 1,
        "faults": 3,
        "faults (freezes)": 1,
        "faults (power cut)": 2,
        "recoveries": 3,
        "recoveries_elsewhere": 1,
        "recovery_p50": 3.0,
        "recovery_max": 40.0,
        "whole_p50": 60.0,
        "whole_max": 60.0,
        "false_recoveries": 0,
    }
