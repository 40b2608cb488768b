"""The names and addresses that a host's certificate is for: its own. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from hypercobalt.api.addresses import parse_host_address


@dataclass(frozen=True, slots=True)
class OwnNames:
    """What a certificate of the host names.

    Args:
        name: of the Node.
        addresses: each once and in its one form, sorted.
    """

    name: str
    addresses: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every name and address."""
        return self.name, *self.addresses


def own_names(host: str, addresses: Iterable[str]) -> OwnNames:
    """Those of a host; text that is no address of one is left out.

    Args:
        host: name of its Node.
        addresses: as the Node or the agent's environment has them.
    """
    found: set[str] = set()
    for text in addresses:
        with suppress(ValueError):
            found.add(str(parse_host_address(text)))
    return OwnNames(host, tuple(sorted(found)))
