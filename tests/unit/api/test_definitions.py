"""What is stored of a host's domains: whole, bounded, and silent about what is in it."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.definitions import (
    MOST_DOMAINS,
    MOST_LINE,
    MOST_PACKED,
    MOST_TEXT,
    DomainDefinition,
    HostDefinitions,
    pack,
    unpack,
)

PASSWORD = "passwd='very-secret'"


def domain(name: str, *, active: bool = True, filler: str = "") -> DomainDefinition:
    return DomainDefinition(name, f"<domain {PASSWORD}>{filler}</domain>", active=active)


def noise(seed: int, length: int) -> str:
    """Text that does not compress."""
    return random.Random(seed).randbytes(length // 2).hex()  # noqa: S311


HOST = HostDefinitions(
    bootID="boot-1",
    mark=".mark",
    domains={"b": domain("vm-b"), "a": DomainDefinition("vm-a", "<domain/>", autostart=True)},
)


def test_stored_definitions_are_read_again() -> None:
    packed = pack(HOST)
    assert packed.left_out == ()
    assert unpack(packed.data) == HOST


def test_same_definitions_are_the_same_bytes() -> None:
    turned = HostDefinitions("boot-1", ".mark", dict(reversed(HOST.domains.items())))
    assert pack(turned).data == pack(HOST).data


def test_one_more_character_does_not_show_in_the_size() -> None:
    longer = HostDefinitions(domains={"a": domain("vm-a", filler="x")})
    assert len(pack(longer).data) == len(pack(HostDefinitions(domains={"a": domain("vm-a")})).data)


def test_host_of_a_thousand_ordinary_domains_fits() -> None:
    xml = json.dumps({f"device-{n}": f"/dev/pci/{n:04}" for n in range(300)})
    many = {f"uuid-{n}": domain(f"vm-{n}", filler=f"{xml}{noise(n, 64)}") for n in range(1000)}
    packed = pack(HostDefinitions(domains=many))
    assert packed.left_out == ()
    assert len(packed.data) < MOST_PACKED


def test_definitions_that_do_not_fit_are_named_idle_and_large_first() -> None:
    host = HostDefinitions(
        domains={
            "1": domain("idle-small", active=False, filler=noise(1, 8000)),
            "2": domain("idle-large", active=False, filler=noise(2, 72000)),
            "3": domain("runs-small", filler=noise(3, 8000)),
            "4": domain("runs-large", filler=noise(4, 72000)),
        }
    )
    for most, left_out in ((49_153, ("idle-large", "idle-small")), (53_250, ("idle-large",))):
        packed = pack(host, most)
        assert packed.left_out == left_out
        assert len(packed.data) <= most
        read = unpack(packed.data)
        assert set(read.left_out.values()) == set(left_out)
        assert {one.name for one in read.domains.values()}.isdisjoint(left_out)


def test_a_document_that_no_reader_takes_is_left_out() -> None:
    large = domain("large", filler="x" * MOST_LINE)
    packed = pack(HostDefinitions(domains={"a": large, "b": domain("vm-b")}))
    assert packed.left_out == ("large",)
    assert unpack(packed.data).left_out == {"a": "large"}
    assert set(unpack(packed.data).domains) == {"b"}


def test_all_text_stays_within_what_a_reader_takes() -> None:
    filler = "x" * (MOST_LINE - 200)
    many = {f"{n:02}": domain(f"vm-{n}", filler=filler) for n in range(40)}
    packed = pack(HostDefinitions(domains=many))
    read = unpack(packed.data)
    assert len(read.domains) + len(read.left_out) == 40
    assert 30 <= len(read.domains) <= 32


def test_more_domains_than_anything_reads_are_refused() -> None:
    many = {str(n): domain("vm") for n in range(MOST_DOMAINS + 1)}
    with pytest.raises(ValueError, match="at most 4096"):
        pack(HostDefinitions(domains=many))


def test_repr_shows_no_definition() -> None:
    shown = repr((HOST, pack(HOST)))
    assert PASSWORD not in shown
    assert "<domain" not in shown


def lines(*documents: bytes) -> bytes:
    return gzip.compress(b"\n".join((b"{}", *documents)))


ONE = b'{"uuid":"a","name":"n","xml":"<domain/>"}'
BROKEN = {
    "nothing": b"",
    "other bytes": b"no gzip",
    "cut off": gzip.compress(b"{}\n" + ONE)[:-9],
    "other JSON": gzip.compress(b"[]"),
    "a part missing": lines(b'{"name": "' + PASSWORD.encode() + b'"}'),
    "a domain twice": lines(ONE, ONE),
    "a name without end": lines(b'{"uuid":"a","name":"%b","xml":"x"}' % (b"n" * 256)),
    "text after the end": lines(ONE) + b"more",
    "a second document": lines(ONE) + lines(ONE),
    "nested without end": lines(b'{"uuid":"a","name":"n","x":' + b"[" * 10**5),
    "no text": lines(b"\xff\xfe"),
    "spaces without end": gzip.compress(b" " * (MOST_TEXT + 1)),
    "one long line": lines(b'{"uuid":"a","name":"n","xml":"%b"}' % (b"x" * MOST_LINE)),
    "many lines": gzip.compress(b"{}" + b"\n{}" * (MOST_TEXT // 3)),
    "many domains": lines(
        *(b'{"uuid":"%d","name":"","xml":"x"}' % n for n in range(MOST_DOMAINS + 1))
    ),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_definition_is_refused_without_its_content(data: bytes) -> None:
    with pytest.raises(ValueError, match="the definitions") as error:
        unpack(data)
    assert PASSWORD not in str(error.value)


def _empty_lines() -> Iterator[bytes]:
    yield b"\n" * (300 * 1024**2)


def _large_lines() -> Iterator[bytes]:
    yield b"{}\n"
    yield from [b'{"uuid":"","name":"","xml":"%b"}' % (b"x" * 10**6)] * 300


def _many_domains() -> Iterator[bytes]:
    yield b"{}\n"
    yield from (b'{"uuid":"%d","name":"","xml":"x"}\n' % n for n in range(10**6))


def _endless_head() -> Iterator[bytes]:
    yield b'{"bootID":"'
    yield b"x" * (300 * 1024**2)


@pytest.mark.parametrize("parts", [_empty_lines, _large_lines, _many_domains, _endless_head])
def test_a_bomb_costs_no_more_than_the_largest_host(parts: Callable[[], Iterator[bytes]]) -> None:
    """Each is made here: a worker that only collects the tests would take seconds for them."""
    data = gzip.compress(b"".join(parts()))
    assert len(data) < 8 * MOST_PACKED
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="the definitions"):
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024**2
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200), st.integers(0, 10_000), st.integers(1, 255))
def test_any_change_of_the_bytes_is_refused_or_read_as_the_same(
    cut: bytes, place: int, bit: int
) -> None:
    data = bytearray(pack(HOST).data)
    data[place % len(data)] ^= bit
    for one in (bytes(data), cut, bytes(data[: place % len(data)])):
        try:
            assert unpack(one) == HOST
        except ValueError as error:
            assert PASSWORD not in str(error)  # noqa: PT017


@given(
    st.dictionaries(
        st.uuids().map(str),
        st.builds(
            DomainDefinition,
            name=st.text(min_size=1, max_size=255),
            xml=st.text(min_size=1),
            active=st.booleans(),
            autostart=st.booleans(),
            saved=st.booleans(),
            halted=st.booleans(),
            crashed=st.booleans(),
        ),
        max_size=4,
    )
)
def test_any_definitions_are_read_as_they_were(domains: dict[str, DomainDefinition]) -> None:
    host = HostDefinitions("b", "m", domains)
    assert unpack(pack(host).data) == host
