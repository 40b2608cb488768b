"""Nodes that stop reporting: conditions Unknown and the unreachable taint, until the Node is back.

A Node is followed once it has a Lease in `kube-node-lease`, which every kubelet makes; the status
of a Node without one is left to its writer. Invariant: silence is measured on this server's
monotonic clock, from when it last saw the Lease or the Ready heartbeat change. So neither a restart
nor the wrong clock of a host makes a Node Unknown early.

Source: kubernetes pkg/controller/nodelifecycle/node_lifecycle_controller.go.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from hypercobalt.apiserver.decisions.verbs import Change
from hypercobalt.apiserver.errors import JSON, JSONObject, NotFoundError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.request import Call
from hypercobalt.apiserver.storage.objects import Event, Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import at, object_at, objects_at, stamp_of, text_at
from hypercobalt.apiserver.worklist import Worklist
from hypercobalt.apiserver.writing import Writer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

MANAGER: Final = "apiserver-node-lifecycle"
GRACE: Final = timedelta(seconds=50)  # kube-controller-manager's --node-monitor-grace-period
NODES: Final = "nodes"
LEASES: Final = "leases.coordination.k8s.io"
LEASE_NAMESPACE: Final = "kube-node-lease"

_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS: Final[Mapping[tuple[str, str], str]] = {  # by condition and status
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_CORDONED: Final = "node.kubernetes.io/unschedulable"
_OWN_KEYS: Final = {*_TAINTS.values(), _CORDONED}
_OWN_EFFECTS: Final = ("NoSchedule", "NoExecute")


class Mark(NamedTuple):
    """What changes when a Node reports: times of the host's own clock, compared, never counted."""

    renewed: str = ""  # the Lease
    posted: str = ""  # the heartbeat of the Ready condition


def silenced(node: JSONObject, stamp: str) -> JSONObject:
    """A Node whose kubelet has not reported for the grace period: what it reported is Unknown."""
    status: JSONObject = {**object_at(node, "status")}
    known = {text_at(one, "type"): one for one in objects_at(status, "conditions")}
    created = text_at(node, "metadata", "creationTimestamp")
    for type_ in _KUBELET_CONDITIONS:
        old = known.get(type_)
        if old is None or old.get("status") != "Unknown":
            known[type_] = _unknown(type_, old, created, stamp)
    status["conditions"] = list(known.values())
    return {**node, "status": status}


def _unknown(type_: str, old: JSONObject | None, created: str, stamp: str) -> JSONObject:
    changed: JSONObject = {"type": type_, "status": "Unknown", "lastTransitionTime": stamp}
    if old is None:
        never = "Kubelet never posted node status."
        reason: JSONObject = {"reason": "NodeStatusNeverUpdated", "message": never}
        return {**changed, **reason, "lastHeartbeatTime": created}
    stopped = "Kubelet stopped posting node status."
    return {**old, **changed, "reason": "NodeStatusUnknown", "message": stopped}


def tainted(node: JSONObject, stamp: str) -> JSONObject:
    """A Node with the taints that its conditions and its cordon call for; others' taints stay."""
    wanted = _wanted_taints(node)
    kept: list[JSON] = []
    for taint in objects_at(node, "spec", "taints"):
        pair = (text_at(taint, "key"), text_at(taint, "effect"))
        if pair in wanted or pair[0] not in _OWN_KEYS or pair[1] not in _OWN_EFFECTS:
            kept.append(taint)
            wanted.pop(pair, None)
    kept.extend({"key": key, "effect": effect, "timeAdded": stamp} for key, effect in wanted)
    spec: JSONObject = {**object_at(node, "spec"), "taints": kept}
    if not kept:
        del spec["taints"]
    return {**node, "spec": spec}


def _wanted_taints(node: JSONObject) -> dict[tuple[str, str], None]:
    """Keys and effects, in the order of the conditions."""
    wanted: dict[tuple[str, str], None] = {}
    for condition in objects_at(node, "status", "conditions"):
        type_ = text_at(condition, "type")
        if key := _TAINTS.get((type_, text_at(condition, "status"))):
            wanted[key, "NoSchedule"] = None
            if type_ == "Ready":
                wanted[key, "NoExecute"] = None
    if at(node, "spec", "unschedulable") is True:
        wanted[_CORDONED, "NoSchedule"] = None
    return wanted


class NodeReports:
    """When each followed Node was last seen to report, by the caller's clock.

    Args:
        grace: seconds that a Node may be silent.
    """

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self._marks: dict[str, Mark] = {}
        self._seen_at: dict[str, float] = {}  # of those in time, the longest ago first

    def __contains__(self, name: str) -> bool:
        return name in self._marks

    def mark(self, name: str) -> Mark:
        """The last observation of a Node."""
        return self._marks.get(name, Mark())

    def note(self, name: str, mark: Mark, now: float) -> None:
        """Take what is seen of a Node: a report, where it differs from what was seen before."""
        if self._marks.get(name) != mark:
            self._marks[name] = mark
            self._seen_at.pop(name, None)
            self._seen_at[name] = now

    def forget(self, name: str) -> None:
        self._marks.pop(name, None)
        self._seen_at.pop(name, None)

    def next_silent(self) -> tuple[str, float] | None:
        """The Node whose time runs out first, and when; None when all of them are silent."""
        for name, seen in self._seen_at.items():
            return name, seen + self.grace
        return None

    def is_silent(self, name: str, now: float) -> bool:
        """Whether a Node's time has run out: then it stays so until the next report."""
        seen = self._seen_at.get(name)
        if seen is not None and now >= seen + self.grace:
            del self._seen_at[name]
            log.warning("node_silent", node=name, grace_seconds=self.grace)
        return name not in self._seen_at


class NodeLifecycle:
    """Runs beside the server, from `start` to `stop`.

    Args:
        grace: how long a Node may be silent.
    """

    def __init__(
        self, store: Store, registry: Registry, writer: Writer, *, grace: timedelta = GRACE
    ) -> None:
        self._store, self._registry, self._writer = store, registry, writer
        self._reports = NodeReports(grace.total_seconds())
        self._work = Worklist("node-lifecycle", self._handle, self._run_out)
        self._unlisten: Callable[[], None] = store.listen(self._on_event)

    def start(self) -> None:
        for key, _ in self._store.scan(LEASES, LEASE_NAMESPACE):
            self._work.add(key.name)
        self._work.start()

    async def stop(self) -> None:
        self._unlisten()
        await self._work.stop()

    def _on_event(self, event: Event) -> None:
        key = event.key
        is_lease = key.resource == LEASES and key.namespace == LEASE_NAMESPACE
        if is_lease or (key.resource == NODES and self._is_followed(key.name)):
            self._work.add(key.name)

    def _is_followed(self, name: str) -> bool:
        return name in self._reports or self._store.get(_lease_key(name)) is not None

    def _run_out(self, now: float) -> float | None:
        """Queue the next Node to fall silent if its time has run out, and return that time."""
        name, at_time = self._reports.next_silent() or ("", None)
        if at_time is not None and at_time <= now:
            self._work.add(name)
        return at_time

    async def _handle(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        stored = self._store.get(Key(NODES, "", name))
        if stored is None:
            self._reports.forget(name)
            return
        node: JSONObject = msgspec.json.decode(stored.data)
        self._reports.note(name, Mark(self._renewed(name), _posted(node)), now)
        stamp = stamp_of(datetime.now(UTC))
        if self._reports.is_silent(name, now):
            node = await self._write(name, node, lambda found: silenced(found, stamp), "status")
        await self._write(name, node, lambda found: tainted(found, stamp))

    def _renewed(self, name: str) -> str:
        """When the Node's Lease was renewed; of one that was deleted, when it last was."""
        stored = self._store.get(_lease_key(name))
        if stored is None:
            return self._reports.mark(name).renewed
        return text_at(msgspec.json.decode(stored.data), "spec", "renewTime")

    async def _write(
        self, name: str, node: JSONObject, change: Change, subresource: str = ""
    ) -> JSONObject:
        """Write what `change` makes of the Node, unless that is what it is already."""
        if (wanted := change(node)) != node:
            resource = self._registry.by_stored(NODES)
            assert resource is not None  # noqa: S101 - a built-in kind
            call = Call.internal(resource, Key(NODES, "", name), MANAGER, subresource)
            with contextlib.suppress(NotFoundError):
                await self._writer.change(call, change)
        return wanted


def _lease_key(name: str) -> Key:
    return Key(LEASES, LEASE_NAMESPACE, name)


def _posted(node: JSONObject) -> str:
    """The heartbeat in the kubelet's own report of itself."""
    beats = (
        text_at(condition, "lastHeartbeatTime")
        for condition in objects_at(node, "status", "conditions")
        if condition.get("type") == "Ready"
    )
    return next(beats, "")
