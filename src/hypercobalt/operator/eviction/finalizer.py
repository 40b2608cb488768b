"""Keeps a deleted Eviction until what it began is stopped."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hypercobalt.api.eviction import Eviction
from hypercobalt.runtime import Kube, NotFoundError
from hypercobalt.runtime.write_cache import WriteCache

FINALIZER: Final = "kvm.cloud.sap/eviction"
"""On an Eviction while it may have moves under way."""


def is_held(eviction: Eviction) -> bool:
    """Whether the finalizer is there."""
    return FINALIZER in eviction.metadata.finalizers


async def hold(kube: Kube, evictions: WriteCache[Eviction], eviction: Eviction) -> Eviction:
    """Add the finalizer; before anything is begun."""
    meta = replace(eviction.metadata, finalizers=(*eviction.metadata.finalizers, FINALIZER))
    return evictions.wrote(await kube.patch(eviction, replace(eviction, metadata=meta)))


async def release(kube: Kube, evictions: WriteCache[Eviction], eviction: Eviction) -> None:
    """Take the finalizer away, if it is there; a deleted Eviction is gone then."""
    if not is_held(eviction):
        return
    left = tuple(name for name in eviction.metadata.finalizers if name != FINALIZER)
    meta = replace(eviction.metadata, finalizers=left)
    try:
        written = await kube.patch(eviction, replace(eviction, metadata=meta))
    except NotFoundError:
        evictions.missing(eviction)
        return
    if eviction.metadata.deletionTimestamp is None or left:
        evictions.wrote(written)
    else:
        evictions.missing(eviction)
