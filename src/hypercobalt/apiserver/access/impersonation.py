"""Impersonation (`kubectl --as`): the user that headers name, and whether it is allowed.

The user, UID, groups and extra fields must each be granted. There are several modes; the first that
is granted counts. The constrained ones also need a grant for this request in that name, and never
give `system:masters`; the last is the plain verb `impersonate`.

Source: apiserver pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access.attributes import Attributes, attributes_of, forbidden
from hypercobalt.apiserver.access.rbac import MASTERS, Rbac
from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.requests.request import ANONYMOUS, AUTHENTICATED, Request, User

NODE_NAME = "authentication.kubernetes.io/node-name"
_PREFIX = "impersonate-"
_EXTRA = f"{_PREFIX}extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE = "system:node:"


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
    refusal: StatusError | None = None
    for mode in _modes(request.user, wanted):
        try:
            for asked in mode.questions(attributes_of(request), wanted):
                rbac.check(request.user, asked)
        except StatusError as error:
            refusal = refusal or error
        else:
            return mode.became(wanted)
    raise refusal or forbidden(request.user, attributes_of(request), "")  # there is always one


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


@dataclass(frozen=True, slots=True)
class _Mode:
    """One way to be allowed: the verb `impersonate`, or a constrained one with its own name."""

    name: str = ""

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}" if self.name else "impersonate"

    def questions(self, request: Attributes, wanted: User) -> Iterator[Attributes]:
        """The actions that must be allowed, all of them."""
        if self.name:
            yield replace(request, verb=f"impersonate-on:{self.name}:{request.verb}")
        group = _AUTHENTICATION if self.name else ""
        yield self._user(group, wanted.name)
        if wanted.uid:
            yield Attributes(self.verb, _AUTHENTICATION, "uids", name=wanted.uid)
        for name in wanted.groups:
            yield Attributes(self.verb, group, "groups", name=name)
        yield from self._extra(wanted.extra)

    def _user(self, group: str, name: str) -> Attributes:
        if account := _account(name):
            return Attributes(self.verb, group, "serviceaccounts", "", *account)
        node = _node(name)
        if self.name and node:
            node = "*" if self.name == "associated-node" else node
            return Attributes(self.verb, group, "nodes", name=node)
        return Attributes(self.verb, group, "users", name=name)

    def _extra(self, extra: Mapping[str, tuple[str, ...]]) -> Iterator[Attributes]:
        for key, values in extra.items():
            for value in values:
                yield Attributes(self.verb, _AUTHENTICATION, "userextras", key, name=value)

    def became(self, wanted: User) -> User:
        """The user that an allowed request counts as."""
        groups = wanted.groups
        if account := _account(wanted.name):
            groups = groups or account_groups(account[0])
        elif self.name and _node(wanted.name):
            groups = ("system:nodes",)
        outside = ANONYMOUS.groups[0]
        if wanted.name == ANONYMOUS.name:
            groups = (*groups, outside)
        elif outside not in groups:
            groups = (*groups, AUTHENTICATED)
        return replace(wanted, groups=tuple(dict.fromkeys(groups)))


def _modes(user: User, wanted: User) -> Iterator[_Mode]:
    bare = not (wanted.uid or wanted.groups or wanted.extra)
    account, node = _account(wanted.name), _node(wanted.name)
    if bare and node:
        if _account(user.name) and user.extra.get(NODE_NAME) == (node,):
            yield _Mode("associated-node")
        yield _Mode("arbitrary-node")
    if bare and account:
        yield _Mode("serviceaccount")
    if not (account or node or {"", MASTERS} & {*wanted.groups}):
        yield _Mode("user-info")
    yield _Mode()


def _node(user: str) -> str:
    """The Node whose kubelet a user is; empty of any other."""
    name = user.removeprefix(_NODE)
    return "" if name == user or names.subdomain_errors(name) else name


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
