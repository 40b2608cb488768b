"""`cobalt operator` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.conformance.real import TOKEN
from tests.integration.apiserver.conftest import no_check
from tests.integration.operator.conftest import DEADLINE, REAL, add_node, until_settled

from hypercobalt.api.coordination import Lease
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADMIN, STRANGER = (TOKEN, "conformance-bob") if REAL else ("secret-admin", "secret-viewer")
FREE, ELSEWHERE = "127.0.0.1:0", "127.0.0.2:0"  # one address would have one page for both
LEASE = "4c28796a.cloud.sap"


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []

    async def line(self, event: str) -> dict[str, object]:
        """The next line of an event."""
        assert self.process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            while True:
                text = await self.process.stderr.readline()
                assert text, f"ended after {self.lines}"
                self.lines.append(json.loads(text))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]


@contextlib.asynccontextmanager
async def cobalt(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("cobalt")),
        "operator",
        "--compute=none",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.terminate()  # it gives its lease back, or the next one waits for it
        await asyncio.wait_for(process.communicate(), DEADLINE)


async def scraped(running: Process, kube: Kube, name: str, scheme: str) -> list[httpx2.Response]:
    """What the metrics page answers to nobody, somebody unknown, a stranger and an administrator.

    Raises:
        AssertionError: the health pages are not as they should be.
    """
    health = (await running.line("serving_endpoints"))["port"]
    metrics = (await running.line("serving_endpoints"))["port"]
    await add_node(kube, name)
    await until_settled(kube, name)
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{health}") as plain:
        assert (await plain.get("/readyz")).status_code == 200
        assert (await plain.get("/metrics")).status_code == 404
    url = f"{scheme}://127.0.0.2:{metrics}"
    async with httpx2.AsyncClient(base_url=url, verify=no_check()) as scraper:
        headers = [{"authorization": f"Bearer {token}"} for token in ("wrong", STRANGER, ADMIN)]
        return [await scraper.get("/metrics", headers=shown) for shown in ({}, *headers)]


def chart_flags(kubeconfig: Path, *, secure: bool) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        "--leader-elect",
        f"--metrics-bind-address={ELSEWHERE}",
        f"--metrics-secure={str(secure).lower()}",
        f"--health-probe-bind-address={FREE}",
        "--agent-namespaces=agents, more-agents,agents",
        "--certificate-namespace=monsoon3",
        "--certificate-issuer-name=some-issuer",
        "--label-selector=",
        "--zap-log-level=info",
        "--zap-encoder=json",
        "--zap-devel=false",
        "--zap-time-encoding=rfc3339",
    )


async def test_from_start_to_stop_with_the_flags_of_the_existing_chart(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with cobalt(*chart_flags(kubeconfig, secure=False)) as running:
        *_, answer = await scraped(running, kube, name, "http")
        lease = await kube.get(Lease, LEASE, kube.namespace)
        running.process.terminate()
        code = await asyncio.wait_for(running.process.wait(), DEADLINE)
    for controller in ("hypervisor", "ready", "HypervisorTaint", "certificate", "maintenance"):
        assert f'controller_runtime_reconcile_total{{controller="{controller}"' in answer.text
    assert lease is not None
    assert lease.spec.holderIdentity
    released = await kube.get(Lease, LEASE, kube.namespace)
    assert released is not None
    assert (code, released.spec.holderIdentity) == (0, "")


async def test_metrics_are_for_those_whom_the_api_server_allows_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with cobalt(*chart_flags(kubeconfig, secure=True)) as running:
        answers = await scraped(running, kube, name, "https")
    # The embedded server reviews no tokens: then nobody is let in.
    expected = [401, 401, 403, 200] if REAL else [401, 500, 500, 500]
    assert [answer.status_code for answer in answers] == expected
    assert ["controller_runtime" in answer.text for answer in answers] == [
        status == 200 for status in expected
    ]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ((), "--agent-namespaces is empty"),
        (("--agent-namespaces", " , "), "--agent-namespaces is empty"),
        (("--agent-namespaces", "a", "--certificate-namespace", ""), "--certificate-namespace"),
        (("--agent-namespaces", "a", "--certificate-issuer-name", ""), "--certificate-issuer-name"),
        (("--agent-namespaces", "a", "--label-selector", "a=b=c"), "--label-selector"),
        (("--agent-namespaces", "a", "--metrics-bind-address", "here"), "--metrics-bind-address"),
        (("--agent-namespaces", "a", "--zap-log-level", "loud"), "--zap-log-level"),
    ],
)
async def test_what_cannot_be_used_is_named(
    kubeconfig: Path, flags: tuple[str, ...], text: str
) -> None:
    everywhere = ("--health-probe-bind-address", FREE)
    async with cobalt("--kubeconfig", str(kubeconfig), *everywhere, *flags) as running:
        _, errors = await asyncio.wait_for(running.process.communicate(), DEADLINE)
    assert running.process.returncode == 1
    assert text in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_version_is_printed_before_anything_is_checked() -> None:
    async with cobalt("--version") as running:
        out, _ = await asyncio.wait_for(running.process.communicate(), DEADLINE)
    assert running.process.returncode == 0
    assert out.decode().startswith("hypercobalt-operator ")
