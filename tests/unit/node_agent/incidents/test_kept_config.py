"""The last valid configuration over a restart, also with a damaged file."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.ha.incidents.config import KEY, InvalidConfigError, hash_of, parse
from hypercobalt.node_agent.incidents.journal import IncidentJournal
from hypercobalt.node_agent.incidents.kept_config import NAME, KeptConfig, Valid, decode, encode

ABOUT = "agents/hypercobalt-ha"


def valid(document: str) -> Valid:
    data = {KEY: document}
    return Valid(parse(data), document, hash_of(data))


DRY = valid("dryRun: true  # until \u201cTuesday\u201d")


def test_kept_configuration_is_read(tmp_path: Path) -> None:
    KeptConfig(tmp_path / "new", ABOUT).write(DRY)
    assert KeptConfig(tmp_path / "new", ABOUT).read() == DRY


def test_newest_configuration_counts_and_a_deleted_one_stays_deleted(tmp_path: Path) -> None:
    kept = KeptConfig(tmp_path, ABOUT)
    for one in (DRY, valid("")):
        kept.write(one)
        assert KeptConfig(tmp_path, ABOUT).read() == one
    for _ in range(2):
        kept.write(None)
        assert list(tmp_path.iterdir()) == []


def test_configuration_is_not_kept_without_a_directory() -> None:
    kept = KeptConfig(None, ABOUT)
    kept.write(DRY)
    assert kept.read() is None


def test_file_has_the_mode_of_the_journal(tmp_path: Path) -> None:
    KeptConfig(tmp_path, ABOUT).write(DRY)
    IncidentJournal(tmp_path).close({})
    assert len({file.stat().st_mode for file in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(b"", "damaged", id="empty"),
        pytest.param(b"\0" * 4096, "damaged", id="zeros after a power cut"),
        pytest.param(b'{"config": "agents/hypercobalt-ha"}', "damaged", id="a field is missing"),
        pytest.param(
            b'{"config": "agents/hypercobalt-ha", "hash": "00000000", "document": "dryRun: true"}',
            "damaged",
            id="the hash of another document",
        ),
        pytest.param(
            b'{"config": "agents/other", "hash": "ab06ec9d", "document": "dryRun: true"}',
            "of ConfigMap agents/other",
            id="another --ha-config",
        ),
        pytest.param(
            b'{"config": "agents/hypercobalt-ha", "hash": "61a7ddfc", "document": "dryRan: true"}',
            "dryRan",
            id="a key that this version does not have",
        ),
    ],
)
def test_file_that_cannot_be_used_counts_as_missing(
    tmp_path: Path, content: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert KeptConfig(tmp_path, ABOUT).read() is None
    assert "kept_config_ignored" in caplog.text
    assert why in caplog.text


@given(st.integers(0, 120), st.binary(min_size=1, max_size=8))
def test_damage_never_gives_another_document(at: int, garbage: bytes) -> None:
    content = encode(DRY, ABOUT)
    with suppress(InvalidConfigError):
        assert decode(content[:at] + garbage + content[at + len(garbage) :], ABOUT) == DRY


def test_file_is_written_to_the_disk_only_when_it_changes(tmp_path: Path) -> None:
    synced = list[int]()
    kept = KeptConfig(tmp_path, ABOUT, sync=synced.append)
    kept.write(DRY)
    assert len(synced) == 2, "the file, and its name"
    again = KeptConfig(tmp_path, ABOUT, sync=synced.append)
    again.read()
    again.write(DRY)
    assert len(synced) == 2
    again.write(None)
    assert len(synced) == 3


def test_older_configuration_is_removed_where_a_newer_one_could_not_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = list[bool]()

    def sync(descriptor: int) -> None:
        if full and not Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(errno.ENOSPC, "No space left on device")

    kept = KeptConfig(tmp_path, ABOUT, sync=sync)
    kept.write(valid("dryRun: false"))
    full.append(True)
    for _ in range(3):
        kept.write(DRY)
    assert KeptConfig(tmp_path, ABOUT).read() is None
    assert kept.failing
    assert caplog.text.count("config_not_kept") == 1
    full.clear()
    kept.write(DRY)
    assert not kept.failing
    assert KeptConfig(tmp_path, ABOUT).read() == DRY


def test_directory_that_cannot_be_used_does_not_stop_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "file"
    place.write_text("no directory")
    kept = KeptConfig(place, ABOUT)
    assert kept.read() is None
    kept.write(DRY)
    kept.write(None)
    assert kept.failing
    assert "config_not_kept" in caplog.text
