"""Following the entries of a directory."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from hypercobalt.adapters.host.entries import follow_directory

LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=20)


async def test_new_entry_ends_the_wait_and_nothing_else_does(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        with follow_directory(directory) as changed:
            await changed(SHORT)
            (tmp_path / "a").touch()
            await changed(LONG)
            waiting = asyncio.create_task(changed(LONG))
            await asyncio.sleep(0)
            assert not waiting.done()
            (tmp_path / "a").rename(tmp_path / "b")
            await waiting
    finally:
        os.close(directory)
