"""The status of a CustomResourceDefinition: which names it got, and so whether it is served.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go.
"""

from __future__ import annotations

from hypercobalt.apiserver.errors import JSON, JSONObject, quote
from hypercobalt.apiserver.values import list_at, object_at, objects_at


def note_stored(obj: JSONObject) -> None:
    """Add the version that objects are stored in to status.storedVersions."""
    status = object_at(obj, "status")
    obj["status"] = status
    stored = [v.get("name") for v in objects_at(obj, "spec", "versions") if v.get("storage")]
    known = list_at(status, "storedVersions")
    status["storedVersions"] = [*dict.fromkeys([*known, *stored])]


def establish(obj: JSONObject, others: list[JSONObject], now: str) -> JSONObject:
    """Accept the names of a definition that none of its group holds; with all, it is served.

    Args:
        obj: the definition; changed in place.
        others: the other definitions.
        now: RFC 3339 time of this request.
    """
    spec, status = object_at(obj, "spec"), object_at(obj, "status")
    same_group = [o for o in others if object_at(o, "spec").get("group") == spec.get("group")]
    held = [object_at(o, "status", "acceptedNames") for o in same_group]
    wanted, accepted = object_at(spec, "names"), dict(object_at(status, "acceptedNames"))
    reason, text = "NoConflicts", "no conflicts found"
    for fields in (("plural", "singular", "shortNames"), ("kind", "listKind")):
        taken = {name for names in held for field in fields for name in _listed(names, field)}
        for field in fields:
            known = _listed(accepted, field)
            clash = [n for n in _listed(wanted, field) if n in taken and n not in known]
            if clash:
                reason = f"{field[0].upper()}{field[1:]}Conflict"
                text = f"{quote(clash[-1])} is already in use"
            elif field in wanted:
                accepted[field] = wanted[field]
            else:
                accepted.pop(field, None)
    if "categories" in wanted:
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    status["acceptedNames"] = accepted
    if reason == "NoConflicts":
        _condition(status, now, "NamesAccepted", "True", reason=reason, message=text)
        text = "the initial names have been accepted"
        reason = "InitialNamesAccepted"
        _condition(status, now, "Established", "True", reason=reason, message=text)
        return obj
    _condition(status, now, "NamesAccepted", "False", reason=reason, message=text)
    if not is_established(obj):
        text = "not all names are accepted"
        _condition(status, now, "Established", "False", reason="NotAccepted", message=text)
    return obj


def is_established(obj: JSONObject) -> bool:
    """Whether the kinds of a definition are served."""
    conditions = objects_at(obj, "status", "conditions")
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def mark_terminating(obj: JSONObject, now: str) -> None:
    """Set that the definition's objects are being deleted."""
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    reason = "InstanceDeletionPending"
    _condition(object_at(obj, "status"), now, "Terminating", "True", reason=reason, message=text)


def _listed(names: JSONObject, field: str) -> list[str]:
    found = names.get(field)
    return [str(name) for name in (found if isinstance(found, list) else [found]) if name]


def _condition(
    status: JSONObject, now: str, kind: str, value: str, *, reason: str, message: str
) -> None:
    held = objects_at(status, "conditions")
    old = next((c for c in held if c.get("type") == kind), None)
    since = old.get("lastTransitionTime") if old and old.get("status") == value else now
    entry: JSONObject = {
        "type": kind,
        "status": value,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    kept: list[JSON] = [entry if c is old else c for c in held]
    status["conditions"] = kept if old is not None else [*kept, entry]
