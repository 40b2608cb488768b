"""Bindings: which are refused, and what one makes of a pod."""

from __future__ import annotations

import msgspec
import pytest

from hypercobalt.apiserver.decisions import binding
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.bodies import Body
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Call, Request
from hypercobalt.apiserver.storage.objects import Stored

PODS = Registry.load().find("", "v1", "pods")
UNSCHEDULED: JSONObject = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
READY: JSONObject = {"type": "Ready", "status": "False"}


def call(body: JSONObject) -> Call:
    assert PODS is not None
    request = Request("POST", "", {}, {}, SYSTEM_USER)
    return Call(request, PODS, "lab", "a", "binding", body=Body({**body}))


def body(**target: str) -> JSONObject:
    return {"metadata": {"name": "a"}, "target": {"name": "node-a", **target}}


def stored(**status: object) -> Stored:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"x": "old"}},
        "spec": {"containers": []},
        "status": {"phase": "Pending", **status},
    }
    return Stored(7, msgspec.json.encode(pod))


def with_pod(path: str, **values: object) -> Stored:
    pod = msgspec.json.decode(stored().data)
    pod[path].update(values)
    return Stored(7, msgspec.json.encode(pod))


def bound(sent: JSONObject, held: Stored | None) -> JSONObject:
    made = binding.bind(call(sent), held, binding.read(call(sent)))
    assert made.new is not None
    return made.new


def refused(sent: JSONObject, held: Stored | None = None) -> StatusError:
    with pytest.raises(StatusError) as error:
        bound(sent, held)
    return error.value


def test_binding_sets_node_metadata_and_condition() -> None:
    named: JSONObject = {"name": "a", "uid": "u", "labels": {"x": "new"}}
    sent: JSONObject = {**body(kind="Node"), "metadata": named}
    pod = bound(sent, stored(conditions=[READY], nominatedNodeName="node-b"))
    assert msgspec.json.encode(pod["spec"]) == b'{"containers":[],"nodeName":"node-a"}'
    metadata, status = pod["metadata"], pod["status"]
    assert isinstance(metadata, dict)
    assert isinstance(status, dict)
    assert (metadata["labels"], "annotations" in metadata) == ({"x": "new"}, False)
    assert "nominatedNodeName" not in status
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    ready, scheduled = conditions
    assert ready == READY
    assert isinstance(scheduled, dict)
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")


def test_condition_moves_from_false_to_true_in_its_place() -> None:
    pod = bound(body(), stored(conditions=[UNSCHEDULED, READY]))
    assert isinstance(pod["status"], dict)
    conditions = pod["status"]["conditions"]
    assert isinstance(conditions, list)
    first, second = conditions
    assert isinstance(first, dict)
    assert (first["status"], "reason" in first) == ("True", False)
    assert first["lastTransitionTime"] != UNSCHEDULED["lastTransitionTime"]
    assert second == READY


def test_condition_that_was_true_keeps_its_time() -> None:
    pod = bound(body(), stored(conditions=[{**UNSCHEDULED, "status": "True"}]))
    assert isinstance(pod["status"], dict)
    assert isinstance(pod["status"]["conditions"], list)
    (condition,) = pod["status"]["conditions"]
    assert isinstance(condition, dict)
    assert condition["lastTransitionTime"] == UNSCHEDULED["lastTransitionTime"]


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        pytest.param({"target": {"name": "n"}}, 400, "name in URL", id="no-name"),
        pytest.param({**body(), "metadata": {"name": "b"}}, 400, "name in URL", id="other-name"),
        pytest.param({**body(), "kind": "Pod"}, 400, "no kind", id="other-kind"),
        pytest.param({**body(), "apiVersion": "v2"}, 400, "no kind", id="other-version"),
        pytest.param({**body(), "target": 7}, 400, "cannot be handled", id="no-object"),
        pytest.param(
            {**body(), "metadata": {"name": "a", "namespace": "b"}}, 400, "namespace", id="space"
        ),
        pytest.param(body(name=""), 422, "target.name", id="no-node"),
        pytest.param(body(kind="Pod"), 422, "target.kind", id="no-kind-of-node"),
    ],
)
def test_body_that_is_no_binding_of_the_pod_is_refused(
    sent: JSONObject, code: int, text: str
) -> None:
    error = refused(sent)
    assert error.code == code
    assert text in error.message


@pytest.mark.parametrize(
    ("held", "code", "text"),
    [
        pytest.param(None, 404, 'pods "a" not found', id="missing"),
        pytest.param(
            with_pod("spec", nodeName="b"), 409, 'already assigned to node "b"', id="bound"
        ),
        pytest.param(
            with_pod("metadata", deletionTimestamp="2026-01-01T00:00:00Z"),
            409,
            "is being deleted",
            id="ending",
        ),
        pytest.param(
            with_pod("spec", schedulingGates=[{"name": "g"}]), 409, "schedulingGates", id="gated"
        ),
    ],
)
def test_pod_that_cannot_be_bound_is_refused(held: Stored | None, code: int, text: str) -> None:
    error = refused(body(), held)
    assert error.code == code
    assert text in error.message


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_precondition_that_does_not_hold_is_a_conflict(field: str) -> None:
    error = refused({**body(), "metadata": {"name": "a", field: "other"}}, stored())
    assert error.code == 409
    assert "Precondition failed" in error.message
