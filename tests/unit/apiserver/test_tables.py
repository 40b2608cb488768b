"""What `kubectl get` prints: ages, JSONPath columns, and the row of every built-in kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.apiserver.kinds.builtin.rows import ROWS
from hypercobalt.apiserver.kinds.jsonpath import compile_path
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.kinds.tables import custom_printer

JSON = Any
Object = dict[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)


# -- JSONPath ----------------------------------------------------------------------------------


OBJ: Object = {
    "spec": {
        "a": 1,
        "x.io/b": "dotted",
        "list": [{"n": "one", "v": 1}, {"n": "two", "v": 2}],
        "map": {"p": "q"},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "B", "status": "F"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.a", [1]),
        ("{.spec.a}", [1]),
        (".spec.nothing", []),
        (".spec.a.b.c", []),
        (r".spec.x\.io/b", ["dotted"]),
        (".spec['x.io/b']", ["dotted"]),
        ('.spec["map"].p', ["q"]),
        (".spec.list[0].n", ["one"]),
        (".spec.list[-1].n", ["two"]),
        (".spec.list[9].n", []),
        (".spec.list[*].n", ["one", "two"]),
        (".spec.map[*]", ["q"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='B')].status", ["F"]),
        (".spec.list[?(@.v==2)].n", ["two"]),
        ('.status.conditions[?(@.type=="C")].status', []),
        (".spec.a[?(@.x==1)]", []),
    ],
)
def test_json_path_gives_its_values(path: str, found: list[JSON]) -> None:
    assert compile_path(path).all(OBJ) == found


@pytest.mark.parametrize(
    "path", ["", "spec", "..a", ".a[", ".a[x]", ".a[?(1)]", ".a[0:2]", ".a..b"]
)
def test_unsupported_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        compile_path(path)


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("string", "a", "a"),
        ("string", 5, "5"),
        ("string", True, "true"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("integer", 5, 5),
        ("integer", 5.7, 5),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 5.5, 5.5),
        ("number", "x", None),
        ("boolean", True, True),
        ("boolean", "true", None),
        ("date", "2026-05-31T23:58:00Z", "2m"),
        ("date", "2026-05-31T23:58:00.123456+00:00", "119s"),
        ("date", "yesterday", "<invalid>"),
        ("date", 5, None),
    ],
)
def test_cell_of_a_custom_column_has_its_type(kind: str, value: JSON, cell: JSON) -> None:
    column: JSON = {"name": "C", "type": kind, "jsonPath": ".v"}
    printer = custom_printer([column])
    assert printer.row({"metadata": {"name": "n"}, "v": value}, NOW) == ["n", cell]
    assert printer.row({"metadata": {"name": "n"}}, NOW) == ["n", None]


# -- built-in kinds ----------------------------------------------------------------------------


CREATED = {"name": "n", "creationTimestamp": "2026-05-31T22:00:00Z"}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}], "nodeSelector": {"a": "b"}}}
RICH: dict[str, tuple[Object, list[JSON]]] = {
    "Namespace": ({"status": {"phase": "Active"}}, ["n", "Active", "120m"]),
    "Node": (
        {
            "metadata": {**CREATED, "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "::1"}],
                "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "osImage": "Debian"},
            },
        },
        ["n", "Ready,SchedulingDisabled", "worker", "120m", "v1", "::1", "<none>", "Debian", "6"],
    ),
    "Pod": (
        {
            "spec": {"nodeName": "kvm-a", "containers": [{}, {}]},
            "status": {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "containerStatuses": [{"ready": True, "restartCount": 3}, {"ready": False}],
            },
        },
        ["n", "1/2", "Running", "3", "120m", "10.0.0.1", "kvm-a", "<none>", "<none>"],
    ),
    "Secret": ({"type": "Opaque", "data": {"a": "", "b": ""}}, ["n", "Opaque", 2, "120m"]),
    "ConfigMap": ({"data": {"a": ""}, "binaryData": {"b": ""}}, ["n", 2, "120m"]),
    "Service": (
        {
            "spec": {
                "type": "NodePort",
                "clusterIP": "10.0.0.1",
                "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}],
                "selector": {"b": "2", "a": "1"},
            }
        },
        ["n", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP", "120m", "a=1,b=2"],
    ),
    "Deployment": (
        {
            "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        },
        ["n", "1/2", 2, 1, "120m", "c", "i:1", "a=b"],
    ),
    "DaemonSet": (
        {"spec": {"template": TEMPLATE}, "status": {"desiredNumberScheduled": 2}},
        ["n", 2, 0, 0, 0, 0, "a=b", "120m", "c", "i:1", "<none>"],
    ),
    "PodDisruptionBudget": (
        {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
        ["n", "50%", "N/A", 1, "120m"],
    ),
    "Lease": ({"spec": {"holderIdentity": "me"}}, ["n", "me", "120m"]),
    "RoleBinding": (
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "x"},
            ],
        },
        ["n", "Role/r", "120m", "u", "", "x/s"],
    ),
    "Event": (
        {
            "involvedObject": {"kind": "Pod", "name": "p"},
            "type": "Normal",
            "reason": "R",
            "message": " m ",
            "count": 4,
            "lastTimestamp": "2026-05-31T23:58:00Z",
            "firstTimestamp": "2026-05-31T22:00:00Z",
            "source": {"component": "c", "host": "h"},
        },
        ["2m", "Normal", "R", "pod/p", "", "c, h", "m", "120m", 4, "n"],
    ),
}


@pytest.mark.parametrize("kind", RICH)
def test_row_of_a_full_object_has_every_cell(kind: str) -> None:
    obj, cells = RICH[kind]
    whole: Object = {"metadata": CREATED, **obj}
    row = ROWS[kind](whole, NOW)
    assert row[: len(cells)] == cells


KINDS = {
    resource.names.kind: resource
    for resource in Registry.load().builtin.values()
    if resource.group != "events.k8s.io" and resource.printer.columns  # reviews have none
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_has_a_cell_for_every_column(kind: str) -> None:
    printer = KINDS[kind].printer
    full = RICH[kind][0] if kind in RICH else {}
    objects: tuple[Object, ...] = ({}, {"metadata": {}}, {"metadata": CREATED, **full})
    for obj in objects:
        assert len(printer.row(obj, NOW)) == len(printer.columns)


# Names that the rows read, at any place and with any value.
WORDS = """
metadata name labels creationTimestamp deletionTimestamp spec status type reason count series
lastTimestamp conditions addresses address nodeInfo containerStatuses restartCount state waiting
containers initContainers initContainerStatuses ports port selector matchLabels matchExpressions
operator template data subjects roleRef kind involvedObject source ready lastState terminated
finishedAt exitCode startedAt running readinessGates replicas
"""
NAMES = st.sampled_from(WORDS.split())
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "Ready", "True", "x", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(NAMES, ODD, max_size=6))
@settings(max_examples=150)
def test_no_object_is_too_odd_for_a_row(obj: Object) -> None:
    for resource in KINDS.values():
        msgspec.json.encode(resource.printer.row(obj, NOW))


@given(ODD)
def test_no_value_is_too_odd_for_a_column(value: JSON) -> None:
    for kind in ("string", "integer", "number", "boolean", "date"):
        printer = custom_printer([{"name": "C", "type": kind, "jsonPath": ".v"}])
        msgspec.json.encode(printer.row({"v": value}, NOW))
