"""Modules that processes on every host must not import."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"cyclopts", "pygments", "rich", "sqlite3", "unittest", "uvicorn"}


def test_agent_imports_neither_the_terminal_nor_the_server() -> None:
    code = "import sys, hypercobalt.runtime; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    names = set(loaded.stdout.split())
    assert "hypercobalt.runtime.manager" in names
    assert not names & HEAVY
