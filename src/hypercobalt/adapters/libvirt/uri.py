"""Which libvirt URIs an agent can use, and whether the daemon behind one is on this machine.

Source: libvirt's uri.html.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from hypercobalt.errors import ConfigurationError

_DRIVERS = ("qemu", "ch", "test")
_TRANSPORTS = ("", "unix", "tcp", "tls")
_PORTS = {"tcp": 16509, "tls": 16514}
_EXAMPLES = "qemu:///system, qemu+unix:///system, qemu+tcp://HOST/system, ch+tcp://HOST/system"


@dataclass(frozen=True, slots=True)
class Address:
    """A URI that was checked.

    Args:
        uri: as given.
        host: of the daemon; "" for a Unix socket and for the test driver.
        port: of the daemon; None without TCP.
    """

    uri: str
    host: str
    port: int | None

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
    except ValueError as exc:
        raise _refused("(unreadable)", str(exc)) from exc
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if problem := _problem(parts, host):
        raise _refused(repr(shown), problem)
    _, _, transport = parts.scheme.partition("+")
    return Address(uri, host, port or _PORTS.get(transport))


def _problem(parts: SplitResult, host: str) -> str | None:
    driver, _, transport = parts.scheme.partition("+")
    if driver not in _DRIVERS:
        return f"its driver is none of {', '.join(_DRIVERS)}"
    if transport not in _TRANSPORTS:
        return f"its transport {transport!r} is none of unix, tcp, tls"
    if parts.password is not None:
        return "it carries a password, which libvirt does not read: take it out"
    if host and transport not in {"tcp", "tls"}:
        return f"a host needs a transport: {driver}+tcp:// or {driver}+tls://"
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
