"""virt-handler on the embedded API server, with launchers that the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
import pytest_asyncio
from tests.integration.apiserver.conftest import certificates
from tests.integration.controllers import abandoned_sockets, no_crashed_pass
from tests.integration.virt.controller.conftest import kubeconfig, lab
from tests.integration.virt.controller.world import NODE, Lab

from hypercobalt.api.core import Node

__all__ = ["abandoned_sockets", "certificates", "kubeconfig", "lab", "no_crashed_pass"]


@pytest.fixture
def pods() -> Iterator[Path]:
    """The kubelet's directory of pods; short: a Unix socket's path has 107 bytes."""
    directory = Path(mkdtemp(prefix="hv"))
    yield directory
    rmtree(directory)


@pytest_asyncio.fixture(loop_scope="session")
async def node_goes(lab: Lab) -> AsyncIterator[None]:
    """Leave no Node on the session's server, whoever made it."""
    yield
    if await lab.kube.get(Node, NODE) is not None:
        await lab.kube.delete(Node, NODE)
