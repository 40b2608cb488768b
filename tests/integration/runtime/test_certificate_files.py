"""A certificate in files that clients verify, and that is renewed while it is served."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import Pair
from hypercobalt.pki.certificates import make_ca, make_peer
from hypercobalt.runtime import Kube
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
