"""The webhooks of virt-api over TLS: verdicts, bad input, bounds; nothing ends the process."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.integration.apiserver.conftest import no_check
from tests.verdicts import StandIn, instance

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api.address import Address
from hypercobalt.launch import own_certificate
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.routes import Request, Requester, Route
from hypercobalt.virt.api.counts import REVIEWS, ReviewCounts
from hypercobalt.virt.api.pages import BOUNDS, MOST_BYTES, WebhookPages
from hypercobalt.virt.api.webhooks import CREATE_VALIDATOR, MUTATOR, WEBHOOKS


async def _admits(_: Request, __: Route | None) -> Requester:
    return Requester("")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(registry: CollectorRegistry) -> AsyncIterator[httpx2.AsyncClient]:
    routes = WebhookPages(StandIn(), ReviewCounts(registry)).routes
    guard = Guard(ListenerTls(own_certificate()).context, _admits)
    pages = Endpoints(Address("127.0.0.1", 0), routes=routes, guard=guard, bounds=BOUNDS)
    address = await pages.start()
    try:
        url = f"https://127.0.0.1:{address.port}"
        async with httpx2.AsyncClient(base_url=url, verify=no_check(), timeout=20) as made:
            yield made
    finally:
        await pages.stop()


def review(**request: object) -> dict[str, object]:
    given = {"uid": "u", "operation": "CREATE", "object": instance(), **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given}


async def allowed(client: httpx2.AsyncClient, path: str, sent: dict[str, object]) -> bool:
    answer = await client.post(path, json=sent)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    response: dict[str, Any] = answer.json()["response"]
    return bool(response["allowed"])


async def test_every_webhook_answers(client: httpx2.AsyncClient) -> None:
    for webhook in WEBHOOKS:
        sent = review(operation=webhook.operations[-1], oldObject=instance())
        assert await allowed(client, webhook.path, sent)
    assert not await allowed(client, CREATE_VALIDATOR.path, review(object=instance(bad="1")))
    assert not await allowed(client, MUTATOR.path, review(object=instance(domain=False)))


async def test_garbage_is_a_400_and_ends_nothing(
    client: httpx2.AsyncClient, registry: CollectorRegistry
) -> None:
    for body in (b"", b"{", b"\x00" * 999, b"[" * 200_000, msgspec.json.encode(review(object=7))):
        answer = await client.post(MUTATOR.path, content=body)
        assert answer.status_code == 400
    assert await allowed(client, MUTATOR.path, review())
    labels = {"webhook": MUTATOR.name, "code": "400"}
    assert registry.get_sample_value(REVIEWS, labels) == 5


async def test_fault_of_the_rules_is_a_500_and_ends_nothing(client: httpx2.AsyncClient) -> None:
    answer = await client.post(MUTATOR.path, json=review(object=instance(fault="1")))
    assert answer.status_code == 500
    assert "a bug" not in answer.text
    assert await allowed(client, MUTATOR.path, review())


async def test_length_of_a_body_is_bounded(client: httpx2.AsyncClient) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", client.base_url.port, ssl=no_check()
    )
    head = f"POST {MUTATOR.path} HTTP/1.1\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n"
    writer.write(head.encode() + b" " * 64 * 1024)
    assert b" 413 " in await reader.readline()
    writer.close()
    padded = msgspec.json.encode(review()) + b" " * (3 * 2**20)
    answer = await client.post(MUTATOR.path, content=padded)
    assert answer.status_code == 200


async def test_other_pages_and_verbs_are_not_there(client: httpx2.AsyncClient) -> None:
    assert (await client.get(MUTATOR.path)).status_code == 405
    assert (await client.post("/other", json={})).status_code == 404


async def test_many_reviews_at_once_are_answered(client: httpx2.AsyncClient) -> None:
    large = review(object=instance(padding="x" * 200_000))
    async with asyncio.TaskGroup() as tasks:
        made = [
            tasks.create_task(allowed(client, MUTATOR.path, large if n % 8 == 0 else review()))
            for n in range(64)
        ]
    assert all(task.result() for task in made)


async def test_client_that_speaks_no_tls_is_not_answered(client: httpx2.AsyncClient) -> None:
    port = client.base_url.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost")
    assert await allowed(client, MUTATOR.path, review())
