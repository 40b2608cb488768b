"""`cobalt node-agent` as a process, on a host that is made up."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import httpx2
import pytest
from tests.integration.agent.process import SECONDS, Process, lines_until, started
from tests.integration.apiserver.conftest import no_check
from tests.integration.node_agent.conftest import NODE, create, refusing_instances, until

from hypercobalt.apiserver.server import Server
from hypercobalt.runtime import Kube
from hypercobalt.runtime.guard import METRICS

pytestmark = pytest.mark.asyncio(loop_scope="module")

COBALT = str(Path(sys.executable).with_name("cobalt"))


def agent(*arguments: str) -> contextlib.AbstractAsyncContextManager[Process]:
    return started(COBALT, "node-agent", *arguments, env={"EMULATE": "1"})


async def test_agent_runs_from_start_to_stop(server: Server, kube: Kube) -> None:
    await create(kube)
    arguments = ("--kubeconfig", str(server.kubeconfig), "--node", NODE)
    free = "127.0.0.1:0"
    pages = ("--health-probe-bind-address", free, "--metrics-bind-address", free)
    async with agent(*arguments, *pages, "--metrics-secure=false") as process:
        (*_, serving) = await lines_until(process, "endpoints_opened")
        stored = await until(kube, lambda h: h.status.numInstances == 2)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{serving['port']}") as client:
            ready = await client.get("/readyz")
            metrics = (await client.get("/metrics")).text
        process.terminate()
        code = await asyncio.wait_for(process.wait(), SECONDS)

    assert [instance.active for instance in stored.status.instances] == [True, False]
    assert ready.status_code == 200, ready.text
    assert "libvirt_up 1.0" in metrics
    assert "rest_client_requests_total" in metrics
    assert code == 0


async def test_readiness_names_why_the_status_is_refused(server: Server, kube: Kube) -> None:
    await create(kube)
    arguments = ("--kubeconfig", str(server.kubeconfig), "--node", NODE)
    async with (
        refusing_instances(kube) as repair,
        agent(*arguments, "--health-probe-bind-address", "127.0.0.1:0") as process,
    ):
        (*_, serving) = await lines_until(process, "endpoints_opened")
        await lines_until(process, "status_write_refused")
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{serving['port']}") as client:
            refused = await client.get("/readyz")
            await repair()
            async with asyncio.timeout(SECONDS):
                while (await client.get("/readyz")).status_code != 200:
                    pass  # each turn is a request

    assert refused.status_code == 500
    assert "status" in refused.text
    assert "no instances for now" in refused.text


async def test_metrics_are_for_readers_with_a_token_unless_a_flag_opens_them(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    arguments = ("--kubeconfig", str(server.kubeconfig), "--node", NODE)
    pages = ("--health-probe-bind-address", "0", "--metrics-bind-address", "127.0.0.1:0")
    async with agent(*arguments, *pages) as process:
        (*_, serving) = await lines_until(process, "endpoints_opened")
        async with httpx2.AsyncClient(verify=no_check()) as client:
            answer = await client.get(f"https://127.0.0.1:{serving['port']}/metrics")
        process.terminate()
        assert await asyncio.wait_for(process.wait(), SECONDS) == 0

    assert (answer.status_code, answer.text) == (401, f"show a token for the audience {METRICS}\n")


async def test_flags_of_the_existing_agent_are_accepted(server: Server, kube: Kube) -> None:
    await create(kube)
    arguments = ("--kubeconfig", str(server.kubeconfig), "--node", NODE)
    pages = ("--health-probe-bind-address", "0", "--metrics-bind-address", "0")
    theirs = (
        *("--namespace", "default"),  # where its Lease can be
        *("--leader-elect", "--enable-http2", "--metrics-secure=false", "--zap-devel=false"),
        *("--zap-log-level=debug", "--zap-encoder=json"),
        *("--zap-stacktrace-level=error", "--zap-time-encoding=iso8601"),
    )
    async with agent(*arguments, *pages, *theirs) as process:
        lines = await lines_until(process, "lease_acquired")
        process.terminate()
        assert await asyncio.wait_for(process.wait(), SECONDS) == 0

    assert "debug" in {line["level"] for line in lines}


async def test_version_is_printed_before_arguments_are_checked() -> None:
    process = await asyncio.create_subprocess_exec(
        COBALT,
        *("node-agent", "--version", "--metrics-bind-address", "here"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0
    assert out.decode().startswith("hypercobalt-node-agent ")


async def test_a_second_agent_of_the_host_stands_by_until_the_first_has_ended(
    server: Server, kube: Kube
) -> None:
    await create(kube)
    where = ("--kubeconfig", str(server.kubeconfig), "--node", NODE, "--namespace", "default")
    flags = (*where, "--health-probe-bind-address", "0", "--metrics-bind-address", "0")
    async with agent(*flags) as one:
        await lines_until(one, "lease_acquired")
        async with agent(*flags) as other:
            (*_, waiting) = await lines_until(other, "lease_held_by_another_agent")
            one.terminate()
            assert await asyncio.wait_for(one.wait(), SECONDS) == 0
            (*_, taken) = await lines_until(other, "lease_acquired")

    assert waiting["holder"] != taken["holder"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--migration-retention", "soon"], "--migration-retention 'soon'"),
        (["--migration-count", "-1"], "--migration-count -1"),
        (["--metrics-bind-address", "here"], "--metrics-bind-address 'here'"),
        (["--kubeconfig", "/no/such/file"], "--kubeconfig"),
        (["--units", "no unit"], "no unit"),
        (["--zap-log-level", "loud"], "--zap-log-level 'loud'"),
    ],
)
async def test_unusable_arguments_are_named(
    server: Server, arguments: list[str], text: str
) -> None:
    given = ["--kubeconfig", str(server.kubeconfig), "--health-probe-bind-address", "127.0.0.1:0"]
    if "--metrics-bind-address" not in arguments:
        given += ["--metrics-bind-address", "0"]
    async with agent(*given, *arguments) as process:
        _, errors = await asyncio.wait_for(process.communicate(), SECONDS)

    assert process.returncode == 2
    assert text in errors.decode()
    assert "Traceback" not in errors.decode()
