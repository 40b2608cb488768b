"""Strategies of the built-in kinds: how each is created, written, named and deleted.

Source: kubernetes pkg/registry/*/strategy.go.
"""

from __future__ import annotations

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds import names
from hypercobalt.apiserver.values import clone, object_at, objects_at, texts_at

# Kinds with quantities in them, which are stored in canonical form.
WITH_QUANTITIES = frozenset({"Pod", "Deployment", "DaemonSet", "Node"})
# Kinds whose generation counts spec changes; the other built-ins have none.
WITH_GENERATION = frozenset(
    {
        *("Pod", "Deployment", "DaemonSet", "PodDisruptionBudget", "CustomResourceDefinition"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
)
# A new object's status, whatever the client sends; kinds not named keep what they were sent.
INITIAL_STATUS: dict[str, JSONObject] = {
    "ValidatingAdmissionPolicy": {},
    "CustomResourceDefinition": {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": None,
    },
    "Namespace": {"phase": "Active"},
    "Pod": {"phase": "Pending", "qosClass": "BestEffort"},
    "Deployment": {},
    "DaemonSet": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "Service": {"loadBalancer": {}},
    "PodDisruptionBudget": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
}
# A PUT of one of these creates it when there is none.
CREATED_BY_PUT = frozenset(
    {"Event", "Lease", "Service", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
)
# An update of one of these must name the resourceVersion it was made from.
VERSIONED = frozenset({"Lease", "CustomResourceDefinition"})
# Deleting one of these answers with the object instead of a Status.
RETURNS_DELETED = frozenset({"Pod", "Service", "ServiceAccount"})

SYSTEM_NAMESPACES = ("default", "kube-public", "kube-system")  # never deleted

NAME_RULES: dict[str, names.NameRule] = {
    "Namespace": names.dotless_label_errors,
    "Service": names.dotless_label_errors,
    **dict.fromkeys(
        ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), names.path_segment_errors
    ),
}


def begin(kind: str, obj: JSONObject) -> None:
    """Set what every new object begins with and no client owns."""
    if kind in INITIAL_STATUS:
        obj["status"] = clone(INITIAL_STATUS[kind])
    if kind == "Namespace":
        given = texts_at(obj, "spec", "finalizers")
        own = [] if "kubernetes" in given else ["kubernetes"]
        obj["spec"] = {**object_at(obj, "spec"), "finalizers": [*given, *own]}
    if kind == "Pod":
        object_at(obj, "status")["qosClass"] = _qos_class(object_at(obj, "spec"))


def _qos_class(spec: JSONObject) -> str:
    """Source: kubernetes pkg/apis/core/v1/helper/qos."""
    containers = [object_at(container, "resources") for container in objects_at(spec, "containers")]
    if not any(object_at(c, kind) for c in containers for kind in ("limits", "requests")):
        return "BestEffort"
    guaranteed = all(
        object_at(c, "limits") == object_at(c, "requests")
        and {"cpu", "memory"} <= object_at(c, "limits").keys()
        for c in containers
    )
    return "Guaranteed" if guaranteed else "Burstable"
