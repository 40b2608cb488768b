"""Admission of single kinds by code of this process, where a real server calls webhooks.

    defaults, owners → mutate → defaults, pruning, validation → policies → validate → stored

Who starts the server wires hooks in; without them this costs nothing. A hook sees creates and
updates of the objects of its kind, not of their subresources, and no deletes. No lock is held
while a hook works. Fields that a hook changes have no owner until a manager writes them.

Source: apiserver pkg/admission/plugin/webhook; pkg/endpoints/handlers/create.go and update.go,
which record owners before admission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions.verbs import Prepared
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.requests.request import Call, User
from hypercobalt.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HookReview:
    """A write as a hook sees it.

    Args:
        object: after the write; not to be changed.
        old: before it; None for a create; not to be changed.
        user: who writes.
        dry_run: whether nothing will be stored.
    """

    object: JSONObject
    old: JSONObject | None
    user: User
    dry_run: bool


class Hook(Protocol):
    """Admits or refuses the writes of one kind, in every version of it."""

    @property
    def kind(self) -> str:
        """Qualified name, such as `hypervisors.kvm.cloud.sap`."""
        ...

    async def mutate(self, review: HookReview) -> JSONObject:
        """The object to write: the same one, or another one with its name and namespace.

        Raises:
            StatusError: the write is refused.
        """
        ...

    async def validate(self, review: HookReview) -> None:
        """Let a valid object pass.

        Raises:
            StatusError: the write is refused.
        """
        ...


class Hooks:
    """The hooks of a server: an admitter of writes."""

    def __init__(self, hooks: Sequence[Hook]) -> None:
        self._hooks = {hook.kind: hook for hook in hooks}

    def concerns(self, call: Call) -> bool:
        return not call.subresource and call.resource.qualified in self._hooks

    async def mutate(self, call: Call, write: Prepared) -> JSONObject | None:
        if write.new is None:
            return None
        hook = self._hooks[call.resource.qualified]
        return await _answered(hook, hook.mutate, _review(call, write.new, write.old))

    async def admit(self, call: Call, write: Prepared) -> None:
        if write.new is not None:
            hook = self._hooks[call.resource.qualified]
            await _answered(hook, hook.validate, _review(call, write.new, write.old))


def _review(call: Call, new: JSONObject, old: JSONObject | None) -> HookReview:
    return HookReview(new, old, call.request.user, call.dry_run)


async def _answered(
    hook: Hook, stage: Callable[[HookReview], Awaitable[T]], review: HookReview
) -> T:
    """What a hook answers.

    Raises:
        StatusError: the hook refuses; 500 where it fails, so that the write is not made.
    """
    try:
        return await stage(review)
    except StatusError:
        raise
    except Exception as error:  # a fault of a hook refuses one write, as of a webhook
        log.exception("admission_failed", kind=hook.kind)
        raise errors.internal(f"failed calling admission of {hook.kind}: {error!r}") from error
