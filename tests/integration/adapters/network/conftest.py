"""Namespaces that end with the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """What is made in a test, undone at its end."""
    missing = [program for program in ("ip", "nft", "nsenter") if shutil.which(program) is None]
    if os.geteuid() or missing:
        pytest.skip(f"needs root, and nftables: apt-get install nftables ({missing})")
    async with AsyncExitStack() as made:
        yield made
