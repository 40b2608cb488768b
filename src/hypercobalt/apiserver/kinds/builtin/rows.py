"""The cells that `kubectl get` shows for built-in kinds.

The definitions of the columns are data from the real server.

Source: kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from datetime import datetime

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.kinds.tables import UNKNOWN, Printer, Row, age, ago, name
from hypercobalt.apiserver.values import at, list_at, object_at

NONE, UNSET = "<none>", "<unset>"


def _namespace(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), at(obj, "status", "phase"), age(obj, now)]


def _node(obj: JSONObject, now: datetime) -> list[JSON]:
    ready = [c for c in list_at(obj, "status", "conditions") if at(c, "type") == "Ready"]
    state = "Unknown"
    if ready:
        state = "Ready" if at(ready[0], "status") == "True" else "NotReady"
    if at(obj, "spec", "unschedulable"):
        state += ",SchedulingDisabled"
    labels = object_at(obj, "metadata", "labels")
    prefix = "node-role.kubernetes.io/"
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    addresses = {at(a, "type"): at(a, "address") for a in list_at(obj, "status", "addresses")}
    info = object_at(obj, "status", "nodeInfo")
    return [
        name(obj),
        state,
        ",".join(roles) or NONE,
        age(obj, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: JSONObject) -> str:
    version, machine = info.get("kernelVersion"), info.get("architecture")
    if not version:
        return UNKNOWN
    return f"{version} ({machine})" if machine else f"{version}"


def _pod(obj: JSONObject, now: datetime) -> list[JSON]:
    statuses = list_at(obj, "status", "containerStatuses")
    ready = sum(1 for s in statuses if at(s, "ready") is True)
    restarts = sum(int(str(at(s, "restartCount") or 0)) for s in statuses)
    state = str(at(obj, "status", "reason") or at(obj, "status", "phase") or "")
    for container in statuses:
        for kind in ("waiting", "terminated"):
            state = str(at(container, "state", kind, "reason") or state)
        if (ended := object_at(container, "state", "terminated")) and not ended.get("reason"):
            signal = ended.get("signal")
            state = f"Signal:{signal}" if signal else f"ExitCode:{ended.get('exitCode', 0)}"
    if at(obj, "metadata", "deletionTimestamp"):
        state = "Terminating"
    return [
        name(obj),
        f"{ready}/{len(list_at(obj, 'spec', 'containers'))}",
        state,
        str(restarts),
        age(obj, now),
        at(obj, "status", "podIP") or NONE,
        at(obj, "spec", "nodeName") or NONE,
        at(obj, "status", "nominatedNodeName") or NONE,
        NONE,
    ]


_COMPLETED = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def _pod_conditions(obj: JSONObject) -> JSONObject:
    """What lets kubectl leave out the rows of pods that are done."""
    phase = str(at(obj, "status", "phase"))
    if phase not in _COMPLETED:
        return {}
    message = _COMPLETED[phase]
    done: JSONObject = {"type": "Completed", "status": "True", "reason": phase, "message": message}
    return {"conditions": [done]}


def _event(obj: JSONObject, now: datetime) -> list[JSON]:
    target = object_at(obj, "involvedObject")
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or at(obj, "series", "lastObservedTime") or first
    source = object_at(obj, "source")
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host")
    return [
        ago(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}",
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        str(obj.get("message", "")).strip(),
        ago(first, now),
        at(obj, "series", "count") or obj.get("count") or 1,
        name(obj),
    ]


def _secret(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), obj.get("type", ""), len(object_at(obj, "data")), age(obj, now)]


def _config_map(obj: JSONObject, now: datetime) -> list[JSON]:
    return [
        name(obj),
        len(object_at(obj, "data")) + len(object_at(obj, "binaryData")),
        age(obj, now),
    ]


def _plain(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), age(obj, now)]


def _created(obj: JSONObject, _now: datetime) -> list[JSON]:
    return [name(obj), at(obj, "metadata", "creationTimestamp")]


def _service(obj: JSONObject, now: datetime) -> list[JSON]:
    spec = object_at(obj, "spec")
    ports: list[str] = []
    for port in list_at(spec, "ports"):
        node_port = at(port, "nodePort")
        number = f"{at(port, 'port')}:{node_port}" if node_port else f"{at(port, 'port')}"
        ports.append(f"{number}/{at(port, 'protocol')}")
    external = spec.get("externalName") or ",".join(map(str, list_at(spec, "externalIPs")))
    return [
        name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external or NONE,
        ",".join(ports) or NONE,
        age(obj, now),
        _pairs(object_at(spec, "selector")),
    ]


def _pairs(labels: JSONObject) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def _containers(obj: JSONObject) -> list[JSON]:
    containers = list_at(obj, "spec", "template", "spec", "containers")
    names = ",".join(str(at(c, "name")) for c in containers)
    images = ",".join(str(at(c, "image") or "") for c in containers)
    return [names, images, _label_selector(object_at(obj, "spec", "selector"))]


def _label_selector(selector: JSONObject) -> str:
    terms = [f"{key}={value}" for key, value in sorted(object_at(selector, "matchLabels").items())]
    for entry in list_at(selector, "matchExpressions"):
        key, values = at(entry, "key"), ",".join(map(str, list_at(entry, "values")))
        match at(entry, "operator"):
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(f"{key}")
            case _:
                terms.append(f"!{key}")
    return ",".join(terms) or NONE


def _deployment(obj: JSONObject, now: datetime) -> list[JSON]:
    status = object_at(obj, "status")
    return [
        name(obj),
        f"{status.get('readyReplicas', 0)}/{at(obj, 'spec', 'replicas') or 0}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_containers(obj),
    ]


def _daemon_set(obj: JSONObject, now: datetime) -> list[JSON]:
    status = object_at(obj, "status")
    return [
        name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        _pairs(object_at(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *_containers(obj),
    ]


def _disruption_budget(obj: JSONObject, now: datetime) -> list[JSON]:
    spec = object_at(obj, "spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        at(obj, "status", "disruptionsAllowed") or 0,
        age(obj, now),
    ]


def _lease(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), at(obj, "spec", "holderIdentity") or "", age(obj, now)]


def _binding(obj: JSONObject, now: datetime) -> list[JSON]:
    role = f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in list_at(obj, "subjects"):
        who = str(at(subject, "name"))
        kind = str(at(subject, "kind"))
        full = f"{at(subject, 'namespace')}/{who}" if kind == "ServiceAccount" else who
        by_kind.setdefault(kind, []).append(full)
    subjects = [", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name(obj), role, age(obj, now), *subjects]


def _policy(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), len(list_at(obj, "spec", "validations")), UNSET, age(obj, now)]


def _policy_binding(obj: JSONObject, now: datetime) -> list[JSON]:
    return [name(obj), at(obj, "spec", "policyName"), UNSET, age(obj, now)]


ROWS: dict[str, Row] = {
    "Namespace": _namespace,
    "Node": _node,
    "Pod": _pod,
    "Event": _event,
    "Secret": _secret,
    "ConfigMap": _config_map,
    "Service": _service,
    "Deployment": _deployment,
    "DaemonSet": _daemon_set,
    "PodDisruptionBudget": _disruption_budget,
    "Lease": _lease,
    "RoleBinding": _binding,
    "ClusterRoleBinding": _binding,
    "Role": _created,
    "ClusterRole": _created,
    "CustomResourceDefinition": _created,
    "ValidatingAdmissionPolicy": _policy,
    "ValidatingAdmissionPolicyBinding": _policy_binding,
}


def printer(kind: str, columns: list[JSON]) -> Printer:
    """The printer of a built-in kind, whose columns are known."""
    row = ROWS.get(kind, _plain)
    if kind == "Pod":
        return Printer(columns, row, _pod_conditions)
    return Printer(columns, row, null_rows=row is _created)
