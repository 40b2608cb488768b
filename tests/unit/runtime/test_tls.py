"""TLS towards the server, with certificates made for the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from hypercobalt.api.core import Node
from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.kubeconfig import Identity, Pem
from hypercobalt.runtime import Backoff, Connection, FakeClock, Kube, Limits
from hypercobalt.runtime.client.tls import make_context

LIMITS = Limits(backoff=Backoff(jitter=lambda _: 60))  # an error is final


def pem(blob: trustme.Blob) -> bytes:
    return blob.bytes()


@asynccontextmanager
async def secure_server(ca: trustme.CA, name: str) -> AsyncIterator[tuple[int, list[str]]]:
    """Answers 404 and records the common name of each client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
        seen.append(next((v for part in subject for k, v in part if k == "commonName"), ""))
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        await server.wait_closed()


async def test_new_client_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    ca = trustme.CA()
    chain, key = tmp_path / "chain", tmp_path / "key"

    def issue(name: str) -> None:
        leaf = ca.issue_cert("client.example", common_name=name)
        chain.write_bytes(b"".join(map(pem, leaf.cert_chain_pems)))
        key.write_bytes(pem(leaf.private_key_pem))

    issue("first")
    async with secure_server(ca, "localhost") as (port, seen):
        identity = Identity(certificate=Pem(chain), key=Pem(key))
        to = Connection(
            f"https://localhost:{port}", authority=Pem(data=pem(ca.cert_pem)), user=identity
        )
        clock = FakeClock()
        async with Kube(to, limits=LIMITS, clock=clock) as kube:
            assert await kube.get(Node, "a") is None
            issue("second")
            await kube.get(Node, "a")
            assert seen == ["first"]
            clock.advance(timedelta(seconds=61))
            await kube.get(Node, "a")
    assert seen == ["first", "second"]


async def test_unknown_authority_and_wrong_name_are_refused() -> None:
    ca, other = trustme.CA(), trustme.CA()
    async with secure_server(ca, "api.example") as (port, _):
        url = f"https://127.0.0.1:{port}"
        for authority, name in ((other, "api.example"), (ca, "another.example")):
            to = Connection(url, authority=Pem(data=pem(authority.cert_pem)), tls_server_name=name)
            async with Kube(to, limits=LIMITS) as kube:
                with pytest.raises(TransientError, match="certificate verify failed"):
                    await kube.get(Node, "a")


async def test_client_accepts_a_server_by_tls_server_name_or_unverified() -> None:
    ca = trustme.CA()
    async with secure_server(ca, "api.example") as (port, _):
        url, authority = f"https://127.0.0.1:{port}", Pem(data=pem(ca.cert_pem))
        for to in (
            Connection(url, authority=authority, tls_server_name="api.example"),
            Connection(url, verify=False),
        ):
            async with Kube(to, limits=LIMITS) as kube:
                assert await kube.get(Node, "a") is None


def test_unusable_material_is_named() -> None:
    with pytest.raises(ConfigurationError, match="certificate-authority"):
        make_context(Connection("https://a", authority=Pem(data=b"nonsense")), None)
    first, second = trustme.CA().issue_cert("a"), trustme.CA().issue_cert("b")
    pair = (pem(first.cert_chain_pems[0]), pem(second.private_key_pem))
    with pytest.raises(ConfigurationError, match="client-certificate"):
        make_context(Connection("https://a"), pair)


def test_an_encrypted_key_does_not_prompt_for_its_password() -> None:
    leaf = trustme.CA().issue_cert("client.example")
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(ConfigurationError, match="encrypted"):
        make_context(Connection("https://h"), (pem(leaf.cert_chain_pems[0]), encrypted))
