"""JSON Web Tokens, signed with ES256 by a key of the server's own.

The key is made when it is first needed and kept in a file that only the server may read: its
reader can act as any service account. The libraries for it are loaded at the first token, too.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.errors import HypercobaltError

if TYPE_CHECKING:
    from hypercobalt.apiserver.access.es256 import SigningKey

MAX_TOKEN: Final = 16 * 1024  # characters
_FORM: Final = re.compile(r"[\w-]*\.[\w-]*\.[\w-]*", re.ASCII)


class TokenError(HypercobaltError):
    """A token that must not be trusted; the message holds nothing of the token."""


class TokenKey:
    """A key that signs and verifies tokens; its file is made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def sign(self, payload: bytes) -> str:
        """A token that carries `payload`, as JSON.

        Raises:
            OSError, TypeError, ValueError: the key cannot be read or written.
        """
        return self._key.sign(payload)

    def verify(self, token: str) -> bytes:
        """Verify a token's signature and return its claims.

        Raises:
            TokenError: this key did not sign the token, or it has another form of the same bytes.
            OSError, TypeError, ValueError: the key cannot be read or written.
        """
        if not is_token(token):
            raise TokenError("the token is not a valid JWT")
        return self._key.verify(token)

    def document(self) -> JSONObject:
        """The public part, as a JSON Web Key."""
        return self._key.document()

    @functools.cached_property
    def _key(self) -> SigningKey:
        # Here, because a server that no client sends a token does without its libraries.
        from hypercobalt.apiserver.access.es256 import SigningKey  # noqa: PLC0415

        return SigningKey.load(self._path)


def is_token(text: str) -> bool:
    """Whether a text has the form of a signed token, without the padding of its parts."""
    return len(text) <= MAX_TOKEN and _FORM.fullmatch(text) is not None
