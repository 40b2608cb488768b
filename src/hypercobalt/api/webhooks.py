"""Admission webhooks: what an API server asks and is answered, and where it finds them.

Only fields that we use are here. Objects under review stay bytes, so that whoever reviews them
decides what they are.

Source: k8s.io/api, admission/v1 and admissionregistration/v1 types.go.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from hypercobalt.api.meta import Object, ResourceInfo, Struct

GROUP: Final = "admissionregistration.k8s.io"
REVIEW_VERSION: Final = "admission.k8s.io/v1"


class AdmissionUser(Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class AdmissionRequest(Struct, frozen=True):
    uid: str
    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    userInfo: AdmissionUser = AdmissionUser()
    object: msgspec.Raw = msgspec.Raw(b"null")
    oldObject: msgspec.Raw = msgspec.Raw(b"null")


class RefusalCause(Struct, frozen=True):
    reason: str
    message: str
    field: str = ""


class RefusalDetails(Struct, frozen=True):
    causes: tuple[RefusalCause, ...] = ()


class ReviewStatus(Struct, frozen=True):
    """Why a request is refused: a `Status` of meta/v1."""

    status: str
    message: str
    reason: str
    code: int
    details: RefusalDetails | None = None


class AdmissionResponse(Struct, frozen=True):
    uid: str
    allowed: bool
    status: ReviewStatus | None = None
    patch: bytes | None = None  # base64 on the wire
    patchType: str | None = None


class AdmissionReview(Struct, frozen=True):
    apiVersion: str
    kind: str
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None


class WebhookClientConfig(Struct, frozen=True):
    caBundle: bytes | None = None  # PEM; base64 on the wire


class RegisteredWebhook(Struct, frozen=True):
    name: str
    clientConfig: WebhookClientConfig = WebhookClientConfig()


class WebhookConfiguration(Object, frozen=True):
    """Base of both kinds."""

    webhooks: tuple[RegisteredWebhook, ...] = ()


class MutatingWebhookConfiguration(WebhookConfiguration, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "Cluster"
    )


class ValidatingWebhookConfiguration(WebhookConfiguration, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "Cluster"
    )
