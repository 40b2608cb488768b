"""Takes an environment down when its owner has ended, however that was.

usage: python -m tests.openstack.reaper DATA, with a pipe on stdin that only the owner can write
to: the kernel closes it when the owner is gone, also by kill -9.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hypercobalt.lab.lab import down

_CHECKOUT = Path(__file__).parents[2]


@contextmanager
def reaped(data: Path) -> Generator[None]:
    """Have an environment taken down at the end, or when this process dies before.

    Raises:
        AssertionError: something of it is left.
    """
    argv = (sys.executable, "-m", "tests.openstack.reaper", str(data))
    with subprocess.Popen(argv, cwd=_CHECKOUT, stdin=subprocess.PIPE, start_new_session=True) as it:
        yield
    assert it.returncode == 0, f"the environment in {data} could not be taken down"


if __name__ == "__main__":
    sys.stdin.buffer.read()
    asyncio.run(down(Path(sys.argv[1])))
