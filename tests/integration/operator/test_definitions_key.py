"""From the operator's Secret to the key in every Hypervisor, and back: what was sealed is read."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.conformance.permitted import ACCOUNT
from tests.integration.operator.conftest import DEADLINE, DEFAULTS, add_node, until
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.core import Secret
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions, pack
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.sealed_definitions import SealedDefinitions, SealedDefinitionsSpec
from hypercobalt.api.sealing import Owner, PrivateKey, PublicKey
from hypercobalt.compute.connect import ReadDefinitions
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.port import ComputeService
from hypercobalt.errors import TransientError
from hypercobalt.operator.assembly import add_controllers
from hypercobalt.operator.definitions import publishing
from hypercobalt.operator.definitions.keys import CURRENT, ring
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "op-hypercobalt-operator-definitions-key"  # as the chart has it, with its rights
CONTENT = HostDefinitions("b", "m", {"u": DomainDefinition("vm", "<domain/>", active=True)})


class Published:
    """A running operator with its Secret, and how it reads definitions."""

    def __init__(self, person: Kube, manager: Manager, read: ReadDefinitions) -> None:
        self.person, self.manager, self.read = person, manager, read
        self.namespace = manager.kube.namespace

    async def secret(self) -> Secret:
        found = await self.person.get(Secret, NAME, self.namespace)
        assert found
        return found

    async def rotate(self, **keys: PrivateKey) -> None:
        found = await self.secret()
        data = {f"{name}.pem": key.pem() for name, key in keys.items()}
        await self.person.patch(found, replace(found, data=data))

    async def publishes(self, host: str, key: PublicKey) -> Hypervisor:
        return await until(
            self.person, Hypervisor, host, lambda it: it.status.definitionsKey == key.text
        )

    async def store(self, host: str, key: PublicKey, uid: str) -> None:
        """Write what the agent of a host would."""
        sealed = base64.b64encode(key.seal(pack(CONTENT).data, Owner(host, uid))).decode()
        made = SealedDefinitions(
            metadata=ObjectMeta(name=host, namespace="monsoon3"),
            spec=SealedDefinitionsSpec(key=key.id, hypervisorUID=uid, sealed=sealed),
        )
        await self.person.apply(made, force=True)


@asynccontextmanager
async def running(
    kubeconfig: Path, person: Kube, name: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Published]:
    """An operator that has published its key to a host."""
    monkeypatch.setattr(publishing, "REREAD", timedelta(milliseconds=50))
    account, reads = kubeconfig.with_name(ACCOUNT), list[ReadDefinitions]()
    mine = account if account.exists() else kubeconfig

    def connect(
        _: Callable[[], Iterable[Hypervisor]], __: LeaderGuard, read: ReadDefinitions | None
    ) -> ComputeService:
        assert read
        reads.append(read)
        return FakeCompute(SystemClock().now)

    metrics = Metrics()
    async with Kube(load_connection(mine), metrics=metrics) as client:
        await person.delete(Secret, NAME, client.namespace)
        manager = Manager(client, metrics=metrics)
        options = dataclasses.replace(DEFAULTS, definitions_secret=NAME)
        add_controllers(manager, options, metrics, connect)
        task = asyncio.create_task(manager.run())
        try:
            await add_node(person, name)
            await until(person, Hypervisor, name, lambda it: it.status.definitionsKey is not None)
            yield Published(person, manager, reads[0])
        finally:
            manager.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)
            await person.delete(Secret, NAME, client.namespace)


async def test_key_is_made_published_rotated_and_kept_for_what_was_sealed(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(kubeconfig, kube, name, monkeypatch) as site:
        (made,) = (ring(await site.secret()).current,)
        own = await site.publishes(name, made.public)
        with pytest.raises(TransientError, match=rf"SealedDefinitions {name} in .*monsoon3"):
            await site.read.of(name)
        await site.store(name, made.public, own.metadata.uid)
        assert replace(await site.read.of(name), version="") == CONTENT

        after = PrivateKey.make()
        await site.rotate(current=after, before=made)
        await site.publishes(name, after.public)
        assert replace(await site.read.of(name), version="") == CONTENT

        await site.rotate(current=after)
        text = f"{name} are sealed for key {made.public.id}, which the operator does not have"

        async def is_lost() -> bool:
            with contextlib.suppress(TransientError):
                await site.read.of(name)
                return False
            return True

        await eventually(is_lost, seconds=DEADLINE)
        with pytest.raises(TransientError, match=text):
            await site.read.of(name)
        await site.store(name, after.public, own.metadata.uid)
        assert replace(await site.read.of(name), version="") == CONTENT
        await kube.delete(SealedDefinitions, name, "monsoon3")


async def test_secret_without_a_key_is_reported_and_takes_no_published_key_away(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(kubeconfig, kube, name, monkeypatch) as site:
        good = ring(await site.secret()).current
        found = await site.secret()
        await kube.patch(found, replace(found, data={CURRENT: b"no key"}))
        problem = site.manager._ready["definitions-key"]
        await eventually(lambda: "current.pem" in (problem() or ""), seconds=DEADLINE)
        stored = await kube.get(Hypervisor, name)
        assert stored
        assert stored.status.definitionsKey == good.public.text
        await site.rotate(current=good)
        await eventually(lambda: problem() is None, seconds=DEADLINE)


async def test_key_that_another_client_has_written_is_replaced(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(kubeconfig, kube, name, monkeypatch) as site:
        good = ring(await site.secret()).current
        theirs = PrivateKey.make().public
        for text in (theirs.text, None):
            await kube.merge_patch(
                Hypervisor, name, {"status": {"definitionsKey": text}}, subresource="status"
            )
            await site.publishes(name, good.public)
