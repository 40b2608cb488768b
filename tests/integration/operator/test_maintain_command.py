"""`cobalt maintain --wait` while the API server goes and comes back."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.integration.apiserver.conftest import fresh

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.server import serve
from hypercobalt.runtime import Kube, SystemClock, load_connection

pytestmark = pytest.mark.asyncio(loop_scope="session")

COBALT = Path(sys.executable).with_name("cobalt")


async def report(kubeconfig: Path, status: str, reason: str, message: str) -> None:
    """Write what the operator writes of an Eviction."""
    now = SystemClock().now()
    conditions = set_condition((), "Evicting", status, reason, message, now=now)
    made = Hypervisor(
        metadata=ObjectMeta(name="kvm-1"), status=HypervisorStatus(conditions=conditions)
    )
    async with Kube(load_connection(kubeconfig), field_manager="operator") as kube:
        await kube.apply(made, subresource="status")


async def test_maintain_waits_on_for_an_empty_host_after_the_api_server_was_away(
    tmp_path: Path, certificates: Path
) -> None:
    options = fresh(tmp_path, certificates)
    async with serve(options) as server:
        kubeconfig, port = server.kubeconfig, urlsplit(server.url).port
        async with Kube(load_connection(kubeconfig), field_manager="person") as kube:
            await kube.create(Hypervisor(metadata=ObjectMeta(name="kvm-1")))
        command = await asyncio.create_subprocess_exec(
            *(str(COBALT), "maintain", "kvm-1", "--reason", "disk", "--wait"),
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert command.stdout is not None
        async with asyncio.timeout(20):
            assert await command.stdout.readline() == b"waiting for the operator\n"
        await report(kubeconfig, "True", "Running", "2 instances left")
        async with asyncio.timeout(20):
            assert await command.stdout.readline() == b"2 instances left\n"
    async with serve(replace(options, port=port or 0)):
        await report(kubeconfig, "False", "Succeeded", "Evicted")
        out, err = await asyncio.wait_for(command.communicate(), 30)
    assert (command.returncode, out, err) == (0, b"Evicted\nkvm-1 is empty\n", b"")
