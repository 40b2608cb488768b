"""Reviews of tokens and rights, answered by what decides on requests; not stored.

Source: kubernetes pkg/registry/authentication and pkg/registry/authorization.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access.attributes import Attributes
from hypercobalt.apiserver.access.authentication import Authenticator
from hypercobalt.apiserver.access.jwt import TokenError
from hypercobalt.apiserver.access.rbac import Rbac
from hypercobalt.apiserver.access.tokens import AUDIENCES
from hypercobalt.apiserver.decisions.decoding import check_body
from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.requests.request import Call, User
from hypercobalt.apiserver.values import list_at, object_at, text_at, texts_at

GROUPS = ("authentication.k8s.io", "authorization.k8s.io")
RESOURCE, PATH = "resourceAttributes", "nonResourceAttributes"


class Reviews:
    """Answers reviews."""

    def __init__(self, authenticator: Authenticator, rbac: Rbac) -> None:
        self._authenticator, self._rbac = authenticator, rbac

    def answer(self, call: Call) -> JSONObject:
        """The answer to a review.

        Raises:
            StatusError: 400 or 422 for an invalid body.
        """
        body = check_body(call, call.body.value)
        spec = object_at(body, "spec")
        shown: JSONObject = {"kind": call.kind, "apiVersion": call.resource.api_version}
        match call.kind:
            case "SelfSubjectReview":
                shown["metadata"] = {"creationTimestamp": call.stamp}
                return {**shown, "status": {"userInfo": call.request.user.body()}}
            case "TokenReview":
                answer = self._token(spec)
            case "SelfSubjectRulesReview":
                answer = self._rules(call.request.user, text_at(spec, "namespace"))
                spec = {}
            case _:
                if causes := list(_errors(call, body)):
                    raise errors.invalid(call.resource.group, "", "", causes)
                user = call.request.user if call.kind.startswith("Self") else _user(spec)
                answer = self._access(user, spec)
        shown["metadata"] = object_at(body, "metadata")
        return {**shown, "spec": spec, "status": answer}

    def _access(self, user: User, spec: JSONObject) -> JSONObject:
        verdict = self._rbac.authorize(user, _attributes(spec))
        answer: JSONObject = {"allowed": verdict.allowed}
        return {**answer, "reason": verdict.reason} if verdict.reason else answer

    def _rules(self, user: User, namespace: str) -> JSONObject:
        if not namespace:
            raise errors.bad_request("no namespace on request")
        resources: list[JSON] = []
        paths: list[JSON] = []
        for rule in self._rbac.rules_for(user, namespace):
            shown = msgspec.to_builtins(rule)
            (resources if rule.resources else paths).append(shown)
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}

    def _token(self, spec: JSONObject) -> JSONObject:
        token, wanted = text_at(spec, "token"), tuple(texts_at(spec, "audiences"))
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        try:
            user, audiences = self._authenticator.identify(token, wanted or AUDIENCES)
        except TokenError as error:
            return {"user": {}, "error": str(error)}
        shared: list[JSON] = list(audiences)
        return {"authenticated": True, "user": user.body(), "audiences": shared}


def _user(spec: JSONObject) -> User:
    extra = {name: tuple(texts_at(values)) for name, values in object_at(spec, "extra").items()}
    groups = tuple(texts_at(spec, "groups"))
    return User(text_at(spec, "user"), text_at(spec, "uid"), groups, extra)


def _attributes(spec: JSONObject) -> Attributes:
    if spec.get(PATH) is not None:
        found = object_at(spec, PATH)
        return Attributes(text_at(found, "verb"), path=text_at(found, "path"))
    found = object_at(spec, RESOURCE)
    parts = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(text_at(found, part) for part in parts))


def _errors(call: Call, body: JSONObject) -> Iterator[Cause]:
    spec = object_at(body, "spec")
    found = [name for name in (RESOURCE, PATH) if spec.get(name) is not None]
    if len(found) > 1:
        text = "cannot be specified in combination with resourceAttributes"
        yield FieldErrors.invalid(f"spec.{PATH}", spec[PATH], text)
    if not found:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield FieldErrors.invalid(f"spec.{RESOURCE}", None, text)
    if not call.kind.startswith("Self") and not (text_at(spec, "user") or list_at(spec, "groups")):
        text = "at least one of user or group must be specified"
        yield FieldErrors.invalid("spec.user", text_at(spec, "user"), text)
    if call.kind == "LocalSubjectAccessReview":
        yield from _local_errors(call, body)


def _local_errors(call: Call, body: JSONObject) -> Iterator[Cause]:
    spec, named = object_at(body, "spec"), text_at(body, "spec", RESOURCE, "namespace")
    if spec.get(RESOURCE) is not None and named != call.namespace:
        text = "must match metadata.namespace"
        yield FieldErrors.invalid(f"spec.{RESOURCE}.namespace", named, text)
    if spec.get(PATH) is not None:
        text = "disallowed on this kind of request"
        yield FieldErrors.invalid(f"spec.{PATH}", spec[PATH], text)
