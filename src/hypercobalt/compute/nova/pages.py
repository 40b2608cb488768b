"""Listings in pages; each page has a link to the next."""

from __future__ import annotations

from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import msgspec

LIMIT = ("limit", "1000")
"""Page size that Nova allows by default; a site may allow fewer."""
MOST_PAGES = 200
"""Most pages read of one listing, in case a service always names another."""


class Page(Protocol):
    """One page."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Links, among them one to the next page."""
        ...


class Link(msgspec.Struct, frozen=True):
    """A link in `..._links` beside a listing."""

    rel: str
    href: str


def next_query(links: tuple[Link, ...]) -> list[tuple[str, str]] | None:
    """Return the parameters of the next page; None after the last.

    The address in the link is not used: behind a proxy often only Nova itself can reach it.
    """
    for link in links:
        if link.rel == "next":
            return parse_qsl(urlsplit(link.href).query)
    return None
