"""The disk of a `ledger` guest: were its records lost, torn, or written by two at once?

Each boot of the guest has a mark of its own and appends records behind those of the boots before
it. A record is 8 sectors: magic, place, mark (8 bytes), the boot's number of the record again and
again, and the sum of all before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIRST_SECTOR: Final = 64
RECORD_BYTES: Final = 4096
_SECTORS: Final = RECORD_BYTES // 512
_WORDS: Final = struct.Struct(f"<{RECORD_BYTES // 4}I")
_MAGIC_BYTES: Final = b"LDRG"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A record as it lies on the disk.

    Args:
        place: first sector by its position, on the disk.
        claimed: the place that it was written for.
        boot: mark of the boot that wrote it.
        number: how many that boot had written, with it.
        whole: its sum is right.
    """

    place: int
    claimed: int
    boot: int
    number: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger on a disk.

    Args:
        records: how many.
        boots: marks of the boots that have written, in order.
        faults: a sentence each; () where nothing was lost and no other QEMU has written.
    """

    records: int
    boots: tuple[int, ...]
    faults: tuple[str, ...]


def count(image: Path) -> int:
    """How many records a guest's disk holds, whatever is in them.

    Raises:
        OSError: the image cannot be read.
    """
    return sum(block.startswith(_MAGIC_BYTES) for block in _blocks(image))


def read(image: Path) -> Ledger:
    """Check the disk of a guest; it may run.

    Raises:
        OSError: the image cannot be read.
    """
    return check(_entries(_blocks(image)))


def _blocks(image: Path) -> Iterator[bytes]:
    """The places for records, in order."""
    with image.open("rb") as file:
        file.seek(FIRST_SECTOR * 512)
        yield from iter(lambda: file.read(RECORD_BYTES), b"")


def _entries(blocks: Iterable[bytes]) -> Iterator[LedgerEntry]:
    for index, block in enumerate(blocks):
        if len(block) == RECORD_BYTES and block.startswith(_MAGIC_BYTES):
            words = _WORDS.unpack(block)
            place = FIRST_SECTOR + index * _SECTORS
            whole = sum(words[:-1]) % 2**32 == words[-1] and len(set(words[4:-1])) == 1
            yield LedgerEntry(place, words[1], words[2] | words[3] << 32, words[4], whole)


def check(entries: Iterable[LedgerEntry]) -> Ledger:
    """Find what is wrong with the records of a disk, in the order of their places."""
    faults: list[str] = []
    boots: list[int] = []
    before: LedgerEntry | None = None
    records = 0
    for entry in entries:
        where = f"record at sector {entry.place}"
        expected = before.place + _SECTORS if before else FIRST_SECTOR
        same = before is not None and before.boot == entry.boot
        if entry.place != expected:
            faults.append(f"nothing lies at sectors {expected} to {entry.place - 1}: lost")
        if entry.claimed != entry.place:
            faults.append(f"{where} was written for sector {entry.claimed}")
        if same and before and not before.whole:  # a boot's last one may have been cut off
            faults.append(f"record at sector {before.place} is torn")
        if not same and entry.boot in boots:
            faults.append(f"{where}: boot {entry.boot:x} writes again after another: two at once")
        if entry.number != (before.number + 1 if same and before else 1):
            faults.append(f"{where}: number {entry.number} of boot {entry.boot:x} is out of order")
        if not same:
            boots.append(entry.boot)
        before = entry
        records += 1
    return Ledger(records, tuple(boots), tuple(faults))
