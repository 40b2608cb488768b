"""Sealed bytes open for their key and their owner only, whole and unchanged."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.api.sealing import KeyRing, Owner, PrivateKey, PublicKey, SealError

KEY, OTHER = PrivateKey.make(), PrivateKey.make()
OWNER = Owner("kvm-1", "uid-1")
OPENSSL = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+H68CZKrF3+6UduSwq
-----END PRIVATE KEY-----
"""
"""Output of `openssl genpkey -algorithm X25519`: the key of Alice in RFC 7748, 6.1."""


@given(st.binary(max_size=10_000))
def test_what_is_sealed_opens_for_its_key_and_its_owner(data: bytes) -> None:
    sealed = KEY.public.seal(data, OWNER)
    assert KEY.open(sealed, OWNER) == data
    assert data not in sealed or len(data) < 8


def test_the_same_bytes_are_sealed_differently_each_time() -> None:
    assert KEY.public.seal(b"same", OWNER) != KEY.public.seal(b"same", OWNER)


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        (OTHER, OWNER),
        (KEY, Owner("kvm-2", "uid-1")),
        (KEY, Owner("kvm-1", "uid-2")),
        (KEY, Owner('kvm-1","uid-1', "")),
        (KEY, Owner("", "")),
    ],
    ids=["another key", "another host", "the host before it", "a host named like both", "nobody"],
)
def test_nothing_opens_for_another_key_or_owner(key: PrivateKey, owner: Owner) -> None:
    with pytest.raises(SealError):
        key.open(KEY.public.seal(b"secret", OWNER), owner)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_changed_or_shortened_bytes_open(place: int, bit: int) -> None:
    sealed = bytearray(KEY.public.seal(b"a secret of some bytes", OWNER))
    place %= len(sealed)
    short = bytes(sealed[:place])
    sealed[place] ^= bit
    for one in (bytes(sealed), short, bytes(sealed) + b"\0"):
        with pytest.raises(SealError):
            KEY.open(one, OWNER)


@given(st.binary(max_size=300))
def test_bytes_of_others_do_not_open(data: bytes) -> None:
    with pytest.raises(SealError):
        KEY.open(data, OWNER)


def test_a_key_that_shares_one_secret_with_everyone_seals_nothing() -> None:
    for raw in (bytes(32), b"\1" + bytes(31)):
        with pytest.raises(SealError, match="cannot be sealed with"):
            PublicKey(base64.b64encode(raw).decode()).seal(b"secret", OWNER)
        with pytest.raises(SealError):
            KEY.open(raw + bytes(32), OWNER)


@pytest.mark.parametrize("text", ["", "x", "A" * 44, f"{'A' * 42}==", "é" * 44])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(SealError, match="32 bytes"):
        PublicKey(text)


def test_a_key_is_read_as_openssl_writes_it() -> None:
    found = PrivateKey.read(OPENSSL)
    assert base64.b64decode(found.public.text).hex().startswith("8520f0098930a754748b7ddcb43ef75a")
    assert PrivateKey.read(found.pem()).public == found.public


def test_what_is_no_key_of_the_kind_is_refused_without_its_content() -> None:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"x")
    wrong = ec.generate_private_key(ec.SECP256R1())
    plain = wrong.private_bytes(encoding, form, serialization.NoEncryption())
    for pem in (plain, wrong.private_bytes(encoding, form, locked), b"", OPENSSL[:60]):
        with pytest.raises(SealError) as error:
            PrivateKey.read(pem)
        assert "BEGIN" not in str(error.value)


def test_no_key_is_shown() -> None:
    pem = KEY.pem().decode().splitlines()[1]
    assert pem not in repr((KEY, KeyRing(KEY)))
    assert repr(KEY) == f"PrivateKey({KEY.public.id})"


def test_a_ring_finds_keys_of_before() -> None:
    ring = KeyRing(KEY, (OTHER,))
    assert ring.find(OTHER.public.id) is OTHER
    assert ring.find(KEY.public.id) is KEY
    assert ring.find("0" * 16) is None
    assert ring.ids == tuple(sorted((KEY.public.id, OTHER.public.id)))
