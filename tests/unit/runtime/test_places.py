"""Who gives a place to whom."""

from __future__ import annotations

import pytest

from hypercobalt.runtime.places import Crowd, address_of, owner_of


def crowd(most: int, **counts: int) -> Crowd[str]:
    made = Crowd[str](most)
    for owner, count in counts.items():
        for number in range(count):
            made.add(owner, f"{owner}{number}")
    return made


@pytest.mark.parametrize(
    ("counts", "newcomer", "asked"),
    [
        pytest.param({}, "a", None, id="empty"),
        pytest.param({"a": 3}, "a", None, id="less-than-is-left"),
        pytest.param({"a": 4}, "a", ["a"], id="half-is-its-own-limit"),
        pytest.param({"a": 4}, "b", None, id="another-finds-room"),
        pytest.param({"a": 4, "b": 2}, "b", ["b"], id="the-second-has-a-third"),
        pytest.param({"a": 4, "b": 2}, "c", None, id="the-third-finds-room"),
        pytest.param({"a": 5, "b": 2, "c": 1}, "d", ["a", "b", "c"], id="full-of-the-greatest"),
        pytest.param({"a": 5, "b": 2, "c": 1}, "c", ["a", "b", "c"], id="full-then-of-its-own"),
        pytest.param({"a": 5, "b": 2, "c": 1}, "a", ["a"], id="the-greatest-of-its-own"),
        pytest.param(dict.fromkeys("abcdefgh", 1), "a", ["a"], id="equals-keep-theirs"),
    ],
)
def test_greatest_gives_to_the_smaller(
    counts: dict[str, int], newcomer: str, asked: list[str] | None
) -> None:
    assert crowd(8, **counts).givers(newcomer) == asked


def test_newcomer_without_a_place_may_find_one_of_nobody() -> None:
    full = crowd(0)
    assert full.givers("a") == []


def test_oldest_member_comes_first_and_one_that_left_is_gone() -> None:
    held = crowd(8, a=3)
    held.remove("a", "a0")
    held.remove("a", "a0")
    held.remove("b", "b0")
    assert (list(held.of("a")), len(held)) == (["a1", "a2"], 2)
    held.remove("a", "a1")
    held.remove("a", "a2")
    assert (list(held), "a2" in held, len(held)) == ([], False, 0)


@pytest.mark.parametrize(
    ("peer", "owner"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("fd00:0:0:7:1:2:3:4", 5, 0, 0), "fd00:0:0:7::"),
        (("fd00:0:0:7:ffff::", 5, 0, 0), "fd00:0:0:7::"),
        (("fe80::1%eth0", 5, 0, 3), "fe80::"),
        (("::1", 5, 0, 0), "::"),
        ("", ""),
        (None, ""),
    ],
)
def test_connections_count_for_an_address_or_a_network_of_ipv6(peer: object, owner: str) -> None:
    assert owner_of(peer) == owner


def test_address_is_shown_without_its_form_in_a_socket_for_both() -> None:
    assert address_of(("::ffff:10.0.0.1", 5, 0, 0)) == "10.0.0.1"
    assert address_of(("fd00::7", 5, 0, 0)) == "fd00::7"
