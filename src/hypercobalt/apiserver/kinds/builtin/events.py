"""Events, which two groups serve: stored in the core form, shown in the requested one.

Source: kubernetes pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from hypercobalt.apiserver.errors import Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.values import object_at

_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def to_core(obj: JSONObject) -> JSONObject:
    """An events.k8s.io/v1 Event in the core form, in which it is stored."""
    core = {_EVENT_FIELDS.get(name, name): value for name, value in obj.items()}
    core.setdefault("reportingComponent", "")
    core.setdefault("reportingInstance", "")
    return {**core, "apiVersion": "v1"}


def from_core(obj: JSONObject) -> JSONObject:
    """A stored Event as events.k8s.io/v1 shows it."""
    back = {core: name for name, core in _EVENT_FIELDS.items()}
    shown = {back.get(name, name): value for name, value in obj.items() if value != ""}
    return {**shown, "apiVersion": "events.k8s.io/v1"}


def check_event(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    causes: list[Cause] = []
    namespace = object_at(obj, "metadata").get("namespace", "")
    about = object_at(obj, "involvedObject") or object_at(obj, "regarding")
    target = str(about.get("namespace") or "")
    if target != namespace and (target or namespace != "default"):
        text = "does not match event.namespace"
        causes.append(FieldErrors.invalid("involvedObject.namespace", target, text))
    modern = obj.get("apiVersion") == "events.k8s.io/v1"
    if modern and old is None:
        if not obj.get("eventTime"):
            causes.append(FieldErrors.required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            text = f"has invalid value: {obj.get('type', '')}"
            causes.append(FieldErrors.invalid("type", "", text))
        for new_name, name in _EVENT_FIELDS.items():
            if new_name.startswith("deprecated") and (obj.get(new_name) or obj.get(name)):
                causes.append(FieldErrors.invalid(name, "", "needs to be unset"))
    if obj.get("eventTime"):
        controller = "reportingController" if modern else "reportingComponent"
        needed = (controller, "reportingInstance", "action", "reason")
        causes += [FieldErrors.required(name) for name in needed if not obj.get(name)]
    return causes
