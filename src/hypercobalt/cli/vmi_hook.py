"""Admission of VirtualMachineInstances in the embedded API server, as virt-api's webhooks do it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.hooks import HookReview
from hypercobalt.apiserver.offload import Offload
from hypercobalt.virt.api.webhooks import (
    MUTATOR,
    Admission,
    Operation,
    Webhook,
    denied,
    status,
    user,
    validator,
)
from hypercobalt.vmi.review import Review, ReviewRefusal, refusal

_INFO: Final = VirtualMachineInstance.resource


@dataclass(frozen=True, slots=True)
class VMIHook:
    """A hook of the embedded server.

    Args:
        admission: the verdicts.
    """

    admission: Admission
    kind: str = f"{_INFO.plural}.{_INFO.group}"
    _offload: Offload = field(default_factory=Offload)

    async def mutate(self, review: HookReview) -> JSONObject:
        """See `Hook`."""
        found = await self._offload.run(_size(review.object), self.admission.mutate, _read(review))
        if isinstance(found, ReviewRefusal):
            raise _refused(MUTATOR, found)
        return found

    async def validate(self, review: HookReview) -> None:
        """See `Hook`."""
        read = _read(review)
        if causes := await self._offload.run(_size(review.object), self.admission.validate, read):
            raise _refused(validator(read.operation), refusal(causes))


def _read(review: HookReview) -> Review:
    sent, old = review.user, review.old
    requester = user(sent.name, sent.groups, sent.extra)
    operation: Operation = "CREATE" if old is None else "UPDATE"
    return Review(operation, requester, review.object, old)


def _size(obj: JSONObject) -> int:
    return len(msgspec.json.encode(obj))


def _refused(webhook: Webhook, found: ReviewRefusal) -> StatusError:
    """The answer of an API server whose webhook refuses."""
    shown = status(found)
    details = cast("JSONObject", to_builtins(shown.details)) if shown.details else None
    return StatusError(shown.code, shown.reason, denied(webhook, found), details=details)
