"""Credentials that stay fresh: fixed ones, a rotated token file, a program.

The transport takes a `Credential` before each request and reports when the server answered 401.
Nothing here logs or prints what it holds.

Source: k8s.io/client-go, transport/token_source.go (files are read again once a minute).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from hypercobalt.errors import ConfigurationError
from hypercobalt.kubeconfig import Connection, Identity, clean_token
from hypercobalt.runtime.client.exec_plugin import ExecPlugin
from hypercobalt.runtime.clock import Clock

REREAD = timedelta(minutes=1)  # the kubelet replaces a token long before it ends


@dataclass(frozen=True, slots=True)
class Credential:
    """Credential of one request; the repr hides its content."""

    authorization: str | None = field(default=None, repr=False)
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)  # chain, key


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential:
        """The credential to use now.

        Raises:
            TransientError: it cannot be had at the moment.
        """
        ...

    def rejected(self, credential: Credential) -> None:
        """The server answered 401 to `credential`: `current` must give a fresh one next."""
        ...


class FixedCredentials:
    """A token, a user name with password, or nothing."""

    def __init__(self, authorization: str | None) -> None:
        self._credential = Credential(authorization)

    async def current(self) -> Credential:
        return self._credential

    def rejected(self, credential: Credential) -> None:
        """Nothing fresher to be had."""


class FileCredentials:
    """A token and a client certificate in files that are replaced while the process runs."""

    def __init__(self, identity: Identity, clock: Clock) -> None:
        self._identity, self._clock = identity, clock
        self._cached: Credential | None = None
        self._read_at = 0.0

    async def current(self) -> Credential:
        """The files' content, read at most once a minute unless it was rejected.

        Raises:
            ConfigurationError: a file cannot be read and never could.
        """
        now = self._clock.monotonic()
        if self._cached is None or now - self._read_at >= REREAD.total_seconds():
            try:
                self._cached = self._read()
            except ConfigurationError:
                if self._cached is None:
                    raise  # else: being replaced right now, and the old one is still good
            self._read_at = now
        return self._cached

    def rejected(self, credential: Credential) -> None:
        if credential is self._cached:
            self._read_at = float("-inf")

    def _read(self) -> Credential:
        who = self._identity
        authorization = _bearer(who.token) if who.token else None
        if who.token_file is not None:
            authorization = f"Bearer {_read_token(who.token_file)}"
        if who.certificate is None or who.key is None:
            return Credential(authorization)
        return Credential(authorization, (who.certificate.read(), who.key.read()))


def credentials_for(connection: Connection, clock: Clock) -> Credentials:
    """The source that a connection's identity calls for.

    Raises:
        ConfigurationError: a token or a program that cannot be used.
    """
    who = connection.user
    if who is None:
        return FixedCredentials(None)
    if who.exec is not None:
        return _ExecCredentials(ExecPlugin(who.exec, connection, clock))
    if who.token_file is not None or who.certificate is not None:
        return FileCredentials(who, clock)
    if who.token:
        return FixedCredentials(_bearer(who.token))
    if who.username:
        pair = base64.b64encode(f"{who.username}:{who.password}".encode()).decode()
        return FixedCredentials(f"Basic {pair}")
    return FixedCredentials(None)


class _ExecCredentials:
    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin
        self._credential: Credential | None = None
        self._of: object = None

    async def current(self) -> Credential:
        answer = await self._plugin.current()
        if self._credential is None or answer is not self._of:
            token = f"Bearer {answer.token}" if answer.token else None
            self._credential, self._of = Credential(token, answer.certificate), answer
        return self._credential

    def rejected(self, credential: Credential) -> None:
        if credential is self._credential:
            self._plugin.forget()


def _bearer(token: str) -> str:
    return f"Bearer {clean_token(token, 'token of the user')}"


def _read_token(path: Path) -> str:
    about = f"token file {path}"
    try:
        return clean_token(path.read_text(encoding="ascii", errors="replace"), about)
    except OSError as exc:
        raise ConfigurationError(f"{about}: {exc.strerror}") from exc
