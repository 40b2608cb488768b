"""Reads the pages of a list.

A page is decoded in one go into typed objects. Only when that fails is it read object by object, to
find and leave out the ones that do not fit.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec

from hypercobalt.api.codec import DecodeError, decoder
from hypercobalt.api.meta import Object
from hypercobalt.api.nesting import read
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.client.watch import read_one

T = TypeVar("T", bound=Object)
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class ListResult(Generic[T]):
    """A collection at one version.

    Args:
        items: in the server's order.
        resource_version: to watch from.
        unreadable: objects left out, because they do not fit their type: key to problem.
    """

    items: list[T]
    resource_version: str
    unreadable: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a collection; `next` is the token for the part after it, empty at the end."""

    items: list[T]
    resource_version: str
    next: str
    unreadable: dict[str, str]


class _ListMeta(msgspec.Struct, frozen=True):
    resourceVersion: str = ""  # noqa: N815 - wire name
    continue_: str = msgspec.field(name="continue", default="")


class _Items(msgspec.Struct, Generic[_Item], frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[_Item] | None = None


_raw_items = msgspec.json.Decoder(_Items[msgspec.Raw])


async def read_pages(
    send: Callable[[dict[str, str]], Awaitable[bytes]], of: Selection[T], limit: int
) -> ListResult[T]:
    """Read a collection page by page.

    Args:
        send: requests a page with these parameters.
        of: what is read.
        limit: objects on a page; 0 requests all at once.

    Raises:
        GoneError: the version of the first page is no longer kept.
    """
    items: list[T] = []
    unreadable: dict[str, str] = {}
    version = ""
    async for page in pages(send, of, limit):
        items += page.items
        unreadable |= page.unreadable
        version = page.resource_version
    return ListResult(items, version, unreadable)


async def pages(
    send: Callable[[dict[str, str]], Awaitable[bytes]], of: Selection[T], limit: int
) -> AsyncGenerator[Page[T]]:
    """Yield the pages of a collection; see `read_pages`."""
    params = dict(of.params) | ({"limit": str(limit)} if limit else {})
    while True:
        page = read_page(await send(params), of.type)
        yield page
        if not page.next:
            return
        params["continue"] = page.next


def read_page(data: bytes, type_: type[T]) -> Page[T]:
    """Decode one page.

    Raises:
        DecodeError: it is no list at all.
    """
    typed = cast("type[_Items[T]]", _Items[type_])  # type: ignore[valid-type]
    try:
        with _collector_paused():
            page = read(decoder(typed).decode, data)
    except msgspec.DecodeError:
        return _read_one_by_one(data, type_)
    meta = page.metadata
    return Page(page.items or [], meta.resourceVersion, meta.continue_, {})


@contextmanager
def _collector_paused() -> Generator[None]:
    """Keep the garbage collector from going through a page while it is being built.

    Nothing in it is garbage, and without the pause a third of the time goes into finding that out.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_one_by_one(data: bytes, type_: type[T]) -> Page[T]:
    items: list[T] = []
    unreadable: dict[str, str] = {}
    try:
        page = read(_raw_items.decode, data)
        for raw in page.items or ():
            one = read_one(raw, type_)
            if one.object is None:
                unreadable[one.key] = one.problem
            else:
                items.append(one.object)
    except msgspec.DecodeError as exc:
        raise DecodeError(f"list of {type_.resource.kind}: {exc}") from exc
    meta = page.metadata
    return Page(items, meta.resourceVersion, meta.continue_, unreadable)
