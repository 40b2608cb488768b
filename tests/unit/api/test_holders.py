"""Who holds an address or a host UUID that several hosts list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.holders import Claim, Settled, holder_of, settle

X, Y, Z = "192.0.2.1", "192.0.2.2", "192.0.2.3"


def of(host: str, held: str, *listed: str) -> Claim:
    return Claim(host, held, listed)


@pytest.mark.parametrize(
    ("own", "others", "settled"),
    [
        pytest.param(of("a", "", X), (), Settled(X), id="new, and free"),
        pytest.param(of("a", "", X, Y), (), Settled(X), id="the preferred one of two"),
        pytest.param(of("a", Y, X, Y), (), Settled(Y), id="what it has stays"),
        pytest.param(of("a", X, Y), (), Settled(Y), id="moved, or repaired"),
        pytest.param(of("a", X), (), Settled(X), id="lists nothing: an absence proves nothing"),
        pytest.param(
            of("a", Y, X), (of("b", X, X),), Settled(Y, X, "b"), id="captured: keeps its former one"
        ),
        pytest.param(of("a", "", X), (of("b", X, X),), Settled("", X, "b"), id="captured, and new"),
        pytest.param(
            of("a", Y, X), (of("b", X),), Settled(Y, X, "b"), id="the holder's Node is away"
        ),
        pytest.param(
            of("a", Y, X), (of("b", X, Z),), Settled(X), id="the holder lists another: passes over"
        ),
        pytest.param(of("a", "", X, Y), (of("b", X, X),), Settled(Y), id="the next that is free"),
        pytest.param(of("b", X, X), (of("a", Y, X),), Settled(X), id="the holder sees no change"),
        pytest.param(of("a", "", X), (of("b", "", X),), Settled(""), id="both new: neither"),
        pytest.param(of("a", Y, X), (of("b", "", X),), Settled(Y), id="a new host, and a captured"),
        pytest.param(of("b", "", X), (of("a", Y, X),), Settled(X), id="the new one of those two"),
        pytest.param(of("a", X, X), (of("b", X, X),), Settled(X), id="recorded for both: a race"),
        pytest.param(
            of("a", Y, X),
            (of("b", X, X), of("c", Y, Y)),
            Settled("", X, "b"),
            id="its former one has gone to a third",
        ),
        pytest.param(of("a", "", X), (of("a", X, X),), Settled(X), id="itself is no rival"),
    ],
)
def test_first_holder_keeps_what_it_held(
    own: Claim, others: tuple[Claim, ...], settled: Settled
) -> None:
    assert settle(own, others) == settled


VALUES = st.sampled_from([X, Y, Z])
LISTS = st.lists(VALUES, max_size=3, unique=True).map(tuple)


@given(st.lists(st.tuples(VALUES | st.just(""), LISTS), max_size=4), LISTS, st.integers(1, 4))
def test_nothing_that_a_captured_host_lists_takes_from_a_holder(
    hosts: list[tuple[str, tuple[str, ...]]], lied: tuple[str, ...], passes: int
) -> None:
    victim = of("victim", X, X, Y)
    rest = {f"host-{n}": Claim(f"host-{n}", held, some) for n, (held, some) in enumerate(hosts)}
    rest = {name: one for name, one in rest.items() if one.held != X}
    claims = {"victim": victim, **rest, "liar": of("liar", Z, *lied)}

    for _ in range(passes):
        for name, own in claims.items():
            held = settle(own, claims.values()).held
            claims[name] = Claim(name, held, own.listed)

    assert claims["victim"] == victim
    assert holder_of(X, claims.values()) == "victim"


def test_value_that_two_hold_is_neither_s() -> None:
    assert holder_of(X, (of("a", X, X), of("b", X, X))) == ""
    assert holder_of(X, (of("a", X, X), of("b", Y, X))) == "a"
