from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import bootsector
from hypercobalt.lab.guest.bootsector import Program

PROGRAMS: tuple[Program, ...] = get_args(Program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_sector_is_what_a_bios_starts(program: Program) -> None:
    sector = bootsector.image(program)
    assert len(sector) == 512
    assert sector[-2:] == b"\x55\xaa"
    assert f"boot {program}: up\r\n\0".encode() in sector


def test_programs_leave_the_data_behind_them_alone() -> None:
    for program in PROGRAMS:
        code = bootsector.image(program, delay=timedelta(0))[:0x150].rstrip(b"\0")
        assert len(code) < 0x150 - 1, program
        assert code.endswith(bytes.fromhex("f4ebfd")), program  # in the end all idle


def test_the_delay_is_in_ticks_of_the_bios_timer() -> None:
    sector = bootsector.image("idle", delay=timedelta(seconds=10))
    assert int.from_bytes(sector[0x22:0x24], "little") == 182


@pytest.mark.parametrize(
    ("program", "delay", "memory_mib", "name"),
    [
        pytest.param("idle", timedelta(hours=2), 16, "delay", id="too-long"),
        pytest.param("dirty-memory", timedelta(0), 2, "memory_mib", id="too-little-memory"),
        pytest.param("dirty-memory", timedelta(0), 4096, "memory_mib", id="too-much-memory"),
    ],
)
def test_impossible_values_are_refused_by_name(
    program: Program, delay: timedelta, memory_mib: int, name: str
) -> None:
    with pytest.raises(LabError, match=name):
        bootsector.image(program, delay=delay, memory_mib=memory_mib)
