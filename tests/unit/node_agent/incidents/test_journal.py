"""The journal: the last entry of each instance counts, also in a damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.ha.signs import U1, Story, uuid

from hypercobalt.ha.incidents.cases import InstanceRecord
from hypercobalt.ha.incidents.signals import Kind
from hypercobalt.node_agent.incidents.journal import LIMIT, NAME, IncidentJournal, decode, encode


def story() -> InstanceRecord:
    made = Story()
    made.run()
    made.see(Kind.STOPPED_FAILED)
    made.plan()
    return made.get()


async def test_written_entries_are_read_again(tmp_path: Path) -> None:
    crashed, other = story(), InstanceRecord(uuid=uuid(2), name="vm2")
    await IncidentJournal(tmp_path).write([U1, other.uuid], {U1: crashed, other.uuid: other})
    assert IncidentJournal(tmp_path).read() == {U1: crashed, other.uuid: other}


async def test_last_entry_counts_and_removed_instances_stay_removed(tmp_path: Path) -> None:
    journal, first = IncidentJournal(tmp_path), story()
    other = InstanceRecord(uuid=uuid(2))
    await journal.write([U1, other.uuid], {U1: first, other.uuid: other})
    last = replace(first, name="renamed")
    await journal.write([U1, other.uuid], {U1: last})
    assert IncidentJournal(tmp_path).read() == {U1: last}


async def test_journal_without_a_file_is_empty(tmp_path: Path) -> None:
    assert IncidentJournal(tmp_path / "none").read() == {}
    silent = IncidentJournal(None)
    await silent.write([U1], {U1: story()})
    assert silent.read() == {}


@given(st.integers(0, 2000))
def test_torn_tail_loses_only_its_own_line(cut: int) -> None:
    lines = [encode(uuid(n), InstanceRecord(uuid=uuid(n), name=f"vm{n}")) for n in range(8)]
    content = b"".join(lines)[:cut]
    whole = sum(content.count(line) for line in lines)
    # The last line may lack its newline only.
    assert len(decode(content)) - whole in (0, 1)


@pytest.mark.parametrize("torn", [b"0123", b"0123 {", b"\0" * 64])
async def test_line_after_a_torn_one_is_kept(tmp_path: Path, torn: bytes) -> None:
    one, other = (InstanceRecord(uuid=uuid(n), name=f"vm{n}") for n in (1, 2))
    await IncidentJournal(tmp_path).write([one.uuid], {one.uuid: one})
    with (tmp_path / NAME).open("ab") as file:
        file.write(torn)
    journal = IncidentJournal(tmp_path)
    both = journal.read() | {other.uuid: other}
    await journal.write([other.uuid], both)
    assert IncidentJournal(tmp_path).read() == both


async def test_each_write_reaches_the_disk(tmp_path: Path) -> None:
    synced: list[int] = []

    def sync(_descriptor: int) -> None:
        synced.append((tmp_path / NAME).stat().st_size if (tmp_path / NAME).exists() else 0)

    journal = IncidentJournal(tmp_path, sync=sync)
    for name in ("first", "second"):
        await journal.write([U1], {U1: InstanceRecord(uuid=U1, name=name)})
    first = len(encode(U1, InstanceRecord(uuid=U1, name="first")))
    second = len(encode(U1, InstanceRecord(uuid=U1, name="second")))
    assert synced == [0, first, first + second], (
        "the file that then takes its place, its directory with the new name, and a line"
    )


async def test_last_write_of_a_process_has_everything_and_no_older_one_follows(
    tmp_path: Path,
) -> None:
    journal = IncidentJournal(tmp_path)
    old, new = (InstanceRecord(uuid=U1, name=name) for name in ("old", "new"))
    await journal.write([U1], {U1: old})
    journal.close({U1: new})
    await journal.write([U1], {U1: old})
    assert IncidentJournal(tmp_path).read() == {U1: new}


@given(st.integers(0, 600), st.binary(min_size=1, max_size=20))
def test_damage_never_ends_the_agent_and_loses_only_damaged_entries(
    at: int, garbage: bytes
) -> None:
    lines = [encode(uuid(n), InstanceRecord(uuid=uuid(n), name=f"vm{n}")) for n in range(8)]
    content = b"".join(lines)
    found = decode(content[:at] + garbage + content[at + len(garbage) :])
    assert all(one.name == f"vm{int(name[:8])}" for name, one in found.items())
    assert len(found) >= 5


async def test_the_file_stays_bounded(tmp_path: Path) -> None:
    journal, crashed = IncidentJournal(tmp_path), story()
    many = {uuid(n): replace(crashed, uuid=uuid(n)) for n in range(200)}
    for _ in range(20):
        await journal.write(many, many)
        assert (tmp_path / NAME).stat().st_size <= LIMIT
    assert IncidentJournal(tmp_path).read() == many


async def test_entries_are_kept_as_far_as_they_fit(tmp_path: Path) -> None:
    crashed = story()
    many = {uuid(n): replace(crashed, uuid=uuid(n)) for n in range(3000)}
    await IncidentJournal(tmp_path).write(many, many)
    assert (tmp_path / NAME).stat().st_size <= LIMIT
    assert 500 < len(IncidentJournal(tmp_path).read()) < 3000


async def test_a_disk_that_fails_is_logged_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "file"
    place.write_text("no directory")
    journal = IncidentJournal(place)
    for _ in range(3):
        await journal.write([U1], {U1: story()})
    assert caplog.text.count("journal_not_kept") == 1
    assert journal.failing
    place.unlink()
    await journal.write([U1], {U1: story()})
    assert not journal.failing
    assert U1 in IncidentJournal(place).read()


async def test_entry_that_is_too_long_drops_no_other(tmp_path: Path) -> None:
    odd, well = (
        InstanceRecord(uuid=uuid(1), name="x" * LIMIT),
        InstanceRecord(uuid=uuid(2), name="vm2"),
    )
    await IncidentJournal(tmp_path).write([odd.uuid, well.uuid], {odd.uuid: odd, well.uuid: well})
    assert IncidentJournal(tmp_path).read() == {well.uuid: well}
