"""A certificate in files that clients verify, and that is renewed while it is served."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import Pair
from hypercobalt.pki.certificates import make_ca, make_peer
from hypercobalt.runtime import Kube
from hypercobalt.runtime.certificate_files import CertificateFiles
from hypercobalt.runtime.client.tls import load_certificate
from hypercobalt.runtime.endpoints import Endpoints
from hypercobalt.runtime.guard import guard


def put(directory: Path, pair: Pair) -> None:
    """Replace both files, each at once."""
    for name, data in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (directory / f"{name}.new").write_bytes(data)
        (directory / f"{name}.new").replace(directory / name)


def issued(ca: Pair) -> Pair:
    return make_peer(ca, "localhost", ["localhost"])


@asynccontextmanager
async def served(kube: Kube, directory: Path) -> AsyncIterator[int]:
    pages = Endpoints(Address("127.0.0.1", 0), healthy={}, guard=guard(kube, "us", directory))
    try:
        yield (await pages.start()).port
    finally:
        await pages.stop()


async def shown(port: int, *authorities: Pair) -> bytes:
    """The certificate, in DER form, that a client which trusts these CAs is shown."""
    trusted = "".join(one.certificate.decode() for one in authorities)
    context = ssl.create_default_context(cadata=trusted)
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    certificate = found.getpeercert(binary_form=True)
    writer.close()
    assert certificate is not None
    return certificate


def der(pair: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


async def test_client_verifies_the_certificate_and_its_renewal(kube: Kube, tmp_path: Path) -> None:
    ca = make_ca("ours")
    first, second = issued(ca), issued(ca)
    put(tmp_path, first)
    async with served(kube, tmp_path) as port:
        assert await shown(port, ca) == der(first)
        with pytest.raises(ssl.SSLCertVerificationError):
            await shown(port, make_ca("another"))
        put(tmp_path, second)
        assert await shown(port, ca) == der(second)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("data", [b"no PEM", None], ids=["garbage", "gone"])
async def test_certificate_stays_while_its_files_cannot_be_used(
    kube: Kube, tmp_path: Path, name: str, data: bytes | None
) -> None:
    ca = make_ca("ours")
    first, second = issued(ca), issued(ca)
    put(tmp_path, first)
    async with served(kube, tmp_path) as port:
        if data is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(data)
        assert await shown(port, ca) == der(first)
        put(tmp_path, second)
        assert await shown(port, ca) == der(second)


async def test_files_that_cannot_be_used_at_the_start_are_refused(
    kube: Kube, tmp_path: Path
) -> None:
    ca = make_ca("ours")
    with pytest.raises(ConfigurationError, match=r"tls\.crt and tls\.key must be"):
        guard(kube, "us", tmp_path)
    put(tmp_path, Pair(issued(ca).certificate, issued(ca).key))  # of two pairs
    with pytest.raises(ConfigurationError, match=r"tls\.crt and tls\.key must be"):
        guard(kube, "us", tmp_path)


async def test_client_certificate_counts_as_long_as_its_ca_is_trusted(tmp_path: Path) -> None:
    ours, of_before, now = make_ca("ours"), make_ca("before"), make_ca("now")
    put(tmp_path, issued(ours))
    files = CertificateFiles(tmp_path, verifies=True)
    async with verifying(files) as port:
        assert await seen(port, ours, of_before) == b"refused"
        files.trust(of_before.certificate.decode())
        assert await seen(port, ours, of_before) == b"client"
        assert await seen(port, ours, None) == b"nobody"
        files.trust(now.certificate.decode())
        assert await seen(port, ours, now) == b"client"
        assert await seen(port, ours, of_before) == b"refused"
        with pytest.raises(ValueError, match="no PEM"):
            files.trust("garbage")
        assert await seen(port, ours, now) == b"client"
        (tmp_path / "tls.key").unlink()
        with pytest.raises(ValueError, match=r"tls\.crt"):
            files.trust("")  # whoever asks has to believe nobody until the files can be used
        put(tmp_path, issued(ours))
        assert await seen(port, ours, now) == b"refused"


@asynccontextmanager
async def verifying(files: CertificateFiles) -> AsyncIterator[int]:
    """A server that answers with who shows a certificate."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readline()
            writer.write(b"client" if writer.get_extra_info("peercert") else b"nobody")
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=files.context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def seen(port: int, authority: Pair, shows: Pair | None) -> bytes:
    """What the server answers to a client; with TLS 1.3 a refusal comes in its place, or an end."""
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    if shows is not None:
        pair = make_peer(shows, "client", ["client"])
        load_certificate(context, pair.certificate, pair.key)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    try:
        writer.write(b"who\n")
        async with asyncio.timeout(20):
            return await reader.read() or b"refused"
    except ssl.SSLError:
        return b"refused"
    finally:
        writer.close()
