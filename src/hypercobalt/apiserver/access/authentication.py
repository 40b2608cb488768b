"""Who sends a request: static bearer tokens, client certificates, and whom they act for.

Source: kube-apiserver's --token-auth-file (CSV: token,user,uid,"group1,group2"), its X.509
authenticator (common name = user, organizations = groups) and its impersonation filter.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypercobalt.apiserver import status
from hypercobalt.apiserver.requests.request import ANONYMOUS, User
from hypercobalt.errors import ConfigurationError

AUTHENTICATED = "system:authenticated"
SERVICE_ACCOUNT = ("system", "serviceaccount")
IMPERSONATE = "impersonate-"  # what the headers of somebody who acts for another begin with
TOKEN_COLUMNS = 3  # token, user, uid; groups are optional


class Authenticator:
    """Tells users apart; anything it does not know is nobody."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        # Hashed, so that how long a look-up takes says nothing about a token.
        self._users = {_digest(token): user for token, user in tokens.items()}

    def by_token(self, authorization: str) -> User | None:
        """The user of an Authorization header; None when it is none of ours."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self._users.get(_digest(token.strip()))

    def by_certificate(self, certificate: Mapping[str, Any] | None) -> User | None:
        """The user of a verified client certificate, as `ssl.getpeercert()` gives it."""
        if not certificate:
            return None
        subject = [pair for group in certificate.get("subject", ()) for pair in group]
        name = next((value for kind, value in subject if kind == "commonName"), "")
        groups = tuple(value for kind, value in subject if kind == "organizationName")
        return User(str(name), groups=(*groups, AUTHENTICATED)) if name else None


def acting_as(user: User, headers: Iterable[tuple[str, str]]) -> User:
    """Who a request counts as: `user`, or whom its headers name (`kubectl --as`).

    Everybody who is somebody may do everything, so may act for everybody.

    Args:
        user: who was authenticated.
        headers: all of the request, names in lower case.

    Raises:
        StatusError: 400 for groups or a UID of nobody; 501 for extra fields.
    """
    sent = [(name, value) for name, value in headers if name.startswith(IMPERSONATE)]
    if not sent or user == ANONYMOUS:
        return user
    if any(name.startswith(f"{IMPERSONATE}extra-") for name, _ in sent):
        raise status.unsupported("impersonation with extra fields")
    name, uid = (dict(reversed(sent)).get(f"{IMPERSONATE}{part}", "") for part in ("user", "uid"))
    groups = tuple(value for header, value in sent if header == f"{IMPERSONATE}group")
    if not name:
        if groups or uid:
            raise status.bad_request("Impersonate-Group and Impersonate-Uid need Impersonate-User")
        return user
    if name == ANONYMOUS.name:
        return ANONYMOUS
    return User(name, uid, tuple(dict.fromkeys((*(groups or _implied(name)), AUTHENTICATED))))


def _implied(name: str) -> tuple[str, ...]:
    """The groups that a service account is always in."""
    *kind, namespace, _ = ("", "", *name.split(":"))
    if tuple(kind[2:]) != SERVICE_ACCOUNT:
        return ()
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


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
        raise ConfigurationError(f"token file {path} cannot be read: {error}") from error
    return dict(_user(path, number, row) for number, row in enumerate(rows, 1) if any(row))


def _user(path: Path, number: int, row: Sequence[str]) -> tuple[str, User]:
    if len(row) < TOKEN_COLUMNS or not row[0].strip() or not row[1].strip():
        raise ConfigurationError(
            f'token file {path}, line {number}: expected token,user,uid[,"group1,group2"]'
        )
    listed = row[TOKEN_COLUMNS].split(",") if len(row) > TOKEN_COLUMNS else []
    groups = tuple(group.strip() for group in listed if group.strip())
    return row[0].strip(), User(row[1].strip(), row[2].strip(), (*groups, AUTHENTICATED))
