"""Rules about affinity and spreading, as Kubernetes has them for pods.

KubeVirt names these fields as in a pod that has no more than them, so their paths lack `affinity`.

Source: k8s.io/kubernetes, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid
from hypercobalt.vmi.rules.syntax import (
    is_label,
    is_label_value,
    is_qualified_name,
    is_subdomain,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_HEAVIEST: Final = 100


def affinity(spec: At) -> Iterator[FieldCause]:
    """Whether affinity to nodes, and to and against pods, can be that of a pod."""
    found = spec["affinity"].members
    yield from _to_nodes(At(found.get("nodeAffinity"), "spec.nodeAffinity"))
    for name in ("podAffinity", "podAntiAffinity"):
        pods = At(found.get(name), f"spec.{name}")
        for term in pods[REQUIRED]:
            yield from _pods(term)
        for term in pods[PREFERRED]:
            yield from _weight(term)
            yield from _pods(term["podAffinityTerm"])


def _to_nodes(nodes: At) -> Iterator[FieldCause]:
    terms = nodes[REQUIRED]["nodeSelectorTerms"]
    if nodes[REQUIRED] and not terms.items:
        yield invalid(terms, "must have a term")
    for term in terms:
        yield from _nodes(term)
    for term in nodes[PREFERRED]:
        yield from _weight(term)
        yield from _nodes(term["preference"])


def _weight(term: At) -> Iterator[FieldCause]:
    if not 1 <= term["weight"].number <= _HEAVIEST:
        yield invalid(term["weight"], "must be from 1 to 100")


def _nodes(term: At) -> Iterator[FieldCause]:
    for one in term["matchExpressions"]:
        operator, values = one["operator"].text, len(one["values"].items)
        if not operator:
            yield invalid(one["operator"], "is required")
        if (
            (operator in {"In", "NotIn"} and not values)
            or (operator in {"Exists", "DoesNotExist"} and values)
            or (operator in {"Gt", "Lt"} and values != 1)
        ):
            yield invalid(one["values"], f"must suit {operator}")
        if not is_qualified_name(one["key"].text):
            yield invalid(one["key"], "must be the key of a label")
    for one in term["matchFields"]:
        if one["operator"].text not in {"In", "NotIn"}:
            yield invalid(one["operator"], "must be In or NotIn")
        elif len(one["values"].items) != 1:
            yield invalid(one["values"], "must be one")
        if one["key"].text != "metadata.name":
            yield invalid(one["key"], "must be metadata.name")
            continue
        for value in one["values"]:
            if not is_subdomain(value.text):
                yield invalid(value, "must be the name of a node")


def _pods(term: At) -> Iterator[FieldCause]:
    yield from _selector(term["labelSelector"], term["labelSelector"].path)
    yield from _selector(term["namespaceSelector"], term["namespaceSelector"].path)
    if not all(is_label(one.text) for one in term["namespaces"]):
        yield invalid(f"{term.path}.namespace", "must be the name of a namespace")
    if not is_qualified_name(term["topologyKey"].text):
        yield invalid(term["topologyKey"], "must be the key of a label")


def _selector(selector: At, path: str) -> Iterator[FieldCause]:
    labels = selector["matchLabels"].members
    if not all(
        is_qualified_name(key) and is_label_value(str(value)) for key, value in labels.items()
    ):
        yield invalid(f"{path}.matchLabels", "must be labels")
    for index, one in enumerate(selector["matchExpressions"]):
        here, operator = f"{path}.matchExpressions[{index}]", one["operator"].text
        values = [item.text for item in one["values"]]
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            yield invalid(f"{here}.operator", "must be In, NotIn, Exists or DoesNotExist")
        elif (operator in {"In", "NotIn"}) != bool(values):
            yield invalid(f"{here}.values", f"must suit {operator}")
        if not is_qualified_name(one["key"].text):
            yield invalid(f"{here}.key", "must be the key of a label")
        for at, value in enumerate(values):
            if not is_label_value(value):
                yield invalid(f"{here}.values[{at}]", "must be the value of a label")


def spreading(spec: At) -> Iterator[FieldCause]:
    """Whether constraints on spreading can be those of a pod."""
    found = list(spec["topologySpreadConstraints"])
    left = Counter(map(_spread, found))
    for one in found:
        key, otherwise = one["topologyKey"], one["whenUnsatisfiable"]
        if one["maxSkew"].number <= 0:
            yield invalid(one["maxSkew"], "must be above zero")
        if not is_qualified_name(key.text):
            yield invalid(key, "must be the key of a label")
        if not otherwise.text:
            yield invalid(otherwise, "is required")
        left[_spread(one)] -= 1
        if left[_spread(one)]:  # KubeVirt names the earlier one
            yield invalid(f"{one.path}.{{topologyKey, whenUnsatisfiable}}", "are those of another")
        # KubeVirt names no item here.
        yield from _selector(one["labelSelector"], "spec.topologySpreadConstraints.labelSelector")


def _spread(constraint: At) -> tuple[str, str]:
    return constraint["topologyKey"].text, constraint["whenUnsatisfiable"].text
