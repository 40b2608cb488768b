"""Listings in pages, each of which names the next."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import msgspec

LIMIT = ("limit", "1000")
"""As many as Nova gives at once by default; it may be set to give fewer."""
MOST_PAGES = 200
"""Pages that are read of one listing: a service that always names another is not followed."""


class Page(Protocol):
    """One of them."""

    @property
    def links(self) -> tuple[Link, ...]:
        """To the next one, among others."""
        ...


class Link(msgspec.Struct, frozen=True):
    """Of `..._links` beside a listing."""

    rel: str
    href: str


def next_query(links: tuple[Link, ...]) -> list[tuple[str, str]] | None:
    """The parameters of the next page; None after the last.

    Its address is not used: behind a proxy it is often one that only Nova itself can reach.
    """
    for link in links:
        if link.rel == "next":
            return parse_qsl(urlsplit(link.href).query)
    return None
