"""Authenticates requests: bearer tokens, static or of service accounts, and client certificates.

Source: kube-apiserver's --token-auth-file (CSV: token,user,uid,"group1,group2") and its X.509
authenticator (common name = user, organizations = groups).
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypercobalt.apiserver.access.jwt import TokenError
from hypercobalt.apiserver.access.tokens import AUDIENCES, Accounts
from hypercobalt.apiserver.requests.request import AUTHENTICATED, User
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

TOKEN_COLUMNS = 3  # token, user, uid; groups are optional


class Authenticator:
    """Finds the user of a token or a certificate."""

    def __init__(self, tokens: Mapping[str, User], accounts: Accounts) -> None:
        # Hashed, so that the time of a look-up discloses nothing of a token.
        self._users = {_digest(token): user for token, user in tokens.items()}
        self.accounts = accounts

    def by_token(self, token: str) -> User | None:
        """The user of a bearer token; None for an unknown one."""
        try:
            return self.identify(token, AUDIENCES)[0]
        except TokenError as error:
            log.debug("token_refused", reason=str(error))
            return None

    def identify(self, token: str, audiences: Sequence[str]) -> tuple[User, tuple[str, ...]]:
        """The user of a token, and the ones of `audiences` for which it is good.

        Raises:
            TokenError: it is unknown, or for none of them.
        """
        user = self._users.get(_digest(token))
        if user is None:
            return self.accounts.user_of(token, audiences)
        shared = tuple(name for name in AUDIENCES if name in audiences)
        if not shared:
            raise TokenError(f"the token is not for {', '.join(audiences)}")
        return user, shared

    def by_certificate(self, certificate: Mapping[str, Any] | None) -> User | None:
        """The user of a verified client certificate, as `ssl.getpeercert()` gives it."""
        if not certificate:
            return None
        subject = [pair for group in certificate.get("subject", ()) for pair in group]
        name = next((value for kind, value in subject if kind == "commonName"), "")
        groups = tuple(value for kind, value in subject if kind == "organizationName")
        return User(str(name), groups=(*groups, AUTHENTICATED)) if name else None


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of an Authorization header; "" without one, which makes the request anonymous.

    Source: k8s.io/apiserver, pkg/authentication/request/bearertoken: other schemes do not count.
    """
    scheme, token = (*headers.get("authorization", "").split(" "), "")[:2]
    return token if scheme.lower() == "bearer" else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def read_tokens(path: Path) -> dict[str, User]:
    """Read a static token file.

    Raises:
        ConfigurationError: it cannot be read, or a line has too few columns.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"token file {path} cannot be read: {why}") from error
    return dict(_user(path, number, row) for number, row in enumerate(rows, 1) if any(row))


def _user(path: Path, number: int, row: Sequence[str]) -> tuple[str, User]:
    if len(row) < TOKEN_COLUMNS or not row[0].strip() or not row[1].strip():
        raise ConfigurationError(
            f'token file {path}, line {number}: expected token,user,uid[,"group1,group2"]'
        )
    listed = row[TOKEN_COLUMNS].split(",") if len(row) > TOKEN_COLUMNS else []
    groups = tuple(group.strip() for group in listed if group.strip())
    return row[0].strip(), User(row[1].strip(), row[2].strip(), (*groups, AUTHENTICATED))
