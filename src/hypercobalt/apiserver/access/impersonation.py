"""Impersonation (`kubectl --as`): the user that headers name, and whether it is allowed.

The user, UID, groups and extra fields must each be granted with the verb `impersonate`. The
constrained verbs of Kubernetes 1.36 (`impersonate:user-info` and others) grant nothing here.

Source: apiserver pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import unquote

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access.attributes import Attributes
from hypercobalt.apiserver.access.rbac import Rbac
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.requests.request import (
    ANONYMOUS,
    AUTHENTICATED,
    Request,
    User,
)

_PREFIX = "impersonate-"
_EXTRA = f"{_PREFIX}extra-"
_AUTHENTICATION = "authentication.k8s.io"
VERB = "impersonate"


def acting_as(request: Request, headers: Iterable[tuple[str, str]], rbac: Rbac) -> User:
    """The user that a request counts as: the authenticated one, or the one that its headers name.

    Args:
        request: of the user who was authenticated.
        headers: all of the request, names in lower case, also those that are sent twice.
        rbac: decides what is allowed.

    Raises:
        StatusError: 400 for groups, a UID or extra fields without a user; 403.
    """
    wanted = _named([(n, value) for n, value in headers if n.startswith(_PREFIX)])
    if wanted is None:
        return request.user
    for action in _actions(wanted):
        rbac.check(request.user, action)
    return _became(wanted)


def _named(sent: list[tuple[str, str]]) -> User | None:
    first = dict(reversed(sent))
    name, uid = first.get(f"{_PREFIX}user", ""), first.get(f"{_PREFIX}uid", "")
    groups = tuple(value for header, value in sent if header == f"{_PREFIX}group")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in sent:
        if header.startswith(_EXTRA):
            key = unquote(header.removeprefix(_EXTRA))
            extra[key] = (*extra.get(key, ()), value)
    if name:
        return User(name, uid, groups, extra)
    if groups or uid or extra:
        raise errors.bad_request("Impersonate-Group, -Uid and -Extra need Impersonate-User")
    return None


def _actions(wanted: User) -> Iterator[Attributes]:
    """The actions that must be allowed, all of them."""
    if account := _account(wanted.name):
        yield Attributes(VERB, "", "serviceaccounts", "", *account)
    else:
        yield Attributes(VERB, "", "users", name=wanted.name)
    if wanted.uid:
        yield Attributes(VERB, _AUTHENTICATION, "uids", name=wanted.uid)
    for name in wanted.groups:
        yield Attributes(VERB, "", "groups", name=name)
    for key, values in wanted.extra.items():
        for value in values:
            yield Attributes(VERB, _AUTHENTICATION, "userextras", key, name=value)


def _became(wanted: User) -> User:
    """The user that an allowed request counts as."""
    groups, outside = wanted.groups, ANONYMOUS.groups[0]
    if account := _account(wanted.name):
        groups = groups or account_groups(account[0])
    if wanted.name == ANONYMOUS.name:
        groups = (*groups, outside)
    elif outside not in groups:
        groups = (*groups, AUTHENTICATED)
    return replace(wanted, groups=tuple(dict.fromkeys(groups)))


def _account(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user is."""
    match user.split(":"):
        case ["system", "serviceaccount", namespace, name]:
            wrong = [*names.dotless_label_errors(namespace), *names.subdomain_errors(name)]
            return None if wrong else (namespace, name)
        case _:
            return None


def account_groups(namespace: str) -> tuple[str, str]:
    """The groups that every service account of a namespace is in."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
