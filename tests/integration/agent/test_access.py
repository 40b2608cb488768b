"""People at an agent, on the embedded API server: who is admitted, and that it is seen."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from tests.contracts import agent_access
from tests.contracts.agent_access import (
    CASES,
    NODE,
    ROLES,
    SCRAPES,
    SPACE,
    Case,
    Engine,
    Scrape,
    answer,
    certificate,
)
from tests.integration.node_agent.host.conftest import certificates, server
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.diagnostics.counts import NAME
from hypercobalt.agent.diagnostics.serving import MOST_AT_ONCE
from hypercobalt.api.coordination import Event
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.server import Server
from hypercobalt.cli import agents
from hypercobalt.errors import HypercobaltError, InvalidRequestError, TransientError
from hypercobalt.pki import Pair, load
from hypercobalt.pki.certificates import make_ca
from hypercobalt.runtime import ForbiddenError, Kube, Metrics, load_connection
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import PinError, Pinned, call

__all__ = ["certificates", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

ECHO, CAPTURE = f"/v1/ovsnodes/{NODE}/echo", f"/v1/ovsnodes/{NODE}/capture"


@dataclass
class Site:
    """An agent, and people with their credentials."""

    kube: Kube
    admin: Path
    ca: Pair
    agent: Pinned
    engine: Engine
    shown: dict[str, Credential]
    metrics: Metrics

    async def events(self, reason: str) -> list[str]:
        found = (await self.kube.list(Event, SPACE)).items
        return [one.note for one in found if one.reason == reason]

    async def event(self, reason: str, *parts: str) -> str:
        """The first Event with all parts, once it is there."""
        async with asyncio.timeout(10):
            while True:
                for note in await self.events(reason):
                    if all(part in note for part in parts):
                        return note
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(server: Server) -> AsyncIterator[Site]:
    ca, engine, metrics = load(server.kubeconfig.parent / "pki", "ca"), Engine(), Metrics()
    async with Kube(load_connection(server.kubeconfig)) as kube, AsyncExitStack() as stack:
        serving = await stack.enter_async_context(agent_access.agent(kube, engine, metrics))
        shown = await agent_access.shown_by(kube, ca, make_ca("another"))
        made = Site(kube, server.kubeconfig, ca, serving, engine, shown, metrics)
        await agent_access.settled(made.agent, made.shown)
        await agent_access.let_scrape(kube)
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
async def test_agent_admits_or_refuses_each_caller(site: Site, case: Case) -> None:
    await case.check(site.agent, site.shown)


@pytest.mark.parametrize("scrape", SCRAPES, ids=lambda scrape: scrape.name.replace(" ", "-"))
async def test_metrics_are_for_tokens_of_their_audience(site: Site, scrape: Scrape) -> None:
    await scrape.check(site.kube)


async def test_use_and_refusal_are_recorded_as_events(site: Site) -> None:
    await answer(site.agent, site.shown["jane"], "GET", f"{ECHO}?port=%1b%5B1mtap1")
    used = await site.event("DiagnosticsUsed", "?[1mtap1")
    assert used.startswith("user jane used echo (port=?[1mtap1) for 0.")
    assert used.endswith(" s: 200, " + used.rpartition(", ")[2])
    await answer(site.agent, site.shown["eve"], "GET", ECHO)
    refused = await site.event("DiagnosticsRefused", "eve")
    assert "a client at 127.0.0.1 was refused GET /v1/ovsnodes/kvm-a/echo: user eve" in refused


@pytest.mark.parametrize(
    ("who", "target", "use", "outcome"),
    [
        ("jane", ECHO, "echo", "answered"),
        ("jane", f"{ECHO}?user=root", "echo", "refused"),
        ("eve", ECHO, "echo", "denied"),
        ("nothing", ECHO, "echo", "denied"),
        ("nothing", "/v1/ovsnodes/another/echo", "none", "denied"),
    ],
)
async def test_every_request_is_counted(
    site: Site, who: str, target: str, use: str, outcome: str
) -> None:
    def count() -> float:
        labels = {"use": use, "outcome": outcome}
        return site.metrics.registry.get_sample_value(NAME, labels) or 0.0

    before = count()
    await answer(site.agent, site.shown[who], "GET", target)
    assert count() == before + 1


async def test_flood_of_refusals_hides_no_use(site: Site) -> None:
    eve = site.shown["eve"]
    for number in range(40):
        await answer(site.agent, eve, "GET", f"{ECHO}?port={number}")
    await answer(site.agent, site.shown["jane"], "GET", f"{ECHO}?port=after-the-flood")
    await site.event("DiagnosticsUsed", "after-the-flood")
    assert len(await site.events("DiagnosticsRefused")) <= 30


async def test_stream_has_events_at_both_ends_and_ends_with_its_client(site: Site) -> None:
    site.engine.closed.clear()
    target = f"{CAPTURE}?port=tap1"
    async with call(site.agent, "POST", target, site.shown["catcher"], seconds=20) as reply:
        assert reply.kind == "application/vnd.tcpdump.pcap"
        assert await anext(reply.chunks) == b"packet"
        assert "user catcher uses capture (port=tap1)" in await site.events("DiagnosticsBegun")
    await asyncio.wait_for(site.engine.closed.wait(), 10)
    ended = await site.event("DiagnosticsEnded", "capture (port=tap1)")
    assert ended.startswith("user catcher used capture (port=tap1) for ")
    assert ended.endswith(" s: 6 bytes")


async def test_uses_at_once_are_bounded(site: Site) -> None:
    catcher = site.shown["catcher"]
    async with AsyncExitStack() as stack:
        for _ in range(MOST_AT_ONCE):
            reply = await stack.enter_async_context(
                call(site.agent, "POST", CAPTURE, catcher, seconds=20)
            )
            await anext(reply.chunks)
        assert (await answer(site.agent, site.shown["jane"], "GET", ECHO))[0] == 429

    async def free() -> bool:
        return (await answer(site.agent, site.shown["jane"], "GET", ECHO))[0] == 200

    await eventually(free, seconds=10)


async def test_clients_that_send_nothing_block_no_other_client(site: Site) -> None:
    parts = urlsplit(site.agent.url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    writers: list[asyncio.StreamWriter] = []
    try:
        for number in range(100):
            secure = context if number % 2 else None  # half of them begin no TLS
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port, ssl=secure, local_addr=("127.0.0.9", 0)
            )
            writer.write(b"GET /v1/" if secure else b"")
            writers.append(writer)
        assert (await answer(site.agent, site.shown["jane"], "GET", ECHO))[0] == 200
    finally:
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("target", "status"), [(f"{ECHO}?port={'x' * 8000}", 200), (f"{ECHO}?port={'x' * 40_000}", 0)]
)
async def test_head_is_bounded(site: Site, target: str, status: int) -> None:
    try:
        found = (await answer(site.agent, site.shown["jane"], "GET", target))[0]
    except TransientError:
        found = 0
    assert found == status


async def test_trust_follows_the_client_ca_of_the_cluster(site: Site) -> None:
    other = make_ca("next")
    jane = Credential(certificate=certificate(other, "jane"))
    name, space = "extension-apiserver-authentication", "kube-system"
    held = await site.kube.get(ConfigMap, name, space)
    assert held is not None
    assert held.data["client-ca-file"] == site.ca.certificate.decode()

    async def publish(authorities: str) -> None:
        body = {"data": {"client-ca-file": authorities}}
        await site.kube.merge_patch(ConfigMap, name, body, space)

    async def admitted(shown: Credential) -> bool:
        try:
            return (await answer(site.agent, shown, "GET", ECHO))[0] == 200
        except TransientError:
            return False

    try:
        await publish(other.certificate.decode())
        await eventually(lambda: admitted(jane), seconds=10)
        assert not await admitted(site.shown["jane"])
        await publish("nonsense")  # the agent keeps the last valid CA
        assert await admitted(jane)
    finally:
        await publish(site.ca.certificate.decode())
        await eventually(lambda: admitted(site.shown["jane"]), seconds=10)
    assert not await admitted(jane)


async def test_person_with_a_certificate_finds_the_agent(site: Site, tmp_path: Path) -> None:
    shown = certificate(site.ca, "looker")  # the role lets it find the agent, too
    own = agent_access.person_kubeconfig(tmp_path / "looker", site.admin, shown)
    found = await agents.whole(OVSNode, NODE, "echo", {"port": "tap 1"}, kubeconfig=own)
    assert found == b"looker system:authenticated {'port': 'tap 1'} 0"
    with pytest.raises(InvalidRequestError, match="'user' is unknown"):
        await agents.whole(OVSNode, NODE, "echo", {"user": "root"}, kubeconfig=own)
    with pytest.raises(HypercobaltError, match="user looker may not create ovsnodes/capture"):
        await agents.whole(OVSNode, NODE, "capture", method="POST", kubeconfig=own)
    with pytest.raises(InvalidRequestError, match="there is no OVSNode kvm-z; there are: kvm-a"):
        await agents.whole(OVSNode, "kvm-z", "echo", kubeconfig=own)


async def test_error_names_the_agent_that_does_not_answer(site: Site, tmp_path: Path) -> None:
    node = await site.kube.get(OVSNode, NODE, SPACE)
    assert node is not None
    assert node.status.diagnostics is not None
    good = node.status.diagnostics
    dead = {"status": {"diagnostics": {"url": "https://127.0.0.1:9"}}}
    await site.kube.merge_patch(OVSNode, NODE, dead, SPACE, subresource="status")
    own = agent_access.person_kubeconfig(
        tmp_path / "looker", site.admin, certificate(site.ca, "looker")
    )
    try:
        with pytest.raises(TransientError, match=f"^the ovs-agent of {NODE} does not answer: .*"):
            await agents.whole(OVSNode, NODE, "echo", kubeconfig=own)
    finally:
        back = {"status": {"diagnostics": {"url": good.url}}}
        await site.kube.merge_patch(OVSNode, NODE, back, SPACE, subresource="status")


async def test_person_who_is_bound_in_one_namespace_finds_the_agent_there(
    site: Site, tmp_path: Path
) -> None:
    shown = certificate(site.ca, "local")
    await agent_access.bind_here(site.kube, "local", ROLES["looker"])
    elsewhere = agent_access.person_kubeconfig(tmp_path / "elsewhere", site.admin, shown)
    with pytest.raises(ForbiddenError, match="local"):
        await agents.whole(OVSNode, NODE, "echo", kubeconfig=elsewhere)
    own = agent_access.person_kubeconfig(tmp_path / "own", site.admin, shown, space=SPACE)
    assert (await agents.whole(OVSNode, NODE, "echo", kubeconfig=own)).startswith(b"local ")


async def test_service_account_requests_a_token_for_the_agent_alone(
    site: Site, tmp_path: Path
) -> None:
    own = await agent_access.token(site.kube, "robot")
    kubeconfig = agent_access.person_kubeconfig(tmp_path / "robot", site.admin, own)
    await agent_access.view(site.kube, account="robot")
    with pytest.raises(HypercobaltError, match="may not request a token for itself"):
        await agents.whole(OVSNode, NODE, "echo", kubeconfig=kubeconfig)
    await agent_access.allow_token(site.kube, "robot")
    found = await agents.whole(OVSNode, NODE, "echo", kubeconfig=kubeconfig)
    assert found.startswith(b"system:serviceaccount:ovn-system:robot ")


async def test_another_certificate_than_the_published_gets_no_request(site: Site) -> None:
    impostor = replace(site.agent, fingerprint="0" * 64)
    with pytest.raises(PinError, match="another certificate"):
        await answer(impostor, Credential("Bearer secret"), "GET", ECHO)
