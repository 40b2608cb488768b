from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hypercobalt.lab.guest import ledger
from hypercobalt.lab.guest.ledger import FIRST_SECTOR, RECORD_BYTES


def record(index: int, boot: int, number: int) -> bytes:
    place = FIRST_SECTOR + 8 * index
    words = [
        int.from_bytes(b"LDRG", "little"),
        place,
        boot & 0xFFFFFFFF,
        boot >> 32,
        *[number] * 1019,
    ]
    return struct.pack("<1024I", *words, sum(words) % 2**32)


EMPTY = bytes(RECORD_BYTES)
A, B = 0xA00000001, 0xB00000002


def written(*boots: int) -> list[bytes]:
    """Records as those boots, named one for each record, would write them."""
    counts = dict.fromkeys(boots, 0)
    made: list[bytes] = []
    for index, boot in enumerate(boots):
        counts[boot] += 1
        made.append(record(index, boot, counts[boot]))
    return made


def read(tmp_path: Path, *blocks: bytes) -> ledger.Ledger:
    image = tmp_path / "disk"
    image.write_bytes(bytes(FIRST_SECTOR * 512) + b"".join(blocks) + EMPTY * 3)
    return ledger.read(image)


def test_an_empty_disk_holds_nothing(tmp_path: Path) -> None:
    assert read(tmp_path) == ledger.Ledger(0, (), ())


def test_boots_that_follow_each_other_are_in_order(tmp_path: Path) -> None:
    assert read(tmp_path, *written(A, A, B, B, B)) == ledger.Ledger(5, (A, B), ())


def test_the_last_record_of_a_boot_may_be_cut_off(tmp_path: Path) -> None:
    first, second, third = written(A, A, B)
    torn = second[:1024] + EMPTY[1024:]
    assert read(tmp_path, first, torn, third).faults == ()


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        pytest.param([written(A, A)[0][:1024] + EMPTY[1024:], written(A, A)[1]], "torn", id="torn"),
        pytest.param([written(A)[0], EMPTY, written(A, A, A)[2]], "lost", id="hole"),
        pytest.param(written(A, B, A), "two at once", id="interleaved"),
        pytest.param([written(A)[0], record(1, A, 3)], "out of order", id="number-skipped"),
        pytest.param([written(A)[0], record(1, B, 2)], "out of order", id="begun-elsewhere"),
        pytest.param([written(A)[0], record(5, A, 2)], "written for sector", id="misplaced"),
    ],
)
def test_fault_of_a_ledger_is_found(tmp_path: Path, blocks: list[bytes], fault: str) -> None:
    assert any(fault in one for one in read(tmp_path, *blocks).faults)


def test_records_are_counted_whatever_is_in_them(tmp_path: Path) -> None:
    image = tmp_path / "disk"
    torn = record(1, A, 2)[:600] + bytes(RECORD_BYTES - 600)
    image.write_bytes(bytes(FIRST_SECTOR * 512) + record(0, A, 1) + torn + EMPTY)
    assert ledger.count(image) == 2
