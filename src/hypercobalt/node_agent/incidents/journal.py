"""What the agent remembers of its instances, on disk: the newest state of each.

A line for each change: the CRC-32 of what follows as eight hexadecimal digits, a space, JSON of an
`Instance`, or of `{"gone": UUID}`. The last line of an instance counts. A line that is torn or
damaged is skipped: its content is found again in libvirt. The file is written anew once it has
grown, by a rename, so it stays bounded.

A disk that fails or fills takes nothing but the memory over a restart: errors are logged, and the
agent goes on.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.ha.cases import Instance
from hypercobalt.logs import get_logger

log = get_logger(__name__)

NAME: Final = "incidents.journal"
LIMIT: Final = 1 << 20
"""Bytes of the file, at most."""
_COMPACT: Final = LIMIT // 2

_decode_instance = msgspec.json.Decoder(Instance).decode


class Journal:
    """The journal in a directory; None keeps nothing.

    `write` does so in a thread, one at a time.
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = directory / NAME if directory else None
        self._size = 0
        self._turn = asyncio.Lock()
        self._complaint = ""

    def read(self) -> dict[str, Instance]:
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
        self._size = len(content)
        return decode(content)

    @property
    def failing(self) -> bool:
        """Whether the last attempt to read or write it has failed."""
        return bool(self._complaint)

    async def write(self, changed: Iterable[str], instances: Mapping[str, Instance]) -> None:
        """Write what is known of the instances that have changed.

        Args:
            changed: their UUIDs; one that is not among `instances` is gone.
            instances: all of them.
        """
        async with self._turn:
            await asyncio.to_thread(self.write_now, tuple(changed), dict(instances))

    def write_now(self, changed: Iterable[str], instances: Mapping[str, Instance]) -> None:
        """Write in this thread, at the end of the process."""
        if self._path is not None:
            self._write(self._path, changed, instances)

    def _write(self, path: Path, changed: Iterable[str], instances: Mapping[str, Instance]) -> None:
        lines = b"".join(encode(uuid, instances.get(uuid)) for uuid in changed)
        try:
            if not self._size or self._size + len(lines) > _COMPACT:
                self._rewrite(path, [encode(uuid, one) for uuid, one in instances.items()])
            else:
                with path.open("ab") as file:
                    file.write(lines)
                self._size += len(lines)
        except OSError as error:
            self._size = 0  # the next one is written anew: half a line may be there
            self._complain(error)
        else:
            self._complaint = ""

    def _rewrite(self, path: Path, everything: list[bytes]) -> None:
        kept, size = list[bytes](), 0
        for line in everything:
            size += len(line)
            if size <= LIMIT:
                kept.append(line)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(b"".join(kept))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        self._size = sum(map(len, kept))

    def _complain(self, error: OSError) -> None:
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning("journal_not_kept", file=str(self._path), error=self._complaint)


def encode(uuid: str, instance: Instance | None) -> bytes:
    """One line."""
    body = msgspec.json.encode({"gone": uuid} if instance is None else instance)
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(content: bytes) -> dict[str, Instance]:
    """The instances of a file; damaged lines are skipped."""
    found: dict[str, Instance] = {}
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
