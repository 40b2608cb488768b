"""The contract, on the libvirt in memory; tests/lab/test_libvirt_contract.py has the real one."""

from __future__ import annotations

from uuid import uuid4

import pytest

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from tests.integration.libvirt.contract import MIB, QemuContract, World


class FakeWorld(World):
    def __init__(self) -> None:
        self.fake = FakeLibvirt()
        super().__init__(self.fake)
        self._uuids: dict[str, str] = {}

    async def define(self, name: str, *, memory_mib: int = 1) -> str:
        uuid = self._uuids.setdefault(name, str(uuid4()))
        self.fake.add(
            Domain(
                uuid,
                name,
                active=False,
                state=DomainState.SHUTOFF,
                memory_bytes=memory_mib * MIB,
                vcpus=1,
            )
        )
        return uuid

    async def start(self, uuid: str) -> None:
        self.fake.start(uuid)

    async def suspend(self, uuid: str) -> None:
        self.fake.suspend(uuid)

    async def resume(self, uuid: str) -> None:
        await self.fake.resume(uuid)

    async def destroy(self, uuid: str) -> None:
        await self.fake.destroy(uuid)

    async def undefine(self, uuid: str) -> None:
        await self.fake.undefine(uuid)


class TestFake(QemuContract):
    @pytest.fixture
    def world(self) -> World:
        return FakeWorld()
