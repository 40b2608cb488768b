"""The processes of a lab: each is found, whatever it does, and `down` ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.lab import processes
from hypercobalt.lab.lab import down


@pytest.fixture
async def lab_id() -> AsyncIterator[str]:
    made = uuid.uuid4().hex
    yield made
    await processes.kill(made)


def program(file: Path, script: str) -> Path:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


async def test_a_process_is_found_also_while_it_becomes_another(
    lab_id: str, tmp_path: Path
) -> None:
    again = program(tmp_path / "again", 'exec "$0"')
    pid = await processes.spawn((str(again),), lab_id=lab_id, role="again", log=tmp_path / "log")

    for _ in range(100):
        assert [found.pid for found in processes.find(lab_id, "again")] == [pid]


async def test_a_process_without_any_environment_belongs_to_no_lab(lab_id: str) -> None:
    bare = await asyncio.create_subprocess_exec("sleep", "60", env={})
    try:
        assert processes.find(lab_id) == ()
    finally:
        bare.kill()
        await bare.wait()


@pytest.mark.timed
@pytest.mark.usefixtures("able_machine")
async def test_down_ends_what_a_killed_up_was_about_to_change(tmp_path: Path) -> None:
    data, begun = tmp_path / "lab", tmp_path / "begun"
    os.mkfifo(begun)
    (tmp_path / "bin").mkdir()
    slow = f'case "$1 $2" in "rule add") echo $$ >{begun}; exec sleep 60; esac'
    program(tmp_path / "bin/ip", f'{slow}\nexec /sbin/ip "$@"')
    script = (
        "import asyncio, sys; from pathlib import Path; from hypercobalt.lab.lab import Lab\n"
        "asyncio.run(Lab.make(Path(sys.argv[1])))\n"
    )
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(data)),
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    orphan = int(await asyncio.to_thread(begun.read_text))
    up.send_signal(signal.SIGKILL)
    await up.wait()

    assert await down(data)

    assert await processes.ended(orphan, timedelta(seconds=1))
    assert not data.exists()


async def test_state_that_a_killed_up_has_written_first_is_removed_too(tmp_path: Path) -> None:
    data = tmp_path / "lab"
    data.mkdir()
    (data / "state.new").write_text("{")

    assert not await down(data)

    assert not data.exists()
