"""JSON Web Tokens, signed with ES256 by a key of the server's own.

The key is made when it is first needed and kept in a file that only the server may read: its
reader can act as any service account. The library for it is loaded at the first token, too.

Source: RFC 7515, RFC 7517.
"""

from __future__ import annotations

import base64
import binascii
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.errors import HypercobaltError

if TYPE_CHECKING:
    from hypercobalt.apiserver.access.es256 import SigningKey

MAX_TOKEN = 16 * 1024  # characters
_DOTS = 2  # between the parts of a token


class TokenError(HypercobaltError):
    """A token that must not be trusted; the message holds nothing of the token."""


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
        header = msgspec.json.encode({"alg": "ES256", "kid": self._id})
        signed = f"{_packed(header)}.{_packed(payload)}"
        return f"{signed}.{_packed(self._key.sign(signed.encode()))}"

    def verify(self, token: str) -> bytes:
        """Verify a token's signature and return its claims.

        Raises:
            TokenError: this key did not sign the token.
            OSError, TypeError, ValueError: the key cannot be read or written.
        """
        signed, _, mark = token.rpartition(".")
        head, _, body = signed.partition(".")
        if _header(head) != _Header("ES256", self._id):
            raise TokenError("the token was not signed by this server")
        if not self._key.has_signed(signed.encode(), _unpacked(mark)):
            raise TokenError("the token's signature is invalid")
        return _unpacked(body)

    def document(self) -> JSONObject:
        """The public part, as a JSON Web Key."""
        x, y = (_packed(number) for number in self._key.point)
        named: JSONObject = {"kid": self._id, "kty": "EC", "use": "sig", "alg": "ES256"}
        return {**named, "crv": "P-256", "x": x, "y": y}

    @functools.cached_property
    def _key(self) -> SigningKey:
        # Here, because a server that no client sends a token does without its library.
        from hypercobalt.apiserver.access.es256 import SigningKey  # noqa: PLC0415

        return SigningKey.load(self._path)

    @functools.cached_property
    def _id(self) -> str:
        return _packed(self._key.fingerprint)


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
        raise TokenError("the token is not a valid JWT") from None
    if _packed(data) != text:  # one encoding only: a changed token must not pass for a known one
        raise TokenError("the token is not a valid JWT")
    return data
