"""What the agent remembers of its instances, on disk: the newest state of each.

A line for each change: the CRC-32 of what follows as eight hexadecimal digits, a space, JSON of an
`InstanceRecord`, or of `{"gone": UUID}`. The last line of an instance counts. A line that is torn
or damaged is skipped: its content is found again in libvirt. The file is rewritten, by a rename,
once it has grown, so it stays bounded, and when it ends in a torn line, which would swallow the
next one. Each write reaches the disk before it counts: what ran when the power went is restarted.

A disk that fails or is full costs only the memory over a restart: errors are logged, and the agent
goes on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.ha.incidents.cases import InstanceRecord
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents import state_file

log = get_logger(__name__)

NAME: Final = "incidents.journal"
LIMIT: Final = 1 << 20
"""Bytes of the file, at most."""
_COMPACT: Final = LIMIT // 2

_PATIENCE: Final = 2.0  # seconds, at the end of the process, with a write that is under way

_decode_instance = msgspec.json.Decoder(InstanceRecord).decode


class IncidentJournal:
    """The journal in a directory.

    Args:
        directory: None keeps nothing.
        sync: has what was written to a file descriptor reach the disk.
    """

    def __init__(self, directory: Path | None, *, sync: state_file.Sync = os.fdatasync) -> None:
        self._path = directory / NAME if directory else None
        self._sync = sync
        self._size = 0
        self._turn = threading.Lock()
        self._closed = False
        self._complaint = ""

    def read(self) -> dict[str, InstanceRecord]:
        """What is remembered, by UUID; nothing when there is no file, or none that can be read."""
        if self._path is None:
            return {}
        try:
            content = self._path.read_bytes()[-LIMIT:]
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._complain(error)
            return {}
        self._size = len(content) if content.endswith(b"\n") else 0
        return decode(content)

    @property
    def failing(self) -> bool:
        """Whether the last attempt to read or write it has failed."""
        return bool(self._complaint)

    async def write(self, changed: Iterable[str], instances: Mapping[str, InstanceRecord]) -> None:
        """Write what is known of the instances that have changed, in a thread.

        A write that is cancelled goes on there.

        Args:
            changed: their UUIDs; one that is not among `instances` is gone.
            instances: all of them.
        """
        await asyncio.to_thread(self._write, tuple(changed), dict(instances))

    def close(self, instances: Mapping[str, InstanceRecord]) -> None:
        """Write everything in this thread, and nothing after it: the end of the process.

        A disk that hangs holds it up for a moment only.
        """
        if self._turn.acquire(timeout=_PATIENCE):
            try:
                self._size = 0
                self._put((), instances)
                self._closed = True
            finally:
                self._turn.release()

    def _write(self, changed: Iterable[str], instances: Mapping[str, InstanceRecord]) -> None:
        with self._turn:
            if not self._closed:
                self._put(changed, instances)

    def _put(self, changed: Iterable[str], instances: Mapping[str, InstanceRecord]) -> None:
        if self._path is None:
            return
        lines = b"".join(encode(uuid, instances.get(uuid)) for uuid in changed)
        try:
            if not self._size or self._size + len(lines) > _COMPACT:
                self._rewrite(self._path, [encode(uuid, one) for uuid, one in instances.items()])
            else:
                with self._path.open("ab") as file:
                    file.write(lines)
                    file.flush()
                    self._sync(file.fileno())
                self._size += len(lines)
        except OSError as error:
            self._size = 0  # the next write rewrites the file: half a line may be there
            self._complain(error)
        else:
            self._complaint = ""

    def _rewrite(self, path: Path, everything: list[bytes]) -> None:
        kept, size = list[bytes](), 0
        for line in everything:
            if size + len(line) <= LIMIT:
                kept.append(line)
                size += len(line)
        state_file.replace(path, b"".join(kept), self._sync)
        self._size = size

    def _complain(self, error: OSError) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("journal_not_kept", file=str(self._path), error=self._complaint)


def encode(uuid: str, instance: InstanceRecord | None) -> bytes:
    """One line."""
    body = msgspec.json.encode({"gone": uuid} if instance is None else instance)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(content: bytes) -> dict[str, InstanceRecord]:
    """The instances of a file; damaged lines are skipped."""
    found: dict[str, InstanceRecord] = {}
    damaged = 0
    for line in filter(None, content.split(b"\n")):
        checksum, _, body = line.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(body):
            damaged += 1
            continue
        try:
            gone = msgspec.json.decode(body, type=_Gone).gone
            if gone is None:
                instance = _decode_instance(body)
                found[instance.uuid] = instance
            else:
                found.pop(gone, None)
        except msgspec.DecodeError:  # of another version
            damaged += 1
    if damaged:
        log.warning("journal_lines_damaged", lines=damaged)
    return found


class _Gone(msgspec.Struct):
    gone: str | None = None
