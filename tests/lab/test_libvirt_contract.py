"""The contract of `Libvirt` and `Control`, on a real libvirtd: QEMU and libvirt's test driver."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hypercobalt.adapters.libvirt.connection import connect
from tests.integration.libvirt.contract import Contract, DaemonWorld, QemuContract, World
from tests.lab.kit.libvirtd import Daemon


class TestQemu(QemuContract):
    @pytest.fixture
    async def world(self, libvirtd: Daemon) -> AsyncIterator[World]:
        def document(name: str, uuid: str, memory_mib: int) -> str:
            return libvirtd.guest(name, uuid_=uuid, memory=f"{memory_mib} MiB")

        async with connect(libvirtd.uri) as subject:
            yield DaemonWorld(subject, libvirtd.uri, document)


class TestTestDriver(Contract):
    """A driver that lacks calls and events that QEMU's has."""

    @pytest.fixture
    async def world(self, libvirtd: Daemon) -> AsyncIterator[World]:
        uri = libvirtd.uri.replace("qemu+unix:///system", "test+unix:///default")

        def document(name: str, uuid: str, memory_mib: int) -> str:
            return (
                f"<domain type='test'><name>{name}</name><uuid>{uuid}</uuid>"
                f"<memory unit='MiB'>{memory_mib}</memory><os><type>hvm</type></os></domain>"
            )

        async with connect(uri) as subject:
            yield DaemonWorld(subject, uri, document)
