"""virt-controller on the embedded API server, with KubeVirt's definition."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace as with_fields
from tests.integration.apiserver.conftest import certificates
from tests.integration.controllers import abandoned_sockets, embedded, no_crashed_pass
from tests.integration.virt.controller.world import Lab

from hypercobalt.api.core import Namespace
from hypercobalt.api.kubevirt.definition import manifest
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Kube, load_connection

__all__ = ["abandoned_sockets", "certificates", "no_crashed_pass"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kubeconfig(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> AsyncIterator[Path]:
    """The kubeconfig of one server for the whole session."""
    async with embedded(tmp_path_factory.mktemp("api"), certificates, manifest()) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def lab(kubeconfig: Path) -> AsyncIterator[Lab]:
    """A namespace of the test's own, empty again afterwards: the controllers see all of them."""
    name = f"lab-{uuid.uuid4().hex[:8]}"
    async with Kube(load_connection(kubeconfig), field_manager="person") as kube:
        await kube.create(Namespace(metadata=ObjectMeta(name=name)))
        yield Lab(kube, kubeconfig, name)
        for vmi in (await kube.list(VirtualMachineInstance, name)).items:
            await kube.delete(VirtualMachineInstance, vmi.metadata.name, name)
            await kube.modify(
                VirtualMachineInstance,
                vmi.metadata.name,
                lambda v: with_fields(v, metadata=with_fields(v.metadata, finalizers=())),
                name,
            )
        for pod in (await kube.list(Pod, name)).items:
            await kube.delete(Pod, pod.metadata.name, name, grace=timedelta())
