"""Decides the result of a delete: removed at once, or marked until no finalizer is left.

Pure: objects and options in, objects out.

Source: apiserver pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go
(deletionFinalizersForGarbageCollection); kubernetes pkg/registry/core/pod/strategy.go.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.decisions.admission import generation_of
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds import serving
from hypercobalt.apiserver.kinds.builtin import strategies
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE
from hypercobalt.apiserver.requests.request import Call, DeleteOptions
from hypercobalt.apiserver.values import clone, metadata, object_at, stamp_of, text_at, texts_at

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
POD_GRACE_SECONDS = 30
MAX_GRACE_SECONDS = 100 * 365 * 86400  # beyond it, the time of deletion is not computed


def check_delete(call: Call, obj: JSONObject, options: DeleteOptions) -> None:
    """Refuse a delete whose preconditions do not hold, or of a namespace that must stay.

    Raises:
        StatusError: 409 or 403.
    """
    wanted, meta = options.preconditions, metadata(obj)
    subject = errors.Subject(call.resource.group, call.kind, str(meta.get("name")))
    if wanted and wanted.uid not in (None, meta.get("uid")):
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record "
            f"({meta.get('uid')}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(subject, why)
    if wanted and wanted.resourceVersion not in (None, meta.get("resourceVersion")):
        why = (
            f"the ResourceVersion in the precondition ({wanted.resourceVersion}) does not match "
            f"the ResourceVersion in record ({meta.get('resourceVersion')}). The object might "
            "have been modified"
        )
        raise errors.conflict(subject, why)
    if call.resource.qualified == "namespaces" and meta.get("name") in strategies.SYSTEM_NAMESPACES:
        raise errors.forbidden(call.subject, "this namespace may not be deleted")


def begin_delete(call: Call, old: JSONObject, options: DeleteOptions) -> JSONObject | None:
    """The object marked for deletion; None when it can go at once."""
    finalizers = _finalizers(call, old, options)
    grace = _grace_seconds(call, old, options)
    if not finalizers and not grace and not _keeps_namespace(call, old):
        return None
    if metadata(old).get("deletionTimestamp"):
        marked = _sooner(old, grace)
    else:
        marked = _marked(call, old, grace)
    metadata(marked).pop("finalizers", None)
    if finalizers:
        metadata(marked)["finalizers"] = list(finalizers)
    return marked


def _finalizers(call: Call, old: JSONObject, options: DeleteOptions) -> list[str]:
    """The finalizers of the object, with those that the propagation policy adds."""
    held = texts_at(old, "metadata", "finalizers")
    if call.resource.qualified == CRD_RESOURCE and not metadata(old).get("deletionTimestamp"):
        return held if CRD_CLEANUP in held else [*held, CRD_CLEANUP]  # its objects go first
    policy = options.propagationPolicy
    if options.orphanDependents is not None and not policy:
        policy = "Orphan" if options.orphanDependents else "Background"
    if policy:
        added = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(policy, [])
        wanted = [name for name in held if name not in (FOREGROUND, ORPHAN)] + added
        return held if set(wanted) == set(held) else wanted
    return held


def _grace_seconds(call: Call, obj: JSONObject, options: DeleteOptions) -> int:
    """The grace period: of a pod on a Node only, whose kubelet ends it; a repeat may shorten it."""
    spec = object_at(obj, "spec")
    done = text_at(obj, "status", "phase") in ("Succeeded", "Failed")
    if call.resource.qualified != "pods" or not spec.get("nodeName") or done:
        return 0
    given = metadata(obj).get("deletionGracePeriodSeconds")
    own = spec.get("terminationGracePeriodSeconds") if given is None else given
    wanted = own if options.gracePeriodSeconds is None else options.gracePeriodSeconds
    seconds = wanted if isinstance(wanted, int) else POD_GRACE_SECONDS
    seconds = 1 if seconds < 0 else seconds
    return min(seconds, given) if isinstance(given, int) else seconds


def _keeps_namespace(call: Call, obj: JSONObject) -> bool:
    """A namespace stays, Terminating, until its content is gone and spec.finalizers is empty."""
    return call.resource.qualified == "namespaces" and bool(texts_at(obj, "spec", "finalizers"))


def _marked(call: Call, obj: JSONObject, grace_seconds: int) -> JSONObject:
    """An object whose deletion begins."""
    marked = clone(obj)
    meta = metadata(marked)
    due = call.now + timedelta(seconds=min(grace_seconds, MAX_GRACE_SECONDS))
    meta["deletionTimestamp"] = stamp_of(due)
    if call.resource.qualified == CRD_RESOURCE:
        serving.mark_terminating(marked, call.stamp)
        return marked
    if call.resource.qualified == "namespaces":
        marked["status"] = {"phase": "Terminating"}
        return marked
    meta["deletionGracePeriodSeconds"] = grace_seconds
    if "generation" in meta:
        meta["generation"] = generation_of(meta) + 1
    return marked


def _sooner(old: JSONObject, grace_seconds: int) -> JSONObject:
    """An object that is being deleted, perhaps with less time left."""
    marked = clone(old)
    meta = metadata(marked)
    given = meta.get("deletionGracePeriodSeconds")
    if isinstance(given, int) and grace_seconds < given:
        spared = max(min(given, MAX_GRACE_SECONDS) - grace_seconds, 0)
        due = datetime.fromisoformat(str(meta["deletionTimestamp"])) - timedelta(seconds=spared)
        meta["deletionTimestamp"] = stamp_of(due)
        meta["deletionGracePeriodSeconds"] = grace_seconds
    return marked


def ended(call: Call, old: JSONObject) -> JSONObject:
    """The answer for a deleted object: its last state; a pod with its grace period over."""
    if call.resource.qualified == "pods" and not metadata(old).get("deletionTimestamp"):
        return _marked(call, old, 0)
    return _sooner(old, 0)


def is_released(call: Call, new: JSONObject, old: JSONObject) -> bool:
    """Whether this update took away the last thing that held a deleted object."""
    meta = metadata(new)
    return bool(
        metadata(old).get("deletionTimestamp")
        and not meta.get("finalizers")
        and meta.get("deletionGracePeriodSeconds") in (None, 0)
        and not _keeps_namespace(call, new)
    )
