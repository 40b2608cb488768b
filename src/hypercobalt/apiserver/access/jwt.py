"""JSON Web Tokens, signed with ES256 by a key of the server's own.

The key is made when it is first needed and kept in a file that only the server may read: its
reader can act as any service account. The library for it is loaded at the first token, too.

Source: RFC 7515, RFC 7518 section 3.4, RFC 7517.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hypercobalt.apiserver.access.pki import write_secret
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.errors import HypercobaltError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

MAX_TOKEN = 16 * 1024  # characters
_DOTS = 2  # between the parts of a token
_SIZE = 32  # bytes of each number in a signature on P-256


class TokenError(HypercobaltError):
    """A token that is not to be trusted; the message holds nothing of the token."""


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""


class Key:
    """Signs and verifies; the file is made by the first that needs it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sign(self, payload: bytes) -> str:
        """A token that carries `payload`, as JSON.

        Raises:
            OSError, TypeError, ValueError: the key cannot be read or written.
        """
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415  # slow, seldom needed
        from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415

        header = msgspec.json.encode({"alg": "ES256", "kid": self._id})
        signed = f"{_packed(header)}.{_packed(payload)}"
        signature = self._private.sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        numbers = utils.decode_dss_signature(signature)
        return f"{signed}.{_packed(b''.join(n.to_bytes(_SIZE, 'big') for n in numbers))}"

    def verify(self, token: str) -> bytes:
        """What a token carries, if this key signed it.

        Raises:
            TokenError: it did not.
            OSError, TypeError, ValueError: the key cannot be read or written.
        """
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # slow, seldom needed
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec, utils  # noqa: PLC0415

        signed, _, mark = token.rpartition(".")
        head, _, body = signed.partition(".")
        signature = _unpacked(mark)
        if _header(head) != _Header("ES256", self._id) or len(signature) != 2 * _SIZE:
            raise TokenError("the token was not signed by this server")
        halves = signature[:_SIZE], signature[_SIZE:]
        numbers = (int.from_bytes(half, "big") for half in halves)
        try:
            public = self._private.public_key()
            packed = utils.encode_dss_signature(*numbers)
            public.verify(packed, signed.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise TokenError("the token's signature is wrong") from None
        return _unpacked(body)

    def document(self) -> JSONObject:
        """The public part, as a JSON Web Key."""
        point = self._private.public_key().public_numbers()
        x, y = (_packed(number.to_bytes(_SIZE, "big")) for number in (point.x, point.y))
        named: JSONObject = {"kid": self._id, "kty": "EC", "use": "sig", "alg": "ES256"}
        return {**named, "crv": "P-256", "x": x, "y": y}

    @functools.cached_property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # slow
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        try:
            found = serialization.load_pem_private_key(self._path.read_bytes(), None)
        except FileNotFoundError:
            found = ec.generate_private_key(ec.SECP256R1())
            pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
            write_secret(self._path, found.private_bytes(pem, kind, serialization.NoEncryption()))
        if not isinstance(found, ec.EllipticCurvePrivateKey) or found.key_size != 8 * _SIZE:
            raise TypeError(f"{self._path} is no key on P-256")
        return found

    @functools.cached_property
    def _id(self) -> str:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # slow

        der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        public = self._private.public_key().public_bytes(der, info)
        return _packed(hashlib.sha256(public).digest())


def is_token(text: str) -> bool:
    """Whether a text has the form of a signed token."""
    return text.count(".") == _DOTS and len(text) <= MAX_TOKEN and text.isascii()


def _header(text: str) -> _Header | None:
    try:
        return msgspec.json.decode(_unpacked(text), type=_Header)
    except msgspec.DecodeError:
        return None


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unpacked(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("the token is not encoded as one") from None
    if _packed(data) != text:  # one encoding only: a changed token must not pass for a known one
        raise TokenError("the token is not encoded as one")
    return data
