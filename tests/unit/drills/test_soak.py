"""What a seed lets fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.drills import soak

HOSTS = ("kvm-1", "kvm-2", "kvm-3")
VMS = tuple(f"vm-{number}" for number in range(12))


@given(st.integers())
def test_a_seed_is_one_plan(seed: int) -> None:
    assert soak.plan(seed, 20, HOSTS, VMS) == soak.plan(seed, 20, HOSTS, VMS)


@given(st.integers())
def test_a_wave_fails_in_one_place_or_in_two(seed: int) -> None:
    for wave in soak.plan(seed, 20, HOSTS, VMS):
        targets = [strike.target for strike in wave]
        assert len(set(targets)) == len(targets)
        assert 1 <= len(wave) <= 2


@given(st.integers())
def test_failures_are_mended_in_their_time(seed: int) -> None:
    for wave in soak.plan(seed, 20, HOSTS, VMS):
        for strike in wave:
            assert 1 <= strike.seconds <= strike.fault.longest


def test_everything_fails_in_half_an_hour_of_waves() -> None:
    waves = soak.plan(1, 100, HOSTS, VMS)
    assert {strike.fault.name for wave in waves for strike in wave} == {
        fault.name for fault in soak.FAULTS
    }
    assert any(len(wave) == 2 for wave in waves)
