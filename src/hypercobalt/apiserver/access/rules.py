"""Rules of roles, and what many of them grant together.

`Grants` is compiled from all rules that one subject has in one scope. It is keyed by resource, and
rules that differ in their resourceNames only are one, so a decision costs a few look-ups however
many roles there are.

Source: kubernetes pkg/apis/rbac/v1/evaluation_helpers.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

import msgspec

from hypercobalt.apiserver.access.attributes import Attributes
from hypercobalt.errors import HypercobaltError

ALL = "*"
Texts = tuple[str, ...]


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Source: rbac/v1 PolicyRule."""

    verbs: Texts | None = None
    apiGroups: Texts | None = None  # noqa: N815  # wire name
    resources: Texts | None = None
    resourceNames: Texts | None = None  # noqa: N815  # wire name
    nonResourceURLs: Texts | None = None  # noqa: N815  # wire name


@dataclass(slots=True)
class _Named:
    """Rules on one resource with the same verbs and groups: sources by object's name."""

    verbs: frozenset[str]
    groups: frozenset[str]
    sources: dict[str | None, str] = field(default_factory=dict[str | None, str])  # None: any name

    def source(self, attributes: Attributes) -> str:
        if attributes.verb not in self.verbs and ALL not in self.verbs:
            return ""
        if attributes.group not in self.groups and ALL not in self.groups:
            return ""
        return self.sources.get(None) or self.sources.get(attributes.name, "")


@dataclass(frozen=True, slots=True)
class _Urls:
    verbs: frozenset[str]
    whole: frozenset[str]
    prefixes: Texts
    source: str

    def match(self, attributes: Attributes, path: str) -> bool:
        if attributes.verb not in self.verbs and ALL not in self.verbs:
            return False
        return path in self.whole or path.startswith(self.prefixes)


@dataclass(slots=True)
class Grants:
    """The rights of one subject in one scope.

    Args:
        missing: what refers to a role that is not there, in the words of a refusal.
    """

    missing: list[str] = field(default_factory=list[str])
    _resources: dict[str, dict[tuple[frozenset[str], frozenset[str]], _Named]] = field(
        default_factory=dict[str, dict[tuple[frozenset[str], frozenset[str]], _Named]]
    )
    _urls: list[_Urls] = field(default_factory=list[_Urls])

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Grants:
        """The rights that some rules grant, without their sources."""
        grants = cls()
        grants.add(rules, "these rules")
        return grants

    def add(self, rules: Iterable[Rule], source: str) -> None:
        """Add the rules of one role; `source` is the binding that gives them."""
        for rule in rules:
            verbs, groups = frozenset(rule.verbs or ()), frozenset(rule.apiGroups or ())
            for resource in rule.resources or ():
                alike = self._resources.setdefault(resource, {})
                named = alike.setdefault((verbs, groups), _Named(verbs, groups))
                for name in rule.resourceNames or (None,):
                    named.sources.setdefault(name, source)
            if urls := rule.nonResourceURLs:
                prefixes = tuple(url.rstrip(ALL) for url in urls if url.endswith(ALL))
                self._urls.append(_Urls(verbs, frozenset(urls), prefixes, source))

    def source(self, attributes: Attributes) -> str:
        """The binding that grants an action; empty without one."""
        if attributes.path is not None:
            matching = (
                urls.source for urls in self._urls if urls.match(attributes, attributes.path)
            )
            return next(matching, "")
        for resource in _patterns(attributes):
            for named in self._resources.get(resource, {}).values():
                if source := named.source(attributes):
                    return source
        return ""


def _patterns(attributes: Attributes) -> Iterator[str]:
    """The names in a rule that match the resource of an action."""
    yield ALL
    if not attributes.subresource:
        yield attributes.resource
    else:
        yield f"{attributes.resource}/{attributes.subresource}"
        yield f"{ALL}/{attributes.subresource}"


# -- comparing sets of rules -------------------------------------------------------------------

MAX_ATOMS = 10_000  # single rights that a role is taken apart into: 50 ms of the loop


class TooManyRightsError(HypercobaltError):
    """A role is too large to be compared, right by right."""


def missing_rules(held: Grants, wanted: Iterable[Rule]) -> list[Rule]:
    """The rights in `wanted` that `held` does not cover, one rule each.

    Raises:
        TooManyRightsError: `wanted` is too large.

    Source: component-helpers auth/rbac/validation/policy_comparator.go.
    """
    return [atom for atom in atoms(wanted) if not held.source(_action(atom))]


def atoms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Single rights: of one verb on one resource of one group and name, or on one URL."""
    found = 0
    for rule in rules:
        sizes = [len(part or ()) for part in (rule.apiGroups, rule.resources, rule.verbs)]
        found += math.prod(sizes) * max(1, len(rule.resourceNames or ()))
        found += len(rule.nonResourceURLs or ()) * sizes[2]
        if found > MAX_ATOMS:
            raise TooManyRightsError(f"its rules have more than {MAX_ATOMS} single rights")
        for group, resource, verb in product(
            rule.apiGroups or (), rule.resources or (), rule.verbs or ()
        ):
            for name in rule.resourceNames or (None,):
                names = None if name is None else (name,)
                yield Rule((verb,), (group,), (resource,), names)
        for url, verb in product(rule.nonResourceURLs or (), rule.verbs or ()):
            yield Rule((verb,), nonResourceURLs=(url,))


def _action(atom: Rule) -> Attributes:
    """A single right as the action that it allows."""
    (verb,) = atom.verbs or ("",)
    for url in atom.nonResourceURLs or ():
        return Attributes(verb, path=url)
    (group,), (whole,) = atom.apiGroups or ("",), atom.resources or ("",)
    resource, _, subresource = whole.partition("/")
    (name,) = atom.resourceNames or (None,)
    return Attributes(verb, group, resource, subresource, name=name)
