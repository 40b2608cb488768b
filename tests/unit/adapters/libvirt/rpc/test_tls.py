"""TLS as libvirt has it: certificates of both sides, names, and the daemon's verdict."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from tests.unit.adapters.libvirt.made_up import MadeUpDaemon

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.errors import ClosedError
from hypercobalt.adapters.libvirt.rpc.protocol import Void
from hypercobalt.adapters.libvirt.rpc.transport import connect

VERSION = protocol.Version(9_000_000)


@pytest.fixture(scope="module")
def ours() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def served(
    authority: trustme.CA, *, name: str = "127.0.0.1", verdict: bytes = b"\x01"
) -> AsyncGenerator[int]:
    """Run a daemon with a certificate of this name, and yield its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    daemon = MadeUpDaemon(Path("unused"))
    daemon.answers[protocol.GET_LIB_VERSION.number] = VERSION

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(verdict)
        if verdict == b"\x01":
            await daemon.serve(reader, writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
        daemon.hang_up()


def client_files(directory: Path, authority: trustme.CA, issuer: trustme.CA) -> Path:
    """The files of a client: whom it trusts, and who issued its own certificate."""
    leaf = issuer.issue_cert("agent.example.org")
    authority.cert_pem.write_to_path(str(directory / "cacert.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(directory / "clientcert.pem"))
    leaf.private_key_pem.write_to_path(str(directory / "clientkey.pem"))
    return directory


def address(port: int, files: Path) -> uri.Address:
    return uri.parse(f"qemu+tls://127.0.0.1:{port}/system?pkipath={files}")


async def test_both_sides_accept_each_other(ours: trustme.CA, tmp_path: Path) -> None:
    files = client_files(tmp_path, ours, ours)
    async with served(ours) as port:
        client = await connect(address(port, files))
        assert await client.call(protocol.GET_LIB_VERSION, Void()) == VERSION
        client.close()
        await asyncio.sleep(0)  # its socket is closed by the loop


async def test_a_daemon_of_another_authority_is_refused(ours: trustme.CA, tmp_path: Path) -> None:
    files = client_files(tmp_path, trustme.CA(), ours)
    async with served(ours) as port:
        with pytest.raises(ClosedError, match="unable to verify peer's certificate"):
            await connect(address(port, files))


async def test_a_daemon_with_another_hosts_certificate_is_refused(
    ours: trustme.CA, tmp_path: Path
) -> None:
    files = client_files(tmp_path, ours, ours)
    async with served(ours, name="192.0.2.7") as port:
        with pytest.raises(ClosedError, match=r"peer's certificate of 127\.0\.0\.1.*mismatch"):
            await connect(address(port, files))


@pytest.mark.parametrize("verdict", [b"", b"\x00"], ids=["hangs up", "refuses"])
async def test_a_daemon_that_does_not_accept_our_name_is_reported_apart(
    ours: trustme.CA, tmp_path: Path, verdict: bytes
) -> None:
    files = client_files(tmp_path, ours, ours)
    async with served(ours, verdict=verdict) as port:
        with pytest.raises(ClosedError, match="our TLS certificate"):
            await connect(address(port, files))


async def test_client_certificate_of_another_authority_is_refused_by_the_daemon(
    ours: trustme.CA, tmp_path: Path
) -> None:
    files = client_files(tmp_path, ours, trustme.CA())
    async with served(ours) as port:
        with pytest.raises(ClosedError, match="our TLS certificate"):
            await connect(address(port, files))


async def test_a_missing_authority_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClosedError, match=r"cannot read CA certificate '.*cacert\.pem': No such"):
        await connect(address(16514, tmp_path))
