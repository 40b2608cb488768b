"""The objects of hosts other than the captured one, as far as an attack must leave them alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from tests.conformance.captured import arrangements
from tests.conformance.captured.rest import Rest
from tests.conformance.captured.site import (
    CAPTURED,
    EVENTS,
    EVICTIONS,
    HYPERVISORS,
    LEASES,
    MIGRATIONS,
    NODES,
    OTHERS,
    OVS_LEASES,
    OVSNODES,
    PLAIN,
    REQUESTS,
    condition,
)
from tests.conformance.wire import Body, Json

from hypercobalt.api.peers import PROBE

DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/kube-system/deployments"

MOST_BYTES: Final = 600_000
"""Bytes of an object that an agent writes."""
MOST_REASON: Final = 4096
"""Characters of an Eviction's reason."""
MOST_NOTE: Final = 1024
"""Characters of an Event's note."""

_STATUS: Final = (
    *("serviceId", "hypervisorId", "fencing", "assertion", "recovery", "unhealthySince"),
    *("evicted", "internalIp", "aggregates", "appliedTraits", "failingStorage"),
)

Kept = Iterator[tuple[str, Json]]
"""What is compared, by host, kind and name with a space between."""


async def of_others(rest: Rest) -> dict[str, Json]:
    """Read what others have."""
    found: dict[str, Json] = {}
    for path, kept in _KEPT.items():
        for one in (await rest.good("GET", path))["items"]:
            found.update(kept(one))
    return found


async def faults(rest: Rest) -> list[str]:
    """What there is that no rule should have let in, whoever it belongs to."""
    found: list[str] = []
    for path, wrong in _WRONG.items():
        for one in (await rest.good("GET", path))["items"]:
            found += wrong(one)
    return found


def difference(before: Json, now: Json) -> str:
    """What has changed, for people."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return f"{before} became {now}"
    changed = [key for key in {*before, *now} if before.get(key) != now.get(key)]
    return ", ".join(f"{key}: {before.get(key)} became {now.get(key)}" for key in changed)


def _node(one: Body) -> Kept:
    meta, status = one["metadata"], one.get("status", {})
    if meta["name"] in {*OTHERS, PLAIN}:
        yield (
            f"{meta['name']} Node",
            {
                "taints": one["spec"].get("taints"),
                "labels": meta.get("labels"),
                "annotations": meta.get("annotations"),
                "conditions": {c["type"]: c["status"] for c in status.get("conditions", ())},
                "addresses": status.get("addresses"),
            },
        )


def _hypervisor(one: Body) -> Kept:
    meta, status = one["metadata"], one.get("status", {})
    if meta["name"] not in OTHERS:
        return
    notes = {key: text for key, text in meta.get("annotations", {}).items() if key != PROBE}
    types = sorted(c["type"] for c in status.get("conditions", ()))
    yield (
        f"{meta['name']} Hypervisor",
        {
            "spec": one["spec"],
            "labels": meta.get("labels"),
            "annotations": notes,
            "gone": meta.get("deletionTimestamp"),
            "conditions": {type_: condition(one, type_) for type_ in types},
            **{name: status.get(name) for name in _STATUS},
        },
    )


def _eviction(one: Body) -> Kept:
    if (host := one["spec"]["hypervisor"]) != CAPTURED:
        yield f"{host} Eviction {one['metadata']['name']}", one["spec"]


def _switch(one: Body) -> Kept:
    if (name := one["metadata"]["name"]) in OTHERS:
        yield f"{name} OVSNode", {"spec": one["spec"], "status": one.get("status")}


def _lease(one: Body) -> Kept:
    agent, _, host = one["metadata"]["name"].rpartition("agent-")
    if host in OTHERS:
        spec = one["spec"]
        yield (
            f"{host} Lease {agent}",
            {
                "holder": spec.get("holderIdentity"),
                "lasts": spec.get("leaseDurationSeconds"),
            },
        )


def _migration(one: Body) -> Kept:
    origin = one["metadata"].get("labels", {}).get("kvm.cloud.sap/origin")
    if origin != CAPTURED:
        yield f"{origin} Migration {one['metadata']['name']}", one.get("status")


def _event(one: Body) -> Kept:
    """Every Event, as it may be made one about another host; of an own one only that counts."""
    about, name = one.get("regarding", {}).get("name", ""), one["metadata"]["name"]
    if about in OTHERS:
        yield (
            f"{about} Event {name}",
            {
                "note": one.get("note", ""),
                "reason": one["reason"],
                "type": one["type"],
                "from": one.get("reportingController"),
            },
        )


_KEPT: Final[dict[str, Callable[[Body], Kept]]] = {
    NODES: _node,
    HYPERVISORS: _hypervisor,
    EVICTIONS: _eviction,
    OVSNODES: _switch,
    LEASES: _lease,
    OVS_LEASES: _lease,
    MIGRATIONS: _migration,
    EVENTS: _event,
}


def _large(one: Body) -> list[str]:
    size = len(json.dumps(one))
    name = one["metadata"]["name"]
    return [f"{one.get('kind', '')} {name} has {size} bytes"] if size > MOST_BYTES else []


def _wordy_eviction(one: Body) -> list[str]:
    size = len(one["spec"].get("reason", ""))
    return [f"an Eviction has a reason of {size} characters"] if size > MOST_REASON else []


def _wordy_event(one: Body) -> list[str]:
    size = len(one.get("note", ""))
    return [f"an Event has a note of {size} characters"] if size > MOST_NOTE else []


def _pod(one: Body) -> list[str]:
    """What a pod of the operator has of its Node besides its name space; nothing, if it sleeps."""
    pod = one["spec"]["template"]["spec"]
    ports = [port for container in pod["containers"] for port in container.get("ports", ())]
    what = pod.get("priorityClassName") or ports
    return [f"the operator's pod on {one['metadata']['name']} has {what}"] if what else []


def _approved(one: Body) -> list[str]:
    """Whoever has a certificate of a host is root on every other one."""
    conditions = one.get("status", {}).get("conditions", ())
    approved = any(c["type"] == "Approved" and c["status"] == "True" for c in conditions)
    if not approved or arrangements.is_of_the_host(one):
        return []
    return [f"a certificate of {CAPTURED} was approved for a key that is not on it"]


_WRONG: Final[dict[str, Callable[[Body], list[str]]]] = {
    HYPERVISORS: _large,
    OVSNODES: _large,
    EVICTIONS: _wordy_eviction,
    EVENTS: _wordy_event,
    DEPLOYMENTS: _pod,
    REQUESTS: _approved,
}
