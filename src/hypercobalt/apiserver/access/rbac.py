"""RBAC: roles and bindings as they are stored, and the one decision over them.

The index follows the store's published writes, so a decision sees every write that was answered.
What a subject may do is compiled when it is first needed and kept until one of its bindings, or a
role that they refer to, changes.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go and pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from hypercobalt.apiserver.access.attributes import Attributes, forbidden
from hypercobalt.apiserver.access.rules import Grants, Rule
from hypercobalt.apiserver.errors import aggregate
from hypercobalt.apiserver.requests.request import MASTERS, User
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")
GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = f"roles.{GROUP}", f"clusterroles.{GROUP}"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = f"rolebindings.{GROUP}", f"clusterrolebindings.{GROUP}"
ALWAYS_ALLOWED = ("/healthz", "/livez", "/readyz")  # --authorization-always-allow-paths

Scope = tuple[str, str]  # namespace ("" for the whole cluster), subject


class _Role(msgspec.Struct):
    rules: tuple[Rule, ...] | None = None


class RoleRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Subject(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""

    def known_as(self, namespace: str) -> str:
        """The subject as a key of the index."""
        if self.kind == "ServiceAccount":
            return f"User system:serviceaccount:{self.namespace or namespace}:{self.name}"
        return f"{self.kind} {self.name}"

    def described(self, namespace: str) -> str:
        if self.kind != "ServiceAccount":
            return f'{self.kind} "{self.name}"'
        return f'{self.kind} "{self.name}/{self.namespace or namespace}"'


class _Binding(msgspec.Struct):
    roleRef: RoleRef = RoleRef()  # noqa: N815  # wire name
    subjects: tuple[_Subject, ...] | None = None


_roles, _bindings = msgspec.json.Decoder(_Role), msgspec.json.Decoder(_Binding)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


class Rbac:
    """Decides; its rules are those in the store."""

    def __init__(self, store: Store) -> None:
        self._rules: dict[Key, tuple[Rule, ...]] = {}
        self._held: dict[Key, _Binding] = {}
        self._by_scope: dict[Scope, dict[Key, _Subject]] = {}
        self._by_role: dict[Key, set[Key]] = {}  # the bindings that refer to it
        self._compiled: dict[Scope, Grants] = {}
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            for key, stored in store.scan(resource):
                self._note(key, stored.data)
        store.listen(self._on_event)

    # -- decisions -----------------------------------------------------------------------------

    def authorize(self, user: User, attributes: Attributes) -> Decision:
        """Decide whether a user may do one thing."""
        if MASTERS in user.groups or attributes.path in ALWAYS_ALLOWED:
            return Decision(allowed=True)
        missing: list[str] = []
        for scope in _scopes(user, attributes.namespace):
            grants = self._compiled.get(scope) or self._compile(scope)
            if grants is None:
                continue
            if source := grants.source(attributes):
                return Decision(True, f"RBAC: allowed by {source}")
            missing += grants.missing
        return Decision(False, f"RBAC: {aggregate(missing)}" if missing else "")

    def check(self, user: User, attributes: Attributes) -> None:
        """Refuse what a user may not do.

        Raises:
            StatusError: 403.
        """
        verdict = self.authorize(user, attributes)
        if not verdict.allowed:
            raise forbidden(user, attributes, verdict.reason)

    def rules_for(self, user: User, namespace: str) -> Iterator[Rule]:
        """Every rule that a user has in a namespace, those of the whole cluster first."""
        seen: set[Key] = set()
        for scope in _scopes(user, namespace):
            for binding in self._by_scope.get(scope, {}).keys() - seen:
                seen.add(binding)
                yield from self.rules_of(self._held[binding].roleRef, binding.namespace) or ()

    def rules_of(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """The rules of the role that a binding in `namespace` refers to; None without a role."""
        return self._rules.get(_role_key(ref, namespace))

    def _compile(self, scope: Scope) -> Grants | None:
        bindings = self._by_scope.get(scope)
        if bindings is None:
            return None
        found = self._compiled[scope] = Grants()
        for key, subject in bindings.items():
            self._grant(found, key, subject)
        return found

    def _grant(self, grants: Grants, key: Key, subject: _Subject) -> None:
        ref = self._held[key].roleRef
        rules = self.rules_of(ref, key.namespace)
        if rules is None:
            grants.missing.append(f'{ref.kind.lower()}.{GROUP} "{ref.name}" not found')
            return
        name = f"{key.name}/{key.namespace}" if key.namespace else key.name
        kind = "RoleBinding" if key.namespace else "ClusterRoleBinding"
        role = f'{ref.kind} "{ref.name}"'
        grants.add(rules, f'{kind} "{name}" of {role} to {subject.described(key.namespace)}')

    # -- following the store -------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        if event.key.resource.endswith(GROUP):
            self._note(event.key, None if event.type == "DELETED" else event.data)

    def _note(self, key: Key, data: bytes | None) -> None:
        if key.resource in (ROLES, CLUSTER_ROLES):
            self._rules.pop(key, None)
            if data is not None:
                self._rules[key] = _decoded(_roles, data, _Role()).rules or ()
            for binding in self._by_role.get(key, ()):
                self._forget(binding)
        elif key.resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            self._unbind(key)
            if data is not None:
                self._bind(key, _decoded(_bindings, data, _Binding()))

    def _bind(self, key: Key, binding: _Binding) -> None:
        self._held[key] = binding
        self._by_role.setdefault(_role_key(binding.roleRef, key.namespace), set()).add(key)
        for subject in binding.subjects or ():
            scope = key.namespace, subject.known_as(key.namespace)
            self._by_scope.setdefault(scope, {}).setdefault(key, subject)
        self._forget(key)

    def _unbind(self, key: Key) -> None:
        binding = self._held.get(key)
        if binding is None:
            return
        self._forget(key)
        del self._held[key]
        _drop(self._by_role, _role_key(binding.roleRef, key.namespace), key)
        for subject in binding.subjects or ():
            scope = key.namespace, subject.known_as(key.namespace)
            bindings = self._by_scope.get(scope, {})
            bindings.pop(key, None)
            if not bindings:
                self._by_scope.pop(scope, None)

    def _forget(self, binding: Key) -> None:
        """Compile again what the subjects of a binding may do."""
        for subject in self._held[binding].subjects or ():
            self._compiled.pop((binding.namespace, subject.known_as(binding.namespace)), None)


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes, nothing: T) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:  # of an older version: it grants nothing
        log.warning("rbac_object_ignored", reason=str(error))
        return nothing


def _role_key(ref: RoleRef, namespace: str) -> Key:
    if ref.kind == "ClusterRole":
        return Key(CLUSTER_ROLES, "", ref.name)
    return Key(ROLES, namespace, ref.name)


def _drop(index: dict[Key, set[Key]], role: Key, binding: Key) -> None:
    index[role].discard(binding)
    if not index[role]:
        del index[role]


def _scopes(user: User, namespace: str) -> Iterator[Scope]:
    subjects = (f"User {user.name}", *(f"Group {group}" for group in user.groups))
    for place in ("", namespace) if namespace else ("",):
        for subject in subjects:
            yield place, subject
