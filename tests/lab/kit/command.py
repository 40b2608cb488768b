"""`cobalt lab` as a process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

COBALT = str(Path(sys.executable).parent / "cobalt")


async def cobalt(*arguments: str, data: Path, code: int = 0) -> str:
    """What `cobalt lab …` prints on both streams."""
    process = await asyncio.create_subprocess_exec(
        *(COBALT, "lab", *arguments, "--data", str(data)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await process.communicate())[0].decode()
    assert process.returncode == code, printed
    return printed
