"""From a webhook's request to its answer."""

from __future__ import annotations

import base64
from typing import Any

import jsonpatch
import msgspec
import pytest
from tests.verdicts import StandIn, instance

from hypercobalt.errors import InvalidRequestError
from hypercobalt.virt.api.answering import answer, patch
from hypercobalt.virt.api.webhooks import (
    CREATE_VALIDATOR,
    MUTATOR,
    NODE_NAME_EXTRA,
    UPDATE_VALIDATOR,
    Webhook,
)
from hypercobalt.vmi.review import JsonObject, RequestUser

Document = dict[str, Any]


def review(operation: str = "CREATE", **request: object) -> Document:
    given = {"uid": "u", "operation": operation, "object": instance(), **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given}


def answered(webhook: Webhook, sent: Document, admission: StandIn | None = None) -> Document:
    body = answer(webhook, admission or StandIn(), msgspec.json.encode(sent))
    made: Document = msgspec.json.decode(body)
    assert (made["apiVersion"], made["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert made["response"]["uid"] == "u"
    response: Document = made["response"]
    return response


def test_mutation_is_answered_by_a_patch_of_whole_members() -> None:
    response = answered(MUTATOR, review())
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    operations = msgspec.json.decode(base64.b64decode(response["patch"]))
    assert [one["path"] for one in operations] == ["/metadata"]
    made = jsonpatch.apply_patch(instance(), operations)
    assert made == instance(seen="yes")


def test_object_that_stays_has_no_patch() -> None:
    response = answered(MUTATOR, review(object=instance(seen="yes")))
    assert response == {"uid": "u", "allowed": True}


def test_refusal_names_its_causes() -> None:
    response = answered(MUTATOR, review(object=instance(domain=False)))
    assert not response["allowed"]
    assert response["status"] == {
        "status": "Failure",
        "message": "spec.domain is required",
        "reason": "Invalid",
        "code": 422,
        "details": {
            "causes": [
                {
                    "reason": "FieldValueRequired",
                    "message": "spec.domain is required",
                    "field": "spec.domain",
                }
            ]
        },
    }


@pytest.mark.parametrize(
    ("webhook", "operation"),
    [
        pytest.param(CREATE_VALIDATOR, "CREATE", id="create"),
        pytest.param(UPDATE_VALIDATOR, "UPDATE", id="update"),
    ],
)
def test_validators_allow_and_refuse(webhook: Webhook, operation: str) -> None:
    sent = review(operation, oldObject=instance())
    assert answered(webhook, sent) == {"uid": "u", "allowed": True}
    response = answered(webhook, review(operation, object=instance(bad="12"), oldObject=instance()))
    assert not response["allowed"]
    assert len(response["status"]["details"]["causes"]) == 10
    assert response["status"]["message"].endswith("and 2 more")


def test_requester_is_read_with_the_node_of_its_token() -> None:
    admission = StandIn()
    for nodes in (["node-a"], [], ["node-a", "node-b"]):
        user = {"username": "jane", "groups": ["g"], "extra": {NODE_NAME_EXTRA: nodes}}
        answered(MUTATOR, review(userInfo=user), admission)
    assert [one.requester for one in admission.seen] == [
        RequestUser("jane", ("g",), "node-a"),
        *[RequestUser("jane", ("g",), None)] * 2,
    ]


def test_update_comes_with_the_object_before() -> None:
    admission = StandIn()
    answered(MUTATOR, review("UPDATE", oldObject=instance("old")), admission)
    answered(MUTATOR, review("CREATE", oldObject=instance("old")), admission)
    assert [one.old for one in admission.seen] == [instance("old"), None]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="binary"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"{}", id="nothing"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"request":{"object":' + b"[" * 100_000, id="deep-object"),
        pytest.param(msgspec.json.encode({**review(), "kind": "Pod"}), id="other-kind"),
        pytest.param(
            msgspec.json.encode({**review(), "apiVersion": "admission.k8s.io/v1beta1"}), id="beta"
        ),
        pytest.param(msgspec.json.encode({**review(), "request": None}), id="no-request"),
        pytest.param(msgspec.json.encode(review("DELETE")), id="delete"),
        pytest.param(msgspec.json.encode(review("UPDATE")), id="update-without-old"),
        pytest.param(msgspec.json.encode(review(object=None)), id="no-object"),
        pytest.param(msgspec.json.encode(review(object="text")), id="text"),
        pytest.param(msgspec.json.encode(review(userInfo=7)), id="user-of-another-type"),
        pytest.param(msgspec.json.encode(review(uid=7)), id="uid-of-another-type"),
    ],
)
def test_body_that_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        answer(MUTATOR, StandIn(), body)


def test_validator_of_creates_takes_no_update() -> None:
    body = msgspec.json.encode(review("UPDATE", oldObject=instance()))
    with pytest.raises(InvalidRequestError, match="takes CREATE"):
        answer(CREATE_VALIDATOR, StandIn(), body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"a": 1}, {"a": 1}, id="equal"),
        pytest.param({"a": 1}, {"a": 2, "b": {}}, id="changed-and-added"),
        pytest.param({"a": 1, "b": 2}, {"b": 2}, id="removed"),
        pytest.param({"a/b": 1, "c~d": 1}, {"a/b": 2}, id="escaped"),
    ],
)
def test_patch_makes_the_new_object_of_the_old(old: JsonObject, new: JsonObject) -> None:
    assert jsonpatch.apply_patch(old, patch(old, new)) == new
