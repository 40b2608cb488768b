"""Refuse writes that give more rights than their user has, and patches that may not create.

A role may hold no right that its writer lacks, without the verb `escalate` on it; a binding may
refer to no role with such a right, without the verb `bind`.

Source: kubernetes pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access.attributes import Attributes, forbidden
from hypercobalt.apiserver.access.rbac import GROUP, Rbac, RoleRef
from hypercobalt.apiserver.access.rules import (
    ALL,
    Grants,
    Rule,
    Texts,
    TooManyRightsError,
    missing_rules,
)
from hypercobalt.apiserver.errors import JSONObject, StatusError, quote
from hypercobalt.apiserver.requests.request import MASTERS, Call, User
from hypercobalt.apiserver.values import list_at, object_at, text_at

_EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), nonResourceURLs=(ALL,)))
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")


def guarded(call: Call, rbac: Rbac) -> Call:
    """The same call, whose write is refused where it would give more rights.

    What the writer may do is taken now, in the loop: the write may be decided in a thread.
    """
    user, resource = call.request.user, call.resource
    if MASTERS in user.groups:
        return call
    create = None
    if call.request.method in ("PUT", "PATCH"):
        action = _action(call, "create")
        verdict = rbac.authorize(user, action)
        create = None if verdict.allowed else forbidden(user, action, verdict.reason)
    guard = None
    if resource.group == GROUP:
        held = Grants.of(rbac.rules_for(user, call.namespace))
        guard = _Guard(call, user, held, rbac)
    if create is None and guard is None:
        return call

    def check(new: JSONObject | None, old: JSONObject | None) -> None:
        if create is not None and old is None:
            raise create
        if guard is not None and new is not None:
            guard.check(new, old)

    return replace(call, guard=check)


@dataclass(frozen=True, slots=True)
class _Guard:
    """Looks at one write of a role or a binding."""

    call: Call
    user: User
    held: Grants
    rbac: Rbac

    def check(self, new: JSONObject, old: JSONObject | None) -> None:
        if old is not None and _uncollected(new) == _uncollected(old):
            return
        if self.call.resource.names.plural.endswith("bindings"):
            self._check_binding(new)
        elif not self.held.source(_action(self.call, "escalate")):
            self._check_role(new, old)

    def _check_role(self, new: JSONObject, old: JSONObject | None) -> None:
        rules = [msgspec.convert(rule, Rule) for rule in list_at(new, "rules")]
        self._check_held(new, rules)
        path = ("aggregationRule", "clusterRoleSelectors")
        if list_at(new, *path) or (old is not None and list_at(old, *path)):
            text = "must have cluster-admin privileges to use the aggregationRule"
            if missing_rules(self.held, _EVERYTHING):
                raise self._forbidden(new, text)

    def _check_binding(self, new: JSONObject) -> None:
        ref = RoleRef(text_at(new, "roleRef", "kind"), text_at(new, "roleRef", "name"))
        plural = f"{ref.kind.lower()}s"
        action = Attributes("bind", GROUP, plural, "", self.call.namespace, ref.name)
        if self.held.source(action):
            return
        rules = self.rbac.rules_of(ref, self.call.namespace)
        if rules is None:
            raise errors.not_found(self.call.resource.subject(ref.name))
        self._check_held(new, rules)

    def _check_held(self, new: JSONObject, rules: Iterable[Rule]) -> None:
        try:
            missing = missing_rules(self.held, rules)
        except TooManyRightsError as error:
            raise self._forbidden(new, str(error)) from error
        if missing:
            groups = " ".join(map(quote, self.user.groups))
            who = f"user {quote(self.user.name)} (groups=[{groups}])"
            lines = "\n".join(sorted({_compact(rule) for rule in _merged(missing)}))
            text = "is attempting to grant RBAC permissions not currently held"
            raise self._forbidden(new, f"{who} {text}:\n{lines}")

    def _forbidden(self, new: JSONObject, why: str) -> StatusError:
        return errors.forbidden(self.call.resource.subject(text_at(new, "metadata", "name")), why)


def _action(call: Call, verb: str) -> Attributes:
    resource = call.resource
    place = call.namespace, call.name
    return Attributes(verb, resource.group, resource.names.plural, call.subresource, *place)


def _uncollected(obj: JSONObject) -> JSONObject:
    """An object without what the collector of its dependents writes."""
    meta = object_at(obj, "metadata")
    return {**obj, "metadata": {n: part for n, part in meta.items() if n not in _COLLECTED}}


def _merged(atoms: Iterable[Rule]) -> Iterable[Rule]:
    """Single rights, with the verbs of one thing together."""
    found: dict[Rule, list[str]] = {}
    for atom in atoms:
        verbs = found.setdefault(msgspec.structs.replace(atom, verbs=None), [])
        verbs.extend(atom.verbs or ())
    for thing, verbs in found.items():
        if thing.nonResourceURLs:
            yield from (msgspec.structs.replace(thing, verbs=(verb,)) for verb in verbs)
        else:
            yield msgspec.structs.replace(thing, verbs=tuple(verbs))


def _compact(rule: Rule) -> str:
    """A rule in a line, as Go prints it."""
    parts: tuple[tuple[str, Texts | None], ...] = (
        ("APIGroups", rule.apiGroups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.nonResourceURLs),
        ("ResourceNames", rule.resourceNames),
        ("Verbs", rule.verbs),
    )
    shown = (f"{name}:[{' '.join(map(quote, texts))}]" for name, texts in parts if texts)
    return f"{{{', '.join(shown)}}}"
