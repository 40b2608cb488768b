"""The subresource `binding` of Pods: a scheduler assigns a pod to a node, once.

No field owner is recorded, the generation stays, and the pod is not validated again: this is not an
update of the pod by its strategy.

Source: kubernetes pkg/registry/core/pod/storage, BindingREST; pkg/apis/core/validation,
ValidatePodBinding.
"""

from __future__ import annotations

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions.verbs import Prepared
from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.storage.objects import Stored
from hypercobalt.apiserver.values import list_at, metadata, object_at, text_at

SCHEDULED = "PodScheduled"


class _BindingMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815  # wire name
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class PodBinding(msgspec.Struct):
    """Source: core/v1 Binding."""

    kind: str = "Binding"
    apiVersion: str = "v1"  # noqa: N815  # wire name
    metadata: _BindingMeta = msgspec.field(default_factory=_BindingMeta)
    target: _Target = msgspec.field(default_factory=_Target)


def read(call: Call) -> PodBinding:
    """The Binding in the body of a call.

    Raises:
        StatusError: 400 for a body that is none, or of another pod; 422 for a target that is no
            Node.
    """
    try:
        binding = msgspec.convert(call.body.value, PodBinding)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"Binding cannot be handled: {error}") from error
    if (binding.apiVersion, binding.kind) != ("v1", "Binding"):
        text = f"no kind {errors.quote(binding.kind)} is registered for its version"
        raise errors.bad_request(text)
    meta, target = binding.metadata, binding.target
    if meta.namespace not in ("", call.namespace):
        text = "the namespace of the provided object does not match the namespace sent on the "
        raise errors.bad_request(f"{text}request")
    if meta.name != call.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    causes: list[errors.Cause] = []
    if target.kind not in ("", "Node"):
        allowed = ("Node", "<empty>")
        causes.append(errors.FieldErrors.not_supported("target.kind", target.kind, allowed))
    if not target.name:
        causes.append(errors.FieldErrors.required("target.name"))
    if causes:
        raise errors.invalid("", "Binding", call.name, causes)
    return binding


def shown(binding: PodBinding) -> Prepared:
    """The write as admission sees it: a new Binding."""
    return Prepared(msgspec.to_builtins(binding), None)


def bind(call: Call, held: Stored | None, binding: PodBinding) -> Prepared:
    """Prepare the pod after it was bound.

    Raises:
        StatusError: 404; 409 where a precondition does not hold, or the pod cannot be bound now.
    """
    if held is None:
        raise errors.not_found(call.subject)
    old: JSONObject = msgspec.json.decode(held.data)
    pod: JSONObject = msgspec.json.decode(held.data)
    _check(call, old, binding.metadata)
    meta, status = metadata(pod), object_at(pod, "status")
    object_at(pod, "spec")["nodeName"] = binding.target.name
    for name, added in (
        ("annotations", binding.metadata.annotations),
        ("labels", binding.metadata.labels),
    ):
        if merged := {**object_at(meta, name), **added}:
            meta[name] = merged
    status.pop("nominatedNodeName", None)
    status["conditions"] = _scheduled(list_at(status, "conditions"), call.stamp)
    pod["status"] = status
    return Prepared(pod, old)


def _check(call: Call, pod: JSONObject, sent: _BindingMeta) -> None:
    meta, what = object_at(pod, "metadata"), errors.Subject("", "pods/binding", call.name)
    for name, field, wanted in (
        ("UID", "uid", sent.uid),
        ("ResourceVersion", "resourceVersion", sent.resourceVersion),
    ):
        if wanted and wanted != meta.get(field):
            why = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: "
            raise errors.conflict(call.subject, f"{why}{meta.get(field)}")
    if meta.get("deletionTimestamp"):
        why = f"pod {call.name} is being deleted, cannot be assigned to a host"
        raise errors.conflict(what, why)
    if node := text_at(pod, "spec", "nodeName"):
        why = f"pod {call.name} is already assigned to node {errors.quote(node)}"
        raise errors.conflict(what, why)
    if list_at(pod, "spec", "schedulingGates"):
        raise errors.conflict(what, f"pod {call.name} has non-empty .spec.schedulingGates")


def _scheduled(conditions: list[JSON], stamp: str) -> list[JSON]:
    """The conditions with PodScheduled True; its time moves with its status only."""
    types = [text_at(condition, "type") for condition in conditions]
    place = types.index(SCHEDULED) if SCHEDULED in types else len(conditions)
    before = conditions[place] if place < len(conditions) else None
    since = text_at(before, "lastTransitionTime") if text_at(before, "status") == "True" else stamp
    made: JSONObject = {
        "type": SCHEDULED,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    return [*conditions[:place], made, *conditions[place + 1 :]]
