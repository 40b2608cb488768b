"""Events, which two groups serve: stored in the core form, shown in the requested one.

Source: kubernetes pkg/apis/events/v1/conversion.go, pkg/apis/core/validation/events.go.
"""

from __future__ import annotations

from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.values import object_at

_MODERN = "events.k8s.io/v1"
MAX_NOTE = 1024  # bytes
_LEAST_COUNT = 2  # of a series
_CLUSTER_WIDE = ("default", "kube-system")  # where Events about what has no namespace are
_NEEDED = {"reportingComponent": None, "reportingInstance": 128, "action": 128, "reason": 128}
"""Fields of a complete Event, and how many bytes each may have."""

_DEPRECATED = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count"),
    *("type", "eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
"""What an update by the newer group leaves as it is: all but the series and the metadata."""

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
    return {**shown, "apiVersion": _MODERN}


def check_event(obj: JSONObject, old: JSONObject | None) -> list[Cause]:
    """Refusals of an Event; with a time of its own, in the newer form, it has to be complete."""
    modern = obj.get("apiVersion") == _MODERN
    new = to_core(obj)
    causes = _check_complete(new, modern=modern) if new.get("eventTime") else _check_place(new)
    if not modern:
        return causes
    if old is None:
        return causes + _check_series(new) + _check_created(new)
    before = to_core(old)
    if new.get("series") != before.get("series"):
        causes += _check_series(new)
    changed = (name for name in _IMMUTABLE if _bare(new.get(name)) != _bare(before.get(name)))
    return causes + [
        FieldErrors.invalid(_named(name), new.get(name), "field is immutable") for name in changed
    ]


def _check_place(core: JSONObject) -> list[Cause]:
    namespace = object_at(core, "metadata").get("namespace", "")
    target = str(object_at(core, "involvedObject").get("namespace") or "")
    if target == namespace or (not target and namespace == "default"):
        return []
    return [_wrong_namespace(target)]


def _wrong_namespace(target: str) -> Cause:
    text = "does not match event.namespace"
    return FieldErrors.invalid("involvedObject.namespace", target, text)


def _check_complete(core: JSONObject, *, modern: bool) -> list[Cause]:
    causes: list[Cause] = []
    target = str(object_at(core, "involvedObject").get("namespace") or "")
    if not target and object_at(core, "metadata").get("namespace") not in _CLUSTER_WIDE:
        causes.append(_wrong_namespace(target))
    for name, most in _NEEDED.items():
        value, shown = str(core.get(name) or ""), _named(name) if modern else name
        if not value:
            causes.append(FieldErrors.required(shown))
        if most is None:
            causes += [
                FieldErrors.invalid(shown, value, text) for text in names.label_key_errors(value)
            ]
        elif len(value.encode()) > most:
            causes.append(_too_long(name, most))
    if len(str(core.get("message") or "").encode()) > MAX_NOTE:
        causes.append(_too_long("message", MAX_NOTE))
    return causes


def _too_long(name: str, most: int) -> Cause:
    return FieldErrors.invalid(name, "", f"can have at most {most} characters")


def _check_series(core: JSONObject) -> list[Cause]:
    if not isinstance(core.get("series"), dict):
        return []
    causes: list[Cause] = []
    series = object_at(core, "series")
    count = series.get("count")
    if not isinstance(count, int) or count < _LEAST_COUNT:
        text = f"should be at least {_LEAST_COUNT}"
        causes.append(FieldErrors.invalid("series.count", "", text))
    if not series.get("lastObservedTime"):
        causes.append(FieldErrors.required("series.lastObservedTime"))
    return causes


def _check_created(core: JSONObject) -> list[Cause]:
    causes: list[Cause] = []
    if not core.get("eventTime"):
        causes.append(FieldErrors.required("eventTime"))
    if core.get("type") not in ("Normal", "Warning"):
        text = f"has invalid value: {core.get('type', '')}"
        causes.append(FieldErrors.invalid("type", "", text))
    unset = (name for name in _DEPRECATED if _bare(core.get(name)))
    return causes + [FieldErrors.invalid(name, "", "needs to be unset") for name in unset]


def _named(name: str) -> str:
    """A field as the newer group's refusals name it, which have Go's names."""
    return "reportingController" if name == "reportingComponent" else name


def _bare(value: JSON) -> JSON:
    """A value without what Go does not distinguish from its absence."""
    if isinstance(value, dict):
        return {name: _bare(item) for name, item in value.items() if item} or None
    return value or None
