"""Affinity and spreading are what a pod may have: which fields are named, term by term."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject
from hypercobalt.vmi.rules import affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODES = f"{REQUIRED}.nodeSelectorTerms"
LONG = "x" * 64


def fields(spec: JsonObject) -> list[str]:
    found = At(spec, "spec")
    causes = (*affinity.affinity(found), *affinity.spreading(found))
    return [cause.field.removeprefix("spec.") for cause in causes]


def by(key: str, operator: str, *values: str) -> JsonObject:
    listed: list[Json] = list(values)
    return {"key": key, "operator": operator, "values": listed}


def of_nodes(*terms: JsonObject, preferred: JsonObject | None = None) -> JsonObject:
    listed: list[Json] = list(terms)
    found: JsonObject = {REQUIRED: {"nodeSelectorTerms": listed}} if terms else {}
    return {"affinity": {"nodeAffinity": found | ({PREFERRED: [preferred]} if preferred else {})}}


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (by("k", "In", "a", "b"), ""),
        (by("example.com/k", "NotIn", "a"), ""),
        (by("k", "In"), "values"),
        (by("k", "NotIn"), "values"),
        (by("k", "Exists"), ""),
        (by("k", "Exists", "a"), "values"),
        (by("k", "DoesNotExist"), ""),
        (by("k", "DoesNotExist", "a"), "values"),
        (by("k", "Gt", "1"), ""),
        (by("k", "Gt"), "values"),
        (by("k", "Lt", "1", "2"), "values"),
        (by("k", ""), "operator"),
        (by("", "Exists"), "key"),
        (by(LONG, "Exists"), "key"),
        (by("a b", "Exists"), "key"),
    ],
)
def test_expressions_about_labels_of_nodes(one: JsonObject, named: str) -> None:
    expected = [f"nodeAffinity.{NODES}[0].matchExpressions[0].{named}"] if named else []
    assert fields(of_nodes({"matchExpressions": [one]})) == expected


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (by("metadata.name", "In", "a"), []),
        (by("metadata.name", "NotIn", "a"), []),
        (by("metadata.uid", "In", "a"), ["key"]),
        (by("metadata.name", "Exists", "a"), ["operator"]),
        (by("metadata.name", "In"), ["values"]),
        (by("metadata.name", "In", "a", "b"), ["values"]),
        (by("name", "Gt"), ["operator", "key"]),
        (by("metadata.name", "In", "A_b"), ["values[0]"]),
        (by("metadata.name", "Exists", "a.b", "A_b"), ["operator", "values[1]"]),
        (by("name", "In", "A_b"), ["key"]),
    ],
)
def test_fields_of_nodes_are_their_names(one: JsonObject, named: list[str]) -> None:
    at = f"nodeAffinity.{NODES}[0].matchFields[0]"
    assert fields(of_nodes({"matchFields": [one]})) == [f"{at}.{name}" for name in named]


def test_required_affinity_to_nodes_has_a_term() -> None:
    without: JsonObject = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}
    assert fields(without) == [f"nodeAffinity.{NODES}"]
    assert fields({"affinity": {"nodeAffinity": {}}}) == []


@pytest.mark.parametrize(("weight", "fits"), [(0, False), (1, True), (100, True), (101, False)])
def test_weights_are_from_1_to_100(weight: int, *, fits: bool) -> None:
    preferred: JsonObject = {"weight": weight, "preference": {}}
    at = [] if fits else [f"nodeAffinity.{PREFERRED}[0].weight"]
    assert fields(of_nodes(preferred=preferred)) == at
    wrong: JsonObject = {"weight": 1, "preference": {"matchExpressions": [by("", "Exists")]}}
    named = f"nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key"
    assert fields(of_nodes(preferred=wrong)) == [named]
    company: JsonObject = {"weight": weight, "podAffinityTerm": {"topologyKey": "k"}}
    at = [] if fits else [f"podAffinity.{PREFERRED}[0].weight"]
    assert fields({"affinity": {"podAffinity": {PREFERRED: [company]}}}) == at


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(
    ("term", "named"),
    [
        ({}, []),
        ({"topologyKey": ""}, ["topologyKey"]),
        ({"namespaces": ["a", "b-1"]}, []),
        ({"namespaces": ["a", "b.c"]}, ["namespace"]),
        ({"labelSelector": {"matchLabels": {"a": "b", "c": ""}}}, []),
        ({"labelSelector": {"matchLabels": {"a": "b", "c": " "}}}, ["labelSelector.matchLabels"]),
        ({"labelSelector": {"matchLabels": {"a": "b", "": "d"}}}, ["labelSelector.matchLabels"]),
        ({"labelSelector": {"matchLabels": {"a": LONG}}}, ["labelSelector.matchLabels"]),
        ({"namespaceSelector": {"matchLabels": {"/": "b"}}}, ["namespaceSelector.matchLabels"]),
        ({"labelSelector": {"matchExpressions": [by("a", "In", "b")]}}, []),
        ({"labelSelector": {"matchExpressions": [by("a", "NotIn", "")]}}, []),
        ({"labelSelector": {"matchExpressions": [by("a", "Exists")]}}, []),
        ({"labelSelector": {"matchExpressions": [by("a", "DoesNotExist")]}}, []),
        (
            {"labelSelector": {"matchExpressions": [by("a", "Gt", "1")]}},
            ["labelSelector.matchExpressions[0].operator"],
        ),
        (
            {"labelSelector": {"matchExpressions": [by("a", "In")]}},
            ["labelSelector.matchExpressions[0].values"],
        ),
        (
            {"labelSelector": {"matchExpressions": [by("a", "NotIn")]}},
            ["labelSelector.matchExpressions[0].values"],
        ),
        (
            {"labelSelector": {"matchExpressions": [by("a", "Exists", "b")]}},
            ["labelSelector.matchExpressions[0].values"],
        ),
        (
            {"labelSelector": {"matchExpressions": [by("a", "Exists"), by("", "In", "b", "*")]}},
            [
                "labelSelector.matchExpressions[1].key",
                "labelSelector.matchExpressions[1].values[1]",
            ],
        ),
    ],
)
def test_terms_about_pods(kind: str, term: JsonObject, named: list[str]) -> None:
    given: JsonObject = {"topologyKey": "kubernetes.io/hostname", **term}
    required = fields({"affinity": {kind: {REQUIRED: [given]}}})
    assert required == [f"{kind}.{REQUIRED}[0].{name}" for name in named]
    weighted: JsonObject = {"weight": 5, "podAffinityTerm": given}
    preferred = fields({"affinity": {kind: {PREFERRED: [weighted]}}})
    assert preferred == [f"{kind}.{PREFERRED}[0].podAffinityTerm.{name}" for name in named]


PAIR = "{topologyKey, whenUnsatisfiable}"


def spread(**changed: Json) -> JsonObject:
    given: JsonObject = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {**given, **changed}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], []),
        ([spread()], []),
        ([spread(maxSkew=0)], ["[0].maxSkew"]),
        ([spread(maxSkew=-1)], ["[0].maxSkew"]),
        ([spread(topologyKey="")], ["[0].topologyKey"]),
        ([spread(whenUnsatisfiable="")], ["[0].whenUnsatisfiable"]),
        ([spread(), spread(whenUnsatisfiable="ScheduleAnyway"), spread(topologyKey="host")], []),
        ([spread(), spread(), spread()], [f"[0].{PAIR}", f"[1].{PAIR}"]),
        (
            [spread(labelSelector={"matchLabels": {"": "x"}})],
            [".labelSelector.matchLabels"],
        ),
    ],
)
def test_constraints_on_spreading(given: list[Json], named: list[str]) -> None:
    expected = [f"topologySpreadConstraints{name}" for name in named]
    assert fields({"topologySpreadConstraints": given}) == expected
