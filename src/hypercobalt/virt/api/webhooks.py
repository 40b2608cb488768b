"""The webhooks of virt-api: their names and paths, and a verdict as an API server wants it.

The embedded API server calls the same verdicts in process, and refuses in a webhook's words: its
answers differ from those of a real one in nothing.

Source: kubevirt, pkg/virt-operator/resource/generate/components/webhooks.go;
k8s.io/apiserver, pkg/admission/plugin/webhook/errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from hypercobalt.api.webhooks import RefusalCause, RefusalDetails, ReviewStatus
from hypercobalt.vmi.review import FieldCause, JsonObject, RequestUser, Review, ReviewRefusal

Operation = Literal["CREATE", "UPDATE"]

NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
"""Key in a user's extra: the node that the token of a pod's account is bound to."""

_REASONS: Final = {400: "BadRequest", 403: "Forbidden", 422: "Invalid"}


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook.

    Args:
        name: in its configuration, and in refusals.
        path: that an API server posts to.
        operations: that it is called for.
        mutates: whether it may change the object.
    """

    name: str
    path: str
    operations: tuple[Operation, ...]
    mutates: bool = False


MUTATOR: Final = Webhook(
    "virtualmachineinstances-mutator.kubevirt.io",
    "/virtualmachineinstances-mutate",
    ("CREATE", "UPDATE"),
    mutates=True,
)
CREATE_VALIDATOR: Final = Webhook(
    "virtualmachineinstances-create-validator.kubevirt.io",
    "/virtualmachineinstances-validate-create",
    ("CREATE",),
)
UPDATE_VALIDATOR: Final = Webhook(
    "virtualmachineinstances-update-validator.kubevirt.io",
    "/virtualmachineinstances-validate-update",
    ("UPDATE",),
)
WEBHOOKS: Final = (MUTATOR, CREATE_VALIDATOR, UPDATE_VALIDATOR)

MUTATING: Final = "virt-api-mutator"
"""Name of the MutatingWebhookConfiguration."""
VALIDATING: Final = "virt-api-validator"
"""Name of the ValidatingWebhookConfiguration."""


class Admission(Protocol):
    """Verdicts on VirtualMachineInstances. Neither raises, and neither changes the review."""

    def mutate(self, review: Review) -> JsonObject | ReviewRefusal:
        """The object to store, or the refusal."""
        ...

    def validate(self, review: Review) -> tuple[FieldCause, ...]:
        """Why the request is refused; empty where it is allowed."""
        ...


def validator(operation: Operation) -> Webhook:
    """The webhook that judges such a request after the definition's schema."""
    return CREATE_VALIDATOR if operation == "CREATE" else UPDATE_VALIDATOR


def user(username: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]) -> RequestUser:
    """Who sends a request, as authenticated."""
    nodes = extra.get(NODE_NAME_EXTRA, ())
    return RequestUser(username, tuple(groups), nodes[0] if len(nodes) == 1 else None)


def status(refused: ReviewRefusal) -> ReviewStatus:
    """A refusal as a webhook answers it."""
    causes = tuple(
        RefusalCause(reason=cause.reason.value, message=cause.message, field=cause.field)
        for cause in refused.causes
    )
    return ReviewStatus(
        status="Failure",
        message=refused.message,
        reason=_REASONS.get(refused.code, ""),
        code=refused.code,
        details=RefusalDetails(causes=causes) if causes else None,
    )


def denied(webhook: Webhook, refused: ReviewRefusal) -> str:
    """The message in which an API server passes on a webhook's refusal."""
    return f'admission webhook "{webhook.name}" denied the request: {refused.message}'
