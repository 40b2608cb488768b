"""The README's session, typed as it stands there: what comes of it is what it shows."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypercobalt.lab.lab import down
from tests.lab.conftest import run
from tests.pages import ROOT, typed

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("able_machine")]

README = (ROOT / "README.md").read_text()
BIN = Path(sys.executable).parent
LONGEST = 90.0  # seconds that a command may take
SETTLED = 60.0  # seconds until the agents have reported what kubectl then shows
VARIES = (
    (r"^ +[\d.]+ s  ", ""),
    (r" --data \S+", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d{8}-\d{6}", "MIGRATION"),
    (r"10\.77\.\d+\.", "10.77.N."),
    (r"\b[\d.]+ ([KMG]i)?B\b", "SIZE"),
    (r"\b(\d+m)?[\d.]+m?s\b", "TIME"),
    (r"\b\d+/s +\d+$", "RATE  ROUND"),
    (r"Debian GNU/Linux 12 \(bookworm\)", platform.freedesktop_os_release()["PRETTY_NAME"]),
    (r" {2,}", "  "),
)
"""Differs from one run to another, or from one machine to another."""


def same(lines: list[str]) -> list[str]:
    """Lines without what varies, in an order of their own: several hosts come up at once."""
    for pattern, stands_for in VARIES:
        lines = [re.sub(pattern, stands_for, line) for line in lines]
    return sorted(lines)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "lab"
    run(down(tmp_path / "lab"))


async def printed(words: list[str], data: Path) -> list[str]:
    """What a command prints; a command of the lab is given its directory."""
    words = ["cobalt", "lab", "up"] if words == ["make", "lab"] else words
    place = ("--data", str(data)) if words[:2] == ["cobalt", "lab"] else ()
    process = await asyncio.create_subprocess_exec(
        *(*words, *place),
        env=os.environ
        | {"KUBECONFIG": str(data / "api/kubeconfig"), "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(LONGEST):
            output = (await process.communicate())[0].decode()
    except TimeoutError:
        process.kill()
        raise AssertionError(f"{' '.join(words)} has not ended") from None
    assert process.returncode == 0, output
    return output.splitlines()


async def settled(words: list[str], data: Path, shown: list[str]) -> list[str]:
    """What a command prints once it prints what is shown, or after a minute."""
    deadline = asyncio.get_running_loop().time() + SETTLED
    while True:
        lines = same(await printed(words, data))
        if lines == same(shown) or asyncio.get_running_loop().time() > deadline:
            return lines
        await asyncio.sleep(0.5)


async def test_the_session_of_the_readme_comes_out_as_it_is_shown(data: Path) -> None:
    for words, shown in typed(README):
        if words in (["make", "test"], ["export", *words[1:]]):
            continue
        if words[0] == "kubectl":
            assert await settled(words, data, shown) == same(shown)
            continue
        lines = await printed(words, data)
        whole = [line for line in shown if line.strip() != "…"]  # lines that are left out
        assert set(same(whole)) <= set(same(lines))
        if words[1] == "evict":  # its last line stands below the picture
            assert lines[-1] in README.splitlines()
    assert not data.exists()
