"""The names and addresses that this host's certificate is for: its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.host_certificate import HostNames


def own_names(host: str, addresses: Iterable[str]) -> HostNames:
    """Those of a host; text that is no address of one is left out.

    Args:
        host: name of its Node.
        addresses: as the Node or the agent's environment has them.
    """
    found: set[str] = set()
    for text in addresses:
        with suppress(ValueError):
            found.add(str(parse_host_address(text)))
    return HostNames(host, tuple(sorted(found)))
