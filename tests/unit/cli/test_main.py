"""The `cobalt` command as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

INTERRUPT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "hypercobalt.cli.crds":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


COBALT = Path(sys.executable).with_name("cobalt")


def test_closed_pipe_is_no_fault() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([COBALT, "crds"], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_ctrl_c_while_a_command_is_loaded_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([COBALT, "crds"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
