"""The status of a CustomResourceDefinition: which names it got, and so whether it is served.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go.
"""

from __future__ import annotations

from collections import Counter

from hypercobalt.apiserver.errors import JSON, JSONObject, quote
from hypercobalt.apiserver.kinds.approval import APPROVAL, Approval, approval_of
from hypercobalt.apiserver.values import at, clone, list_at, object_at, objects_at

# Names of one family must differ from each other.
_FAMILIES = (("plural", "singular", "shortNames"), ("kind", "listKind"))


def note_stored(obj: JSONObject) -> None:
    """Add the version that objects are stored in to status.storedVersions."""
    status = object_at(obj, "status")
    obj["status"] = status
    stored = [v.get("name") for v in objects_at(obj, "spec", "versions") if v.get("storage")]
    known = list_at(status, "storedVersions")
    status["storedVersions"] = [*dict.fromkeys([*known, *stored])]


class HeldNames:
    """The names that the definitions of a group have got, however many they are."""

    def __init__(self, *claims: JSONObject) -> None:
        self._counts: Counter[tuple[int, str]] = Counter()
        for claim in claims:
            self.add(claim)

    def add(self, claim: JSONObject) -> None:
        """Count the names of a definition."""
        self._counts.update(_accepted(claim))

    def remove(self, claim: JSONObject) -> None:
        """Count them no more."""
        self._counts.subtract(_accepted(claim))

    def by_others(self, claim: JSONObject, family: int, name: str) -> bool:
        """Whether another definition than this one has got a name."""
        return self._counts[family, name] > _accepted(claim).count((family, name))


def _accepted(claim: JSONObject) -> list[tuple[int, str]]:
    names = object_at(claim, "status", "acceptedNames")
    return [
        (n, name)
        for n, fields in enumerate(_FAMILIES)
        for f in fields
        for name in _listed(names, f)
    ]


def claim_of(definition: JSONObject) -> JSONObject:
    """What `establish` reads of a definition, without its schemas."""
    spec, status, approval = (
        object_at(definition, "spec"),
        object_at(definition, "status"),
        at(definition, "metadata", "annotations", APPROVAL),
    )
    return {
        "metadata": {} if approval is None else {"annotations": {APPROVAL: approval}},
        "spec": {name: spec[name] for name in ("group", "names") if name in spec},
        "status": {
            name: status[name] for name in ("acceptedNames", "conditions") if name in status
        },
    }


def is_settled(claim: JSONObject, held: HeldNames) -> bool:
    """Whether a definition's status is as `establish` would leave it."""
    return establish(clone(claim), held, "") == claim


def waits(claim: JSONObject) -> bool:
    """Whether a definition lacks a name that it wants."""
    conditions = objects_at(claim, "status", "conditions")
    return not any(
        c.get("type") == "NamesAccepted" and c.get("status") == "True" for c in conditions
    )


def frees(before: JSONObject, after: JSONObject | None) -> bool:
    """Whether a change of a definition, or its end, leaves a name to others."""
    return bool({*_accepted(before)} - {*_accepted(after or {})})


def establish(obj: JSONObject, held: HeldNames, now: str) -> JSONObject:
    """Accept the names of a definition that none of its group holds; with all, it is served.

    Args:
        obj: the definition; changed in place.
        held: the names of its group, with its own.
        now: RFC 3339 time of this request.
    """
    spec, status = object_at(obj, "spec"), object_at(obj, "status")
    obj["status"] = status
    wanted, accepted = object_at(spec, "names"), dict(object_at(status, "acceptedNames"))
    reason, text = "NoConflicts", "no conflicts found"
    clashes: list[tuple[str, list[str]]] = []
    for family, fields in enumerate(_FAMILIES):
        for field in fields:
            known = _listed(accepted, field)
            new = [name for name in _listed(wanted, field) if name not in known]
            clashes.append((field, [n for n in new if held.by_others(obj, family, n)]))
    for field, clash in clashes:
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
    else:
        _condition(status, now, "NamesAccepted", "False", reason=reason, message=text)
        if not is_established(obj):
            text = "not all names are accepted"
            _condition(status, now, "Established", "False", reason="NotAccepted", message=text)
    _note_approval(obj, now)
    return obj


def _note_approval(obj: JSONObject, now: str) -> None:
    """Set whether a definition in a group of the Kubernetes project is approved there."""
    if (found := approval_of(obj)) is None:
        return
    state, text = found
    met = "True" if state is Approval.APPROVED else "False"
    kind = "KubernetesAPIApprovalPolicyConformant"
    _condition(object_at(obj, "status"), now, kind, met, reason=f"{state}Annotation", message=text)


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
