"""The environment by hand: `python -m tests.openstack up|down DATA`."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from hypercobalt.lab.lab import down
from hypercobalt.lab.progress import Progress
from tests.openstack.real import start


def main(order: str, data: Path) -> None:
    """Run the command of the command line."""
    begun = time.monotonic()

    def report(step: str, progress: Progress) -> None:
        sys.stderr.write(f"{time.monotonic() - begun:5.1f} s  {step}: {progress}\n")

    if order == "up":
        made = asyncio.run(start(data, report))
        sys.stdout.write(f"OS_CLIENT_CONFIG_FILE={made.lab.layout.clouds} OS_CLOUD=admin\n")
    elif order == "down":
        asyncio.run(down(data))
    else:
        raise SystemExit(f"{order!r}: up or down")
    report(order, Progress.DONE)


main(sys.argv[1], Path(sys.argv[2]).absolute())
