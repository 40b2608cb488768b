"""Reviews of a caller's identity and rights by the API server; they are not stored.

Source: k8s.io/api, authentication/v1 and authorization/v1 types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct


class UserInfo(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(Struct, frozen=True):
    """The token is a secret: `repr` does not show it.

    Without audiences the token has to be for the API server.
    """

    token: str = ""
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "TokenReviewSpec(token=***)"


class TokenReviewStatus(Struct, frozen=True):
    """Audiences are those of the request that the token is for.

    None of them: its reviewer has no audiences, and took the token for the API server's.
    """

    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(Object, frozen=True):
    """Request to the API server: whose a token is."""

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", "Cluster"
    )

    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class SelfSubjectReviewStatus(Struct, frozen=True):
    userInfo: UserInfo = UserInfo()


class SelfSubjectReview(Object, frozen=True):
    """Request to the API server: who the caller is."""

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", "Cluster"
    )

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


class NonResourceAttributes(Struct, frozen=True):
    path: str = ""
    verb: str = ""


class ResourceAttributes(Struct, frozen=True):
    """A verb on an object; without a name on all of a namespace, without both on all."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}/{self.subresource} {self.name}{where}"


class SubjectAccessReviewSpec(Struct, frozen=True):
    """About one of the two kinds of attributes."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}  # such as the scopes that a token is limited to
    resourceAttributes: ResourceAttributes | None = None
    nonResourceAttributes: NonResourceAttributes | None = None


class SubjectAccessReviewStatus(Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class SubjectAccessReview(Object, frozen=True):
    """May they do this?"""

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", "Cluster"
    )

    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class BoundObjectReference(Struct, frozen=True):
    """The object that a token ends with: a Pod, a Node or a Secret."""

    kind: str
    apiVersion: str
    name: str
    uid: str = ""


class TokenRequestSpec(Struct, frozen=True):
    """Without audiences a token is for the API server."""

    audiences: tuple[str, ...] = ()
    expirationSeconds: int | None = None
    boundObjectRef: BoundObjectReference | None = None


class TokenRequestStatus(Struct, frozen=True):
    """The token is a secret: `repr` does not show it."""

    token: str = ""
    expirationTimestamp: datetime | None = None

    def __repr__(self) -> str:
        return f"TokenRequestStatus(token=***, expirationTimestamp={self.expirationTimestamp})"


class TokenRequest(Object, frozen=True):
    """A token for a ServiceAccount; made as its subresource `token`."""

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", "Namespaced"
    )

    spec: TokenRequestSpec = TokenRequestSpec()
    status: TokenRequestStatus = TokenRequestStatus()
