"""Which chassis may have a logical port, in OVN's northbound database.

While a guest moves, its port belongs to both hosts, and the new one forwards from the guest's first
frame there, so that hardly a packet is lost. Neutron's OVN driver does the same.

Source: ovn-nb(5), Logical_Switch_Port, `requested-chassis` and `activation-strategy`; RFC 7047,
sections 4.1.3 and 5.2.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from hypercobalt.errors import ConfigurationError, TransientError

_DEADLINE: Final = 10.0
_MAX_ANSWER: Final = 16 * 1024 * 1024
_PORTS: Final = "Logical_Switch_Port"
_CHASSIS, _STRATEGY = "requested-chassis", "activation-strategy"
_ID: Final = "hypercobalt"


class OvnError(TransientError):
    """The northbound database cannot be reached, or refuses."""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a database server listens: `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`."""

    kind: str
    host: str
    port: int = 0


class _Error(msgspec.Struct):
    error: str
    details: str = ""


class _Row(msgspec.Struct):
    name: str
    options: tuple[str, list[tuple[str, str]]]


class _Result(msgspec.Struct):
    count: int = 0
    rows: list[_Row] = []
    error: str = ""
    details: str = ""


class _Answer(msgspec.Struct):
    id: str | None = None
    result: list[_Result | None] | None = None
    error: _Error | str | None = None


def parse_remotes(text: str) -> tuple[Remote, ...]:
    """Read remotes as OVN's own commands take them, with commas between the servers of a cluster.

    Raises:
        ConfigurationError: one is none.
    """
    return tuple(_remote(part.strip()) for part in text.split(","))


class Northbound:
    """The database, connected to for each question.

    Args:
        remotes: servers of one database; the first that answers is taken.
        tls: for `ssl` remotes.
    """

    def __init__(self, remotes: tuple[Remote, ...], tls: ssl.SSLContext | None = None) -> None:
        self._remotes, self._tls = remotes, tls

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """Say which chassis may have some ports: the one they are on, then the one they go to.

        Ports that the database does not have are left out.

        Raises:
            OvnError: it cannot be reached, or refuses.
        """
        options = {_CHASSIS: ",".join(hosts)}
        if len(hosts) > 1:
            options[_STRATEGY] = "rarp"
        operations: list[object] = [
            {
                "op": "mutate",
                "table": _PORTS,
                "where": [["name", "==", port]],
                "mutations": [
                    ["options", "delete", ["set", [_CHASSIS, _STRATEGY]]],
                    ["options", "insert", ["map", sorted(options.items())]],
                ],
            }
            for port in ports
        ]
        if operations:
            await self._transact(operations)

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        """Ports that wait for a guest's first frame on a new host, and their chassis.

        Raises:
            OvnError: it cannot be reached, or refuses.
        """
        where = [["options", "includes", ["map", [[_STRATEGY, "rarp"]]]]]
        select = {"op": "select", "table": _PORTS, "where": where, "columns": ["name", "options"]}
        found: dict[str, tuple[str, ...]] = {}
        for result in await self._transact([select]):
            for row in result.rows if result else ():
                chassis = dict(row.options[1]).get(_CHASSIS, "").split(",")
                if len(chassis) > 1:
                    found[row.name] = tuple(chassis)
        return found

    async def close(self) -> None:
        """Nothing is held between questions."""

    async def _transact(self, operations: list[object]) -> list[_Result | None]:
        request = {
            "method": "transact",
            "params": ["OVN_Northbound", *operations],
            "id": _ID,
        }
        failures: list[str] = []
        for remote in self._remotes:
            try:
                async with asyncio.timeout(_DEADLINE):
                    answer = await self._ask(remote, json.dumps(request).encode())
            except (OSError, TimeoutError, ValueError, EOFError) as exc:
                failures.append(f"{_shown(remote)}: {str(exc) or type(exc).__name__}")
                continue
            return _checked(answer, remote)
        raise OvnError(f"OVN's northbound database: {'; '.join(failures)}")

    async def _ask(self, remote: Remote, request: bytes) -> _Answer:
        reader, writer = await self._connect(remote)
        try:
            writer.write(request)
            await writer.drain()
            return await _read(reader)
        finally:
            writer.transport.abort()

    async def _connect(self, remote: Remote) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if remote.kind == "unix":
            return await asyncio.open_unix_connection(remote.host)
        tls = self._tls if remote.kind == "ssl" else None
        return await asyncio.open_connection(remote.host, remote.port, ssl=tls)


async def _read(reader: asyncio.StreamReader) -> _Answer:
    """Our answer out of a stream of JSON texts that nothing separates."""
    decoder, text = json.JSONDecoder(), b""
    while chunk := await reader.read(65536):
        text += chunk
        if len(text) > _MAX_ANSWER:
            raise ValueError(f"its answer has more than {_MAX_ANSWER} bytes")
        try:
            found, end = decoder.raw_decode(text.decode())
        except ValueError:
            continue  # it goes on
        answer = msgspec.convert(found, _Answer)
        if answer.id == _ID:
            return answer
        text = text[end:].lstrip()
    raise EOFError("it has closed the connection")


def _checked(answer: _Answer, remote: Remote) -> list[_Result | None]:
    problem = answer.error
    results = answer.result or []
    failed = next((one for one in results if one and one.error), None)
    if problem or failed:
        words = f"{failed.error} {failed.details}" if failed else str(problem)
        raise OvnError(f"OVN's northbound database at {_shown(remote)} refuses: {words.strip()}")
    return results


def _remote(text: str) -> Remote:
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest.startswith("/"):
        return Remote(kind, rest)
    host, _, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if kind in {"tcp", "ssl"} and host and port.isascii() and port.isdigit():
        return Remote(kind, host, int(port))
    raise ConfigurationError(
        f"OVN remote {text!r} must look like unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT"
    )


def _shown(remote: Remote) -> str:
    port = f":{remote.port}" if remote.port else ""
    return f"{remote.kind}:{remote.host}{port}"
