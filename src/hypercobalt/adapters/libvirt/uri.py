"""Which libvirt URIs an agent can use, and whether the daemon behind one is on this machine.

A daemon of a session is reached by its socket alone: whoever starts it knows where that lies.

Source: libvirt's uri.html.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, urlsplit

from hypercobalt.errors import ConfigurationError

_DRIVERS = ("qemu", "ch", "test")
_TRANSPORTS = ("", "unix", "tcp", "tls")
_PORTS = {"tcp": 16509, "tls": 16514}
_PARAMETERS = ("socket", "pkipath")
_EXAMPLES = "qemu:///system, qemu+unix:///system, qemu+tcp://HOST/system, ch+tcp://HOST/system"


@dataclass(frozen=True, slots=True)
class Address:
    """A URI that was checked.

    Args:
        uri: as given.
        name: what is opened there, `qemu:///system`.
        host: of the daemon; "" for a Unix socket.
        port: of the daemon; None without TCP.
        tls: whether TCP is encrypted.
        sockets: where to look for a Unix socket, the first that exists is it; empty with TCP.
        pki: directory of `cacert.pem`, `clientcert.pem` and `clientkey.pem`; "" for libvirt's own.
    """

    uri: str
    name: str
    host: str = ""
    port: int | None = None
    tls: bool = False
    sockets: tuple[str, ...] = ()
    pki: str = ""

    def is_local(self) -> bool:
        """The daemon is on this machine; resolves the host's name, so it may block."""
        if not self.host:
            return True
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_DGRAM)
        except OSError:
            return False
        return any(_is_ours(family, str(address[0])) for family, _, _, _, address in found)


def parse(uri: str) -> Address:
    """Check a libvirt URI.

    Raises:
        ConfigurationError: its driver, transport, host or path is none that an agent can use.
    """
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError as exc:
        raise _refused("(unreadable)", str(exc)) from exc
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if problem := _problem(parts, host, parameters) or _odd(parameters):
        raise _refused(repr(shown), problem)
    driver, _, transport = parts.scheme.partition("+")
    name, pki = f"{driver}://{parts.path}", parameters.get("pkipath", "")
    if transport in _PORTS:
        port = port or _PORTS[transport]
        return Address(uri, name, host or "localhost", port, transport == "tls", pki=pki)
    given = parameters.get("socket")
    return Address(uri, name, sockets=(given,) if given else _sockets(driver))


def _sockets(driver: str) -> tuple[str, ...]:
    """Sockets of the driver's own daemon, and of the daemon for all drivers."""
    return (f"/run/libvirt/virt{driver}d-sock", "/run/libvirt/libvirt-sock")


def _odd(parameters: Mapping[str, str]) -> str | None:
    for key in parameters.keys() - _PARAMETERS:
        return f"its parameter {key!r} is unknown: must be one of {', '.join(_PARAMETERS)}"
    return None


def _problem(parts: SplitResult, host: str, parameters: Mapping[str, str]) -> str | None:
    driver, _, transport = parts.scheme.partition("+")
    if driver not in _DRIVERS:
        return f"its driver must be one of {', '.join(_DRIVERS)}"
    if transport not in _TRANSPORTS:
        return f"its transport {transport!r} must be one of unix, tcp, tls"
    if parts.password is not None:
        return "it carries a password, which libvirt does not read: take it out"
    if host and transport not in {"tcp", "tls"}:
        return f"a host needs a transport: {driver}+tcp:// or {driver}+tls://"
    if parts.path == "/session":
        by_socket = driver == "qemu" and transport == "unix" and parameters.get("socket")
        return None if by_socket else "/session needs its socket: qemu+unix:///session?socket=PATH"
    if driver != "test" and parts.path != "/system":
        return "its path is not /system, the daemon of the host"
    return None


def _refused(shown: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"libvirt URI {shown}: {problem}. Examples: {_EXAMPLES}")


def _is_ours(family: socket.AddressFamily, address: str) -> bool:
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
