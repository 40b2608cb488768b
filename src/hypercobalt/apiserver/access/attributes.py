"""Attributes of a request that are authorized, verb and resource or verb and path, and the 403.

Read from the path and query that the pipeline serves, so that what is allowed is what is done.

Source: apiserver pkg/endpoints/request/requestinfo.go and
pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.apiserver.errors import StatusError, Subject, quote
from hypercobalt.apiserver.requests.request import Request, Target, User, parse_path
from hypercobalt.apiserver.requests.selectors import parse_fields

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Attributes:
    """One action to authorize.

    Args:
        verb: of Kubernetes for a resource, HTTP's in lower case for a path.
        name: empty where none is named, as in a create; None for objects of every name.
        path: of what is no resource; None for a resource.
    """

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str | None = ""
    path: str | None = None


def attributes_of(request: Request) -> Attributes:
    """The attributes of a request."""
    target = parse_path(request.path)
    if target is None:
        return Attributes(request.method.lower(), path=request.path)
    verb, name = _VERBS.get(request.method, ""), target.name
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
        if verb == "list":
            verb = "watch" if request.flag("watch") else "list"
            name = _selected_name(request)
    namespace = _namespace(target)
    return Attributes(verb, target.group, target.resource, target.subresource, namespace, name)


def _namespace(target: Target) -> str:
    """The namespace; a Namespace itself lies in its own, so that a Role there can grant it."""
    return target.name if target.resource == "namespaces" else target.namespace


def _selected_name(request: Request) -> str:
    """The one name that a field selector leaves; "" if no object can have it."""
    try:
        terms = parse_fields(request.text("fieldSelector"))
    except StatusError:
        return ""  # refused later, with the reason
    names = [term.value for term in terms if term.field == "metadata.name" and term.equal]
    name = names[0] if names else ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def forbidden(user: User, attributes: Attributes, reason: str) -> StatusError:
    """The 403 for a user and the action that was refused."""
    text = f"User {quote(user.name)} cannot {_described(attributes)}"
    for letter, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(letter, instead)  # as the real server: nothing that looks like HTML
    text = f"{text}: {reason}" if reason else text
    subject = Subject(attributes.group, attributes.resource, attributes.name or "")
    if not subject.qualified:
        message = f"forbidden: {text}"
    elif attributes.name:
        message = f'{subject.qualified} "{attributes.name}" is forbidden: {text}'
    else:
        message = f"{subject.qualified} is forbidden: {text}"
    return StatusError(403, "Forbidden", message, details=subject.details())


def _described(attributes: Attributes) -> str:
    if attributes.path is not None:
        return f"{attributes.verb} path {quote(attributes.path)}"
    resource = "/".join(filter(None, (attributes.resource, attributes.subresource)))
    where = f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else ""
    where = where or "at the cluster scope"
    group = quote(attributes.group)
    return f"{attributes.verb} resource {quote(resource)} in API group {group} {where}"
