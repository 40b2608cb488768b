"""Where a process listens, as its flags have it; importing this loads no server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypercobalt.errors import ConfigurationError

_MAX_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes a free one, host "" means all addresses."""

    host: str = "127.0.0.1"
    port: int = 8080


def parse_address(flag: str, text: str) -> Address | None:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (all addresses); `0` gives None.

    Raises:
        ConfigurationError: the text is no such thing; the message names the flag.
    """
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _MAX_PORT:
        raise ConfigurationError(f"{flag} {text!r}: must look like :8081, 127.0.0.1:8081 or 0")
    return Address(host.strip("[]"), int(port))
