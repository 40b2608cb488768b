"""Which microversions a service has.

Source: OpenStack API-SIG, "Microversion Specification", "Consuming the Service Catalog".
"""

from __future__ import annotations

import msgspec

from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.request import Request

Version = tuple[int, int]

_MULTIPLE_CHOICES = 300


async def supported(client: Client, service: str) -> tuple[Version, Version] | None:
    """The oldest and the newest microversion of a service; None when it reports none.

    Raises:
        NoAnswerError: it does not answer.
    """
    about = f"see what versions the service {service} has"
    answer = await client.call(Request(about, service, "GET", "/", root=True))
    if not answer.ok and answer.code != _MULTIPLE_CHOICES:
        return None
    document = answer.read(_Document)
    offered = (document.version, *document.versions) if document.version else document.versions
    ranges = [found for one in offered if (found := one.range())]
    return max(ranges, key=lambda found: found[1], default=None)


class _Offer(msgspec.Struct, frozen=True):
    version: str = ""
    max_version: str = ""
    min_version: str = ""

    def range(self) -> tuple[Version, Version] | None:
        oldest, newest = _version(self.min_version), _version(self.max_version or self.version)
        return (oldest, newest) if oldest and newest else None


class _Document(msgspec.Struct, frozen=True):
    version: _Offer | None = None
    versions: tuple[_Offer, ...] = ()


def _version(text: str) -> Version | None:
    major, dot, minor = text.partition(".")
    plain = dot and major.isdecimal() and minor.isdecimal()
    return (int(major), int(minor)) if plain else None
