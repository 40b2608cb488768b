"""Credentials from a program, by client.authentication.k8s.io.

The program is run when there is no credential, when the one at hand is about to end, and after a
401; never twice at a time.

Source: k8s.io/client-go, plugin/pkg/client/auth/exec and pkg/apis/clientauthentication.
"""

from __future__ import annotations

import asyncio
import base64
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.kubeconfig import Connection, ExecEntry, clean_token
from hypercobalt.runtime.clock import Clock

_GROUP = "client.authentication.k8s.io"
_VERSIONS = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")
_DEADLINE = timedelta(seconds=60)  # cloud providers' plugins go over the network
_MARGIN = timedelta(seconds=30)  # a request with a token must arrive before the token ends
_MAX_STDERR = 300


class _ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


@dataclass(frozen=True, slots=True)
class ExecAnswer:
    """Output of the program."""

    token: str = field(repr=False)
    certificate: tuple[bytes, bytes] | None = field(repr=False)
    expires: datetime | None


class ExecPlugin:
    """Runs one kubeconfig user's program.

    Raises:
        ConfigurationError: an API version that we do not speak, or a program that must have a
            terminal.
    """

    def __init__(self, entry: ExecEntry, connection: Connection, clock: Clock) -> None:
        if entry.api_version not in _VERSIONS:
            raise ConfigurationError(
                f"exec plugin {entry.command}: apiVersion {entry.api_version!r} must be one of "
                f"{', '.join(_VERSIONS)}"
            )
        if entry.interactive_mode == "Always":
            raise ConfigurationError(
                f"exec plugin {entry.command}: interactiveMode Always needs a terminal, "
                "and a service has none"
            )
        self._entry, self._connection, self._clock = entry, connection, clock
        self._answer: ExecAnswer | None = None
        self._running = asyncio.Lock()

    async def current(self) -> ExecAnswer:
        """The credential at hand, or a fresh one.

        Raises:
            TransientError: the program is missing, failed, took over a minute or printed nonsense.
        """
        async with self._running:
            if self._answer is None or self._ends_soon(self._answer):
                self._answer = self._parse(await self._run())
            return self._answer

    def forget(self) -> None:
        """Run the program for the next request."""
        self._answer = None

    def _ends_soon(self, answer: ExecAnswer) -> bool:
        return answer.expires is not None and answer.expires - _MARGIN <= self._clock.now()

    async def _run(self) -> bytes:
        command, folder = self._entry.command, self._folder()
        if "/" in command:
            command = str(folder / command)
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *(self._entry.args or ()),
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as exc:
            hint = f"; {self._entry.install_hint}" if self._entry.install_hint else ""
            raise self._failed(f"{exc.strerror}{hint}") from exc
        out, err = await self._communicate(process)
        if process.returncode != 0:
            text = err[:_MAX_STDERR].decode(errors="replace").strip()
            raise self._failed(f"exit code {process.returncode}: {text}")
        return out

    async def _communicate(self, process: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(_DEADLINE.total_seconds()):
                return await process.communicate()
        except TimeoutError as exc:
            raise self._failed(f"no answer in {_DEADLINE.total_seconds():.0f} s") from exc
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def _parse(self, out: bytes) -> ExecAnswer:
        try:
            printed = msgspec.json.decode(out, type=_ExecCredential)
        except msgspec.DecodeError:
            raise self._failed("did not print an ExecCredential") from None
        status = printed.status
        if printed.api_version != self._entry.api_version or status is None:
            raise self._failed(
                f"printed apiVersion {printed.api_version!r} with "
                f"{'a' if status else 'no'} status; expected {self._entry.api_version!r}"
            )
        chain, key = status.client_certificate_data, status.client_key_data
        if not status.token and not chain:
            raise self._failed("printed neither a token nor a client certificate")
        if bool(chain) != bool(key):
            raise self._failed("printed only one of client certificate and key")
        pair = (chain.encode(), key.encode()) if chain else None
        return ExecAnswer(self._token(status.token), pair, status.expiration_timestamp)

    def _token(self, printed: str) -> str:
        try:
            return clean_token(printed, "printed token") if printed else ""
        except ConfigurationError as exc:
            raise self._failed(str(exc)) from None

    def _environment(self) -> dict[str, str]:
        spec: dict[str, object] = {"interactive": False}
        if self._entry.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        info = {"apiVersion": self._entry.api_version, "kind": "ExecCredential", "spec": spec}
        return {
            **os.environ,
            **{variable.name: variable.value for variable in self._entry.env or ()},
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
        }

    def _cluster_info(self) -> dict[str, object]:
        to = self._connection
        info: dict[str, object] = {"server": to.server}
        if to.authority is not None:
            info["certificate-authority-data"] = base64.b64encode(to.authority.read()).decode()
        if not to.verify:
            info["insecure-skip-tls-verify"] = True
        if to.tls_server_name:
            info["tls-server-name"] = to.tls_server_name
        if to.proxy:
            info["proxy-url"] = to.proxy
        return info

    def _folder(self) -> Path:
        return self._connection.user.folder if self._connection.user else Path()

    def _failed(self, what: str) -> TransientError:
        return TransientError(f"exec plugin {self._entry.command}: {what}")
