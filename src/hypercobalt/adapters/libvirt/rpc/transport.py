"""Connects to a daemon by its address: Unix socket, TCP or TLS, and opens its driver.

TLS is libvirt's own arrangement: certificates of both sides at fixed places, the server's name or
address in its certificate, and one byte from the daemon when it accepts ours.

Source: libvirt's tlscerts.html and remote.html; auth types of its src/remote/remote_protocol.x.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from hypercobalt.adapters.libvirt.rpc import numbers, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import ClosedError, RemoteError
from hypercobalt.adapters.libvirt.uri import Address


class _Files(NamedTuple):
    """Where the certificates are."""

    authority: Path
    certificate: Path
    key: Path
    revoked: Path

    @classmethod
    def within(cls, directory: Path) -> _Files:
        names = ("cacert.pem", "clientcert.pem", "clientkey.pem", "cacrl.pem")
        return cls(*(directory / name for name in names))


_SYSTEM: Final = _Files(
    Path("/etc/pki/CA/cacert.pem"),
    Path("/etc/pki/libvirt/clientcert.pem"),
    Path("/etc/pki/libvirt/private/clientkey.pem"),
    Path("/etc/pki/CA/cacrl.pem"),
)


async def connect(address: Address) -> Client:
    """Connect, authenticate and open the address's driver.

    Raises:
        ClosedError: no daemon answers, or it refuses us; the message names address and cause.
    """
    client = await _reach(address)
    try:
        await client.accepted
        await _authenticate(client)
        await client.call(protocol.OPEN, protocol.Open(address.name))
        feature = protocol.Number(numbers.FEATURE_KEEPALIVE)  # the daemon enables it by this query
        if (await client.call(protocol.SUPPORTS_FEATURE, feature)).number:
            client.keep_alive()
    except RemoteError as exc:
        client.close()
        raise ClosedError(f"libvirt refuses {address.name}: {exc}") from exc
    except BaseException:
        client.close()
        raise
    return client


async def _authenticate(client: Client) -> None:
    """Satisfy the daemon: it requires nothing, or polkit's decision about this process."""
    types = (await client.call(protocol.AUTH_LIST, protocol.Void())).types
    if numbers.Auth.POLKIT in types:
        await client.call(protocol.AUTH_POLKIT, protocol.Void())
    elif types and numbers.Auth.NONE not in types:
        raise ClosedError(
            f"libvirt requires authentication by SASL ({', '.join(map(str, types))}), which is not "
            'supported: set auth_tcp or auth_tls to "none" in libvirtd.conf'
        )


async def _reach(address: Address) -> Client:
    loop = asyncio.get_running_loop()
    if address.port is None:
        path = next(filter(_exists, address.sockets), address.sockets[-1])
        try:
            return (await loop.create_unix_connection(Client, path))[1]
        except OSError as exc:
            raise ClosedError(f"unable to connect to socket {path!r}: {_cause(exc)}") from exc
    where = f"{address.host}:{address.port}"
    context = _context(address.pki) if address.tls else None
    try:
        made = await loop.create_connection(
            lambda: Client(verdict=address.tls), address.host, address.port, ssl=context
        )
    except ssl.SSLCertVerificationError as exc:
        raise ClosedError(
            f"unable to verify peer's certificate of {where}: {exc.verify_message}"
        ) from exc
    except OSError as exc:
        raise ClosedError(f"unable to connect to server at '{where}': {_cause(exc)}") from exc
    return made[1]


def _context(pki: str) -> ssl.SSLContext:
    files = _files(pki)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the server's certificate and name
    try:
        context.load_verify_locations(files.authority)
    except OSError as exc:
        raise ClosedError(f"cannot read CA certificate '{files.authority}': {_cause(exc)}") from exc
    try:
        if files.certificate.exists() and files.key.exists():
            context.load_cert_chain(files.certificate, files.key)
        if files.revoked.exists():
            context.load_verify_locations(files.revoked)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    except OSError as exc:
        raise ClosedError(
            f"cannot use '{files.certificate}' with '{files.key}': {_cause(exc)}"
        ) from exc
    return context


def _files(pki: str) -> _Files:
    if pki:
        return _Files.within(Path(pki))
    own = _Files.within(Path.home() / ".pki/libvirt")
    return own if os.geteuid() and own.authority.exists() else _SYSTEM


def _exists(path: str) -> bool:
    return Path(path).exists()


def _cause(error: OSError) -> str:
    return error.strerror or str(error)
