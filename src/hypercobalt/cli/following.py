"""Follows one object for a command that shows it; resumes when the API server is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from hypercobalt.api.meta import Object
from hypercobalt.runtime import Handler, Informer, Kube, Metrics
from hypercobalt.runtime.client.requests import Selection

T = TypeVar("T", bound=Object)
_T_contra = TypeVar("_T_contra", bound=Object, contravariant=True)


class Follower(Handler[_T_contra], Protocol[_T_contra]):
    """Gets every version of the object; its methods never raise."""

    def lost(self) -> None:
        """The object does not exist, and has not since `follow` began."""
        ...


async def follow(
    kube: Kube, type_: type[T], name: str, follower: Follower[T], shown: Awaitable[None]
) -> None:
    """Give a follower what changes for as long as `shown` takes.

    Raises:
        BrokenPipeError: `shown` writes to a pipe whose reader has exited.
    """
    selection = Selection(type_, fields=f"metadata.name={name}")
    informer = Informer(kube, selection, metrics=Metrics())
    informer.add_handler(follower)
    unread: BrokenPipeError | None = None
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run(), name=f"{type_.resource.plural}-{name}")
        # A watch does not report an object that is gone before its first list.
        listed = group.create_task(_missed(informer, follower), name="listed")
        try:
            await shown
        except BrokenPipeError as error:
            unread = error  # as it is, not in a group
        finally:
            listed.cancel()
            following.cancel()
    if unread is not None:
        raise unread


async def _missed(informer: Informer[T], follower: Follower[T]) -> None:
    await informer.wait_synced()
    if not len(informer.cache):
        follower.lost()
