"""One switch, and one central OVN, for all tests of a worker, emptied between them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.ovs.central import SOUTHBOUND, Central
from tests.integration.ovs.daemons import Daemons


@pytest.fixture(scope="session")
def running_daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    if shutil.which("ovs-vswitchd") is None or os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("Open vSwitch and root are needed here: make prepare")
        pytest.skip("needs root, and Open vSwitch: make prepare")
    folder = Path(tempfile.mkdtemp(prefix="ovs-"))  # a socket's path has 107 characters at most
    daemons = Daemons(folder)
    try:
        daemons.create()
        yield daemons
    finally:
        daemons.close()
        shutil.rmtree(folder)


@pytest.fixture
def daemons(running_daemons: Daemons) -> Iterator[Daemons]:
    """A switch without bridges, both of whose daemons run."""
    yield running_daemons
    running_daemons.reset()


@pytest.fixture(scope="session")
def running_central(running_daemons: Daemons) -> Iterator[Central]:
    central = Central(Path(tempfile.mkdtemp(prefix="ovn-")), running_daemons)
    try:
        central.create()
        yield central
    finally:
        central.close()
        shutil.rmtree(central.folder)


@pytest.fixture
def central(running_central: Central, daemons: Daemons) -> Iterator[Central]:
    """Give a central OVN with a connected controller; the southbound database runs afterwards."""
    del daemons
    running_central.join()
    yield running_central
    if SOUTHBOUND not in running_central.running:
        running_central.start(SOUTHBOUND)
    running_central.resume(SOUTHBOUND)
    running_central.leave()
