"""Built-in kinds: the defaults that are filled in, and what is refused."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.kinds.builtin import checks, defaults, events, strategies

Object = dict[str, Any]
CONTAINER: Object = {"name": "c", "image": "i:1"}
POD: Object = {"spec": {"containers": [CONTAINER]}}
WORKLOAD: Object = {
    "kind": "Deployment",
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, **POD},
    },
}


def defaulted(kind: str, obj: Object) -> Object:
    changed = copy.deepcopy(obj)
    defaults.DEFAULTS[kind](changed)
    return changed


def faults(kind: str, obj: Object, old: Object | None = None) -> set[str]:
    return {cause.field for cause in checks.CHECKS[kind](obj, old)}


@pytest.mark.parametrize("kind", defaults.DEFAULTS)
def test_defaults_twice_are_defaults_once(kind: str) -> None:
    for obj in ({"metadata": {"name": "n"}, "spec": {}, "status": {}}, WORKLOAD, POD):
        full: Object = {"metadata": {"name": "n"}, "status": {}, **obj}
        once = defaulted(kind, full)
        assert defaulted(kind, once) == once


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("i:1", "IfNotPresent"),
        ("host:5000/i", "Always"),
        ("host:5000/i:1", "IfNotPresent"),
        ("i@sha256:abc", "IfNotPresent"),
    ],
)
def test_images_are_pulled_by_their_tag(image: str, policy: str) -> None:
    pod = defaulted("Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_follow_limits() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    pod = defaulted("Pod", {"spec": {"containers": [{**CONTAINER, "resources": resources}]}})
    found = pod["spec"]["containers"][0]["resources"]["requests"]
    assert found == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({name: {"cpu": "1", "memory": "1"} for name in ("limits", "requests")}, "Guaranteed"),
    ],
)
def test_quality_of_service_follows_from_resources(resources: Object, quality: str) -> None:
    pod: Object = {"spec": {"containers": [{**CONTAINER, "resources": resources}]}}
    strategies.begin("Pod", pod)
    assert pod["status"]["qosClass"] == quality


def test_plain_text_in_a_secret_is_encoded() -> None:
    secret = defaulted("Secret", {"data": {"a": "eA=="}, "stringData": {"b": "x", "a": "y"}})
    assert secret == {"type": "Opaque", "data": {"a": "eQ==", "b": "eA=="}}


@pytest.mark.parametrize(
    ("kind", "obj", "old", "field"),
    [
        ("Secret", {"type": "kubernetes.io/tls"}, None, "data[tls.crt]"),
        ("Secret", {"type": "b"}, {"type": "a"}, "type"),
        ("Secret", {"data": {"a": ""}}, {"immutable": True}, "data"),
        ("ConfigMap", {"data": {"a/b": ""}}, None, "data[a/b]"),
        ("ConfigMap", {"immutable": False}, {"immutable": True}, "immutable"),
        ("Pod", {"spec": {}}, None, "spec.containers"),
        ("Pod", {"spec": {"containers": [{"name": "c"}]}}, None, "spec.containers[0].image"),
        ("Pod", {"spec": {"containers": [CONTAINER] * 2}}, None, "spec.containers[1].name"),
        ("Pod", {"spec": {"containers": [{"image": "i"}]}}, None, "spec.containers[0].name"),
        ("Deployment", {"kind": "Deployment", "spec": {}}, None, "spec.selector"),
        ("Service", {"spec": {"type": "ClusterIP"}}, None, "spec.ports"),
        ("Service", {"spec": {"ports": [{"port": 70000}]}}, None, "spec.ports[0].port"),
        ("Event", {"metadata": {"namespace": "a"}}, None, "involvedObject.namespace"),
        ("RoleBinding", {"roleRef": {"kind": "X"}}, None, "roleRef.kind"),
        ("RoleBinding", {"roleRef": {"kind": "Role"}}, {"roleRef": {}}, "roleRef"),
        ("Lease", {"spec": {"leaseDurationSeconds": 0}}, None, "spec.leaseDurationSeconds"),
    ],
)
def test_invalid_object_is_refused_by_field(
    kind: str, obj: Object, old: Object | None, field: str
) -> None:
    assert field in faults(kind, obj, old)


def test_good_objects_pass() -> None:
    for kind, obj in (("Deployment", WORKLOAD), ("Pod", POD), ("ConfigMap", {"data": {"a.b": ""}})):
        assert faults(kind, defaulted(kind, obj) if kind in defaults.DEFAULTS else obj) == set()


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("Secret", {"data": {"a": "no base64!"}}),
        ("Secret", {"data": {"a": "a"}}),
        ("ConfigMap", {"binaryData": {"a": "***"}}),
        ("Lease", {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}),
        ("Lease", {"spec": {"renewTime": "yesterday"}}),
        ("Event", {"eventTime": "2026-01-01"}),
    ],
)
def test_value_that_go_could_not_decode_is_refused(kind: str, obj: Object) -> None:
    with pytest.raises(StatusError) as refused:
        checks.check_decodable(kind, "v1", obj)
    assert refused.value.code == 400


def test_the_two_event_groups_are_two_views_of_one_event() -> None:
    event: Object = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": {"name": "p"},
        "note": "n",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c",
    }
    core = events.to_core(dict(event))
    assert core["apiVersion"] == "v1"
    assert core["involvedObject"] == {"name": "p"}
    assert core["message"] == "n"
    assert events.from_core(core) == event


NAMES = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "spec",
    "status",
    "selector",
    "matchLabels",
    "matchExpressions",
    "template",
    "containers",
    "initContainers",
    "image",
    "ports",
    "port",
    "volumes",
    "resources",
    "limits",
    "requests",
    "env",
    "type",
    "data",
    "stringData",
    "binaryData",
    "immutable",
    "roleRef",
    "kind",
    "subjects",
    "involvedObject",
    "minAvailable",
    "maxUnavailable",
    "strategy",
    "updateStrategy",
    "rollingUpdate",
    "clusterIP",
    "tolerations",
    "livenessProbe",
    "httpGet",
    "rules",
    "verbs",
]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2**40)
    | st.sampled_from(["", "a", "RollingUpdate"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(NAMES), ODD, max_size=6), st.booleans())
@settings(max_examples=100)
def test_checks_take_any_object(obj: Object, anew: bool) -> None:
    for kind, check in checks.CHECKS.items():
        with contextlib.suppress(StatusError):  # what does not decode is not checked
            checks.check_decodable(kind, "v1", obj)
            for cause in check(obj, None if anew else {}):
                msgspec.json.encode(str(cause))
