"""A lab of its own for the tests of a module, with everything that a lab has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.pytest_plugin import run
from hypercobalt.lab.setup import Setup


def served_lab(data: Path, *, hosts: int) -> Iterator[Lab]:
    """The lab, up; gone afterwards."""
    try:
        yield run(_make(data, hosts))
    finally:
        run(down(data))


async def _make(data: Path, hosts: int) -> Lab:
    lab = await Lab.make(data, api_port=0)
    await lab.up(Setup(hosts=hosts))
    return lab
