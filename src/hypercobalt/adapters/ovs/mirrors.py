"""Mirrors ports without a network device to a port made for it: our only change to the switch.

A mirror, its output port and their removal are one transaction each, which mutates the bridge's
sets: mirrors and ports of others stay. Every row carries its owner, the process that made it and
when it expires, so that what a killed agent left is found, and nothing else.

Source: ovs-vswitchd.conf.db(5), table Mirror; RFC 7047, sections 5.1 and 5.2;
netdevice(7).
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import socket
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from hypercobalt.adapters.ovs import jsonrpc
from hypercobalt.adapters.ovs.database import NAME
from hypercobalt.adapters.ovs.mirror_tags import EXPIRES, MAKER, OWNER, expiry_of
from hypercobalt.adapters.ovs.port import DEADLINE, ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.adapters.ovs.schema import Column
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_Operation: TypeAlias = Mapping[str, object]
_Row: TypeAlias = Mapping[str, object]
_MAP: Final = Column("string", is_map=True)
_DEVICE: Final = timedelta(seconds=5)  # for ovs-vswitchd to make the output port's device
_PREFIX: Final = "hcm"
_LONGEST_PID: Final = 10  # digits
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # SIOCGIFFLAGS, SIOCSIFFLAGS
_FLAGS: Final = struct.Struct("16sH22x")  # struct ifreq with ifr_flags


class _Result(msgspec.Struct):
    count: int = 0
    rows: list[dict[str, object]] = []
    error: str = ""
    details: str = ""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What is mirrored.

    Args:
        bridge: UUID of the row.
        port: UUID of the row in Port.
    """

    bridge: str
    port: str


class Mirrors:
    """Mirrors that the agent of this host has made.

    Args:
        database: ovsdb-server's socket.
        node: of the agent.
        root: what `/proc` is below.
    """

    def __init__(self, database: Path, node: str, root: Path = Path("/")) -> None:
        self._remote, self._node, self._root = Remote("unix", str(database)), node, root

    @asynccontextmanager
    async def mirror(self, what: Mirrored, *, snaplen: int, until: float) -> AsyncGenerator[str]:
        """Mirror a port while the context is entered, and yield the device that gets its packets.

        Args:
            what: the port.
            snaplen: bytes of each packet.
            until: seconds since 1970 after which the mirror counts as left over.

        Raises:
            SwitchError: the mirror cannot be made.
        """
        device = f"{_PREFIX}{secrets.token_hex(5)}"
        try:
            await self._add(what, device, snaplen, until)
            log.info("mirror_added", device=device)
            await _switch_on(device)
            yield device
        finally:
            await asyncio.shield(self._remove(device))

    async def sweep(self, now: float) -> float | None:
        """Remove what is left over: expired, or of a process that is gone.

        Args:
            now: seconds since 1970.

        Returns:
            When the next of those that stay expires; None if none stays.

        Raises:
            SwitchError: the database does not answer, or refuses.
        """
        stay: list[float] = []
        for device, tags in (await self._own()).items():
            expires = expiry_of(tags) or 0.0
            if expires > now and self._runs(tags.get(MAKER, "")):
                stay.append(expires)
            else:
                await self._remove(device)
        return min(stay, default=None)

    async def _add(self, what: Mirrored, device: str, snaplen: int, until: float) -> None:
        pid = os.getpid()
        tags = {OWNER: self._node, EXPIRES: f"{until:.0f}", MAKER: f"{pid} {self._start(pid)}"}
        ids, named = ["map", sorted(tags.items())], ["named-uuid", "port"]
        port, mirrored = ["uuid", what.port], {"select_src_port", "select_dst_port"}
        mirror: dict[str, object] = {"name": device, "output_port": named, "external_ids": ids}
        mirror |= dict.fromkeys(mirrored, port) | {"snaplen": snaplen}
        interface = {"name": device, "type": "internal", "external_ids": ids}
        results = await self._transact(
            _insert("Interface", "interface", interface),
            _insert(
                "Port",
                "port",
                {"name": device, "interfaces": ["named-uuid", "interface"], "external_ids": ids},
            ),
            _insert("Mirror", "mirror", mirror),
            _mutate(
                ["_uuid", "==", ["uuid", what.bridge]],
                "insert",
                ports=named,
                mirrors=["named-uuid", "mirror"],
            ),
        )
        if not results[-1].count:
            raise SwitchError(
                ProducerFault.REFUSED, f"bridge {what.bridge} is gone; nothing is mirrored"
            )

    async def _remove(self, device: str) -> None:
        """Remove a mirror and its port; the rows go when no bridge has them."""
        by_name = [["name", "==", device], ["external_ids", "includes", self._owned]]
        mirrors, ports = await self._transact(
            _select("Mirror", by_name, "_uuid"), _select("Port", by_name, "_uuid")
        )
        operations = [
            _mutate([column, "includes", row["_uuid"]], "delete", **{column: row["_uuid"]})
            for column, found in (("mirrors", mirrors), ("ports", ports))
            for row in found.rows
        ]
        if operations:
            await self._transact(*operations)
            log.info("mirror_removed", device=device)

    async def _own(self) -> dict[str, Mapping[str, str]]:
        """Tags of the rows of this host's agent, by name of the device."""
        ours = [["external_ids", "includes", self._owned]]
        tables = [_select(table, ours, "name", "external_ids") for table in ("Port", "Mirror")]
        found = await self._transact(*tables)
        return {str(row["name"]): _tags(row) for result in found for row in result.rows}

    @property
    def _owned(self) -> object:
        return ["map", [[OWNER, self._node]]]

    def _runs(self, maker: str) -> bool:
        pid, _, start = maker.partition(" ")
        is_number = pid.isascii() and pid.isdigit() and len(pid) <= _LONGEST_PID
        return is_number and bool(start) and self._start(int(pid)) == start

    def _start(self, pid: int) -> str:
        """When a process started, in clock ticks after the boot; empty if there is none."""
        try:
            stat = (self._root / f"proc/{pid}/stat").read_bytes()
        except OSError:
            return ""
        # A program chooses its name, which may be no text.
        state, *fields = stat.rpartition(b")")[2].split() or [b"X"]
        return "" if state in (b"Z", b"X") else fields[18].decode("ascii")

    async def _transact(self, *operations: _Operation) -> list[_Result]:
        seconds = DEADLINE.total_seconds()
        stream = await jsonrpc.connect(self._remote, deadline=seconds)
        try:
            answer = await stream.call("transact", [NAME, *operations], deadline=seconds)
            results = msgspec.json.decode(answer, type=list[_Result | None])
        except msgspec.MsgspecError as exc:
            raise SwitchError(
                ProducerFault.MALFORMED, f"{NAME}: the answer cannot be read: {exc}"
            ) from exc
        finally:
            stream.close()
        for result in results:
            if result and result.error:
                words = f"{result.error} {result.details}".strip()
                raise SwitchError(ProducerFault.REFUSED, f"{NAME}: {words}")
        return [result or _Result() for result in results]


async def _switch_on(device: str) -> None:
    """Switch a device on, as `ip link set DEVICE up`, once it is there; needs CAP_NET_ADMIN."""
    try:
        async with asyncio.timeout(_DEVICE.total_seconds()):
            while not _is_switched_on(device):  # noqa: ASYNC110 - it lasts milliseconds
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        text = f"ovs-vswitchd has not made {device} within {_DEVICE.total_seconds():g} s"
        raise SwitchError(ProducerFault.TIMEOUT, text) from error


def _is_switched_on(device: str) -> bool:
    """Whether the device could be switched on; not yet while the kernel does not have it.

    /sys shows a new device before the kernel finds it by its name (register_netdevice()).
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            found = fcntl.ioctl(made, _GET_FLAGS, _FLAGS.pack(device.encode(), 0))
            _, flags = _FLAGS.unpack(found)
            fcntl.ioctl(made, _SET_FLAGS, _FLAGS.pack(device.encode(), flags | _UP))
    except OSError as exc:
        if exc.errno == errno.ENODEV:
            return False
        text = f"{device} cannot be switched on: {exc.strerror}; a mirror needs CAP_NET_ADMIN"
        raise SwitchError(ProducerFault.NOT_PERMITTED, text) from exc
    return True


def _insert(table: str, name: str, row: _Row) -> _Operation:
    return {"op": "insert", "table": table, "uuid-name": name, "row": row}


def _select(table: str, where: Sequence[object], *columns: str) -> _Operation:
    return {"op": "select", "table": table, "where": where, "columns": columns}


def _mutate(where: object, how: str, **sets: object) -> _Operation:
    mutations = [[column, how, value] for column, value in sets.items()]
    return {"op": "mutate", "table": "Bridge", "where": [where], "mutations": mutations}


def _tags(row: _Row) -> Mapping[str, str]:
    found = _MAP.decode(row["external_ids"])
    return {key: str(value) for key, value in found.items()} if isinstance(found, Mapping) else {}
