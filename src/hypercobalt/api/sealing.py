"""Sealing: bytes that any client may store and only the operator can read.

An agent seals with the public key that its Hypervisor names, the operator opens with the private
one. HPKE (RFC 9180) in base mode: X25519, HKDF-SHA256, ChaCha20-Poly1305, with a new ephemeral key
each time. What the bytes belong to (`Owner`) is bound as HPKE's info: bytes of one host, or of a
host that had the name before, do not open as those of another.

Sealing proves nothing about the sender: anyone can seal with a public key. That bytes are a host's
own is held by who may write them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_PURPOSE: Final = b"kvm.cloud.sap/v1alpha1 SealedDefinitions\0"
_DERIVED: Final = b"kvm.cloud.sap/v1alpha1 derived\0"
_KEY_BYTES: Final = 32

PUBLIC_KEY: Final = r"^[A-Za-z0-9+/]{43}=$"
"""Pattern of a public key: base64 of the 32 bytes of RFC 7748."""


class SealError(ValueError):
    """Bytes that do not open, or a key that is none; the message has nothing of either."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What sealed bytes belong to.

    Args:
        host: name of the Hypervisor.
        uid: of the Hypervisor, which another machine of that name does not have.
    """

    host: str
    uid: str

    def bound(self, key: str) -> bytes:
        """The info of HPKE, for a key of that id."""
        return _PURPOSE + msgspec.json.encode((self.host, self.uid, key))


@dataclass(frozen=True)
class PublicKey:
    """What agents seal with.

    Args:
        text: base64.

    Raises:
        SealError: it is no key.
    """

    text: str

    def __post_init__(self) -> None:
        try:
            raw = base64.b64decode(self.text, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != _KEY_BYTES:
            raise SealError(f"a public key has {_KEY_BYTES} bytes in base64")

    @cached_property
    def id(self) -> str:
        """Names the key, in messages and beside what is sealed with it."""
        return hashlib.sha256(base64.b64decode(self.text)).hexdigest()[:16]

    def seal(self, data: bytes, owner: Owner) -> bytes:
        """Seal bytes; the same bytes are sealed differently each time.

        Raises:
            SealError: the key is of no use.
        """
        key = X25519PublicKey.from_public_bytes(base64.b64decode(self.text))
        try:
            return _SUITE.encrypt(data, key, info=owner.bound(self.id))
        except (ValueError, UnsupportedAlgorithm):  # one that makes every secret the same
            raise SealError(f"key {self.id} cannot be sealed with") from None


class PrivateKey:
    """What the operator opens with; shown by its id only."""

    def __init__(self, key: X25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes_raw()
        self.public: Final = PublicKey(base64.b64encode(raw).decode())

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.id})"

    @classmethod
    def make(cls) -> PrivateKey:
        """Make a new one."""
        return cls(X25519PrivateKey.generate())

    @classmethod
    def read(cls, pem: bytes) -> PrivateKey:
        """Read PKCS #8 in PEM, as `openssl genpkey -algorithm X25519` writes it.

        Raises:
            SealError: it is something else.
        """
        try:
            found = serialization.load_pem_private_key(pem, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise SealError("it is no private key in PEM") from None
        if not isinstance(found, X25519PrivateKey):
            raise SealError("it is no key of X25519")
        return cls(found)

    def pem(self) -> bytes:
        """PKCS #8 in PEM."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def derived(self, purpose: bytes) -> bytes:
        """A secret of its own for another purpose, from which the key does not follow."""
        raw = self._key.private_bytes_raw()
        return HKDF(hashes.SHA256(), _KEY_BYTES, salt=None, info=_DERIVED + purpose).derive(raw)

    def open(self, sealed: bytes, owner: Owner) -> bytes:
        """Open what was sealed for this key and that owner.

        Raises:
            SealError: it was not, or it was changed.
        """
        try:
            return _SUITE.decrypt(sealed, self._key, info=owner.bound(self.public.id))
        except (InvalidTag, ValueError, UnsupportedAlgorithm):
            raise SealError(
                f"not sealed for host {owner.host} with key {self.public.id}, or damaged"
            ) from None


class KeyRing:
    """The operator's keys: one that agents seal with, and those of before, which still open.

    Args:
        current: the one to seal with.
        previous: others that may have been sealed with.
    """

    def __init__(self, current: PrivateKey, previous: Iterable[PrivateKey] = ()) -> None:
        self.current: Final = current
        self._keys: Mapping[str, PrivateKey] = {one.public.id: one for one in (*previous, current)}

    def find(self, key: str) -> PrivateKey | None:
        """The key of that id; None if it is not here."""
        return self._keys.get(key)

    def derived(self, purpose: bytes) -> tuple[bytes, ...]:
        """A secret of each key for another purpose, that of the current one first."""
        others = (one for id_, one in self._keys.items() if id_ != self.current.public.id)
        return tuple(one.derived(purpose) for one in (self.current, *others))

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys, sorted."""
        return tuple(sorted(self._keys))
