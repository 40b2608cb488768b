"""The contract of `Libvirt`, on a real libvirtd with QEMU."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hypercobalt.adapters.libvirt.connection import connect
from tests.integration.libvirt.contract import DaemonWorld, QemuContract, World
from tests.lab.kit.libvirtd import Daemon


class TestLibvirtd(QemuContract):
    @pytest.fixture
    async def world(self, libvirtd: Daemon) -> AsyncIterator[World]:
        async with connect(libvirtd.uri) as subject:
            world = DaemonWorld(
                subject,
                libvirtd.uri,
                lambda name, uuid, mib: libvirtd.guest(name, uuid_=uuid, memory=f"{mib} MiB"),
            )
            yield world
            world.close()
