"""Server-side printing: the rows that `kubectl get` shows.

Column definitions of built-in kinds are data from the real server; the cells are computed here.
Custom resources print the columns of their CustomResourceDefinition.

Source: kubernetes pkg/printers/internalversion/printers.go; apiextensions
pkg/registry/customresource/tableconvertor; apimachinery pkg/util/duration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from hypercobalt.apiserver.kinds.jsonpath import Path, compile_path
from hypercobalt.apiserver.status import JSON, JSONObject
from hypercobalt.apiserver.values import at, list_at, object_at, text_at

Row = Callable[[JSONObject, datetime], list[JSON]]
NONE, UNKNOWN = "<none>", "<unknown>"

NAME_COLUMN: JSONObject = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": (
        "Name must be unique within a namespace. Is required when creating resources, although "
        "some resources may allow a client to request the generation of an appropriate name "
        "automatically. Name is primarily intended for creation idempotence and configuration "
        "definition. Cannot be updated. More info: "
        "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
    ),
    "priority": 0,
}
AGE_COLUMN: JSONObject = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was "
        "created. It is not guaranteed to be set in happens-before order across separate "
        "operations. Clients may not set this value. It is represented in RFC3339 form and is in "
        "UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
}


@dataclass(frozen=True, slots=True)
class Printer:
    """How one kind prints: what the columns are, and the cells of one object."""

    columns: list[JSON]
    row: Row
    conditions: Callable[[JSONObject], JSONObject] = lambda _: {}

    def table(self, rows: list[JSON], meta: JSONObject) -> JSONObject:
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "columnDefinitions": self.columns,
            "rows": rows or (None if self.row is _created else []),
        }

    def entry(self, obj: JSONObject, now: datetime) -> JSONObject:
        """The cells of one row, and the conditions in which whole rows are shown or not."""
        return {"cells": self.row(obj, now), **self.conditions(obj)}


def partial_metadata(obj: JSONObject) -> JSONObject:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def human_duration(span: timedelta) -> str:
    """As kubectl's AGE: `5s`, `3m2s`, `4h5m`, `2d3h`, `90d`, `3y4d`."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _ago(value: JSON, now: datetime) -> str:
    if not isinstance(value, str) or not value:
        return UNKNOWN
    try:
        then = datetime.fromisoformat(value)
    except ValueError:
        return "<invalid>"
    return human_duration(now - (then if then.tzinfo else then.replace(tzinfo=UTC)))


def _name(obj: JSONObject) -> JSON:
    return at(obj, "metadata", "name")


def _age(obj: JSONObject, now: datetime) -> str:
    return _ago(at(obj, "metadata", "creationTimestamp"), now)


# -- scales -----------------------------------------------------------------------------------


def _scale(obj: JSONObject, now: datetime) -> list[JSON]:
    counts = (at(obj, place, "replicas") or 0 for place in ("spec", "status"))
    return [_name(obj), *counts, _age(obj, now)]


def _count(name: str, what: str) -> JSONObject:
    text = f"Number of {what} replicas"
    return {"name": name, "type": "integer", "format": "", "description": text, "priority": 0}


SCALE_PRINTER = Printer(
    [
        NAME_COLUMN,
        _count("Desired", "desired"),
        _count("Available", "actual"),
        {
            "name": "Age",
            "type": "date",
            "format": "",
            "description": AGE_COLUMN["description"],
            "priority": 0,
        },
    ],
    _scale,
)


# -- custom resources --------------------------------------------------------------------------


def custom_printer(columns: list[JSON]) -> Printer:
    """The printer of a CustomResourceDefinition's additionalPrinterColumns.

    Raises:
        ValueError: a column's JSONPath is not supported.
    """
    listed = [column for column in columns if isinstance(column, dict)] or [AGE_COLUMN]
    definitions: list[JSON] = [NAME_COLUMN]
    cells: list[tuple[str, Path]] = []
    for column in listed:
        kind, path = text_at(column, "type") or "string", text_at(column, "jsonPath")
        definitions.append(
            {
                "name": column.get("name", ""),
                "type": kind,
                "format": column.get("format", ""),
                "description": column.get("description")
                or f"Custom resource definition column (in JSONPath format): {path}",
                "priority": column.get("priority", 0),
            }
        )
        cells.append((kind, compile_path(path)))

    def row(obj: JSONObject, now: datetime) -> list[JSON]:
        return [_name(obj), *(_cell(kind, path.all(obj), now) for kind, path in cells)]

    return Printer(definitions, row)


def _cell(kind: str, values: list[JSON], now: datetime) -> JSON:
    if not values:
        return None
    value = values[0]
    match kind:
        case "string":
            return _printed(value)
        case "date":
            return _ago(value, now) if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer":
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return int(value) if number and isinstance(value, (int, float)) else None
        case _:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return value if number else None


def _printed(value: JSON) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()


# -- built-in kinds ----------------------------------------------------------------------------


def _namespace(obj: JSONObject, now: datetime) -> list[JSON]:
    return [_name(obj), at(obj, "status", "phase"), _age(obj, now)]


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
        _name(obj),
        state,
        ",".join(roles) or NONE,
        _age(obj, now),
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
        _name(obj),
        f"{ready}/{len(list_at(obj, 'spec', 'containers'))}",
        state,
        str(restarts),
        _age(obj, now),
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
        _ago(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{str(target.get('kind', '')).lower()}/{target.get('name', '')}",
        target.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        str(obj.get("message", "")).strip(),
        _ago(first, now),
        at(obj, "series", "count") or obj.get("count") or 1,
        _name(obj),
    ]


def _secret(obj: JSONObject, now: datetime) -> list[JSON]:
    return [_name(obj), obj.get("type", ""), len(object_at(obj, "data")), _age(obj, now)]


def _config_map(obj: JSONObject, now: datetime) -> list[JSON]:
    return [
        _name(obj),
        len(object_at(obj, "data")) + len(object_at(obj, "binaryData")),
        _age(obj, now),
    ]


def _plain(obj: JSONObject, now: datetime) -> list[JSON]:
    return [_name(obj), _age(obj, now)]


def _created(obj: JSONObject, _now: datetime) -> list[JSON]:
    return [_name(obj), at(obj, "metadata", "creationTimestamp")]


def _service(obj: JSONObject, now: datetime) -> list[JSON]:
    spec = object_at(obj, "spec")
    ports: list[str] = []
    for port in list_at(spec, "ports"):
        node_port = at(port, "nodePort")
        number = f"{at(port, 'port')}:{node_port}" if node_port else f"{at(port, 'port')}"
        ports.append(f"{number}/{at(port, 'protocol')}")
    external = spec.get("externalName") or ",".join(map(str, list_at(spec, "externalIPs")))
    return [
        _name(obj),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        external or NONE,
        ",".join(ports) or NONE,
        _age(obj, now),
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
        _name(obj),
        f"{status.get('readyReplicas', 0)}/{at(obj, 'spec', 'replicas') or 0}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _age(obj, now),
        *_containers(obj),
    ]


def _daemon_set(obj: JSONObject, now: datetime) -> list[JSON]:
    status = object_at(obj, "status")
    return [
        _name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        _pairs(object_at(obj, "spec", "template", "spec", "nodeSelector")),
        _age(obj, now),
        *_containers(obj),
    ]


def _disruption_budget(obj: JSONObject, now: datetime) -> list[JSON]:
    spec = object_at(obj, "spec")
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        _name(obj),
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        at(obj, "status", "disruptionsAllowed") or 0,
        _age(obj, now),
    ]


def _lease(obj: JSONObject, now: datetime) -> list[JSON]:
    return [_name(obj), at(obj, "spec", "holderIdentity") or "", _age(obj, now)]


def _binding(obj: JSONObject, now: datetime) -> list[JSON]:
    role = f"{at(obj, 'roleRef', 'kind')}/{at(obj, 'roleRef', 'name')}"
    by_kind: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in list_at(obj, "subjects"):
        name = str(at(subject, "name"))
        kind = str(at(subject, "kind"))
        full = f"{at(subject, 'namespace')}/{name}" if kind == "ServiceAccount" else name
        by_kind.setdefault(kind, []).append(full)
    subjects = [", ".join(by_kind[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [_name(obj), role, _age(obj, now), *subjects]


BUILTIN_ROWS: dict[str, Row] = {
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
}


def builtin_printer(kind: str, columns: list[JSON]) -> Printer:
    row = BUILTIN_ROWS.get(kind, _plain)
    return Printer(columns, row, _pod_conditions) if kind == "Pod" else Printer(columns, row)
