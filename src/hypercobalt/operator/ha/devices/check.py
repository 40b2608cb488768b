"""Checks that fence devices belong to their host, while the host is well: `FenceDevicesProven`.

A document that is wrong about a host is found before the host fails, and no order follows from it
after that. The proof is recorded in `status.fenceDevices`; a proven device is read again only where
its host reports another UUID, or the document has another device. Before each order it proves
itself again (`proving`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.fencing.devices import Identity
from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.core import Node
from hypercobalt.api.fencing import FenceDeviceIdentity
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import FenceDevicesReason, HypervisorConditionType
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.operator.ha.devices.identity import (
    NotProven,
    OtherHost,
    Proven,
    Verdict,
    judge,
    recorded,
)
from hypercobalt.operator.ha.devices.proving import LONGEST, read_systems
from hypercobalt.operator.ha.devices.template_fences import BoundFence, TemplateFences
from hypercobalt.operator.ha.observing import fleet
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Cache, Clock, Recorder, Result
from hypercobalt.runtime.write_cache import WriteCache

NAME: Final = "fence-devices"
AGAIN: Final = timedelta(minutes=10)
"""Interval until a device that gave no answer is read again: nothing reports that it answers."""

_Type = HypervisorConditionType
_Why = FenceDevicesReason
TYPES: Final = frozenset({_Type.FENCE_DEVICES_PROVEN})


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """Result for a host's devices.

    Args:
        status: of the condition.
        reason: of the condition.
        message: of the condition.
        records: for the status.
        again: look again after this long; None waits for a change.
    """

    status: str
    reason: FenceDevicesReason
    message: str
    records: tuple[FenceDeviceIdentity, ...] = ()
    again: timedelta | None = None


def found(bound: Iterable[BoundFence], verdicts: Iterable[Verdict]) -> DeviceFinding:
    """Return the finding from the verdicts about a host's devices."""
    pairs = [*zip(bound, verdicts, strict=True)]
    kept = (recorded(one.label, verdict) for one, verdict in pairs)
    records = tuple(one for one in kept if one is not None)
    if others := [one.why for _, one in pairs if isinstance(one, OtherHost)]:
        text = f"{'; '.join(others)}; the host is not fenced: correct the document"
        return DeviceFinding("False", _Why.OTHER_HOST, text, records, AGAIN)
    if open_ := [(one, it.why) for one, it in pairs if isinstance(it, NotProven)]:
        required = any(one.device.identity is Identity.REQUIRED for one, _ in open_)
        reason = _Why.NOT_PROVEN if required else _Why.UNVERIFIED
        again = None if all(one.device.identity is Identity.IGNORED for one, _ in open_) else AGAIN
        return DeviceFinding("Unknown", reason, "; ".join(why for _, why in open_), records, again)
    proven = (f"{one.label}: {it.uuid}" for one, it in pairs if isinstance(it, Proven))
    text = f"The devices report the UUID of the host: {'; '.join(proven)}"
    return DeviceFinding("True", _Why.PROVEN, text, records)


class FenceDevicesReconciler:
    """The shell around `judge` and `found`.

    Args:
        fences: the devices of the site.
        nodes: those that are hypervisors.
        hypervisors: what the controllers share.
        statuses: writes the status.
    """

    def __init__(
        self,
        fences: TemplateFences,
        nodes: Cache[Node],
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
        *,
        clock: Clock,
        events: Recorder,
    ) -> None:
        self._fences, self._nodes = fences, nodes
        self._hypervisors, self._statuses = hypervisors, statuses
        self._clock, self._events = clock, events
        self._judging = asyncio.Lock()  # of two hosts with one UUID, one is first

    async def reconcile(self, name: str, /) -> Result:
        node, hypervisor = self._nodes.get(name), self._hypervisors.get(name)
        if node is None or hypervisor is None:
            return Result()
        try:
            bound = self._fences.bound(node)
        except ConfigurationError as error:
            finding = DeviceFinding("Unknown", _Why.NOT_SET_UP, str(error))
            return await self._write(hypervisor, finding)
        if shared := self._fences.shared(name, bound):
            records = hypervisor.status.fenceDevices
            return await self._write(
                hypervisor, DeviceFinding("False", _Why.SHARED, shared, records)
            )
        if fleet.ready(node) != "True":
            return Result()  # what such a host reports is old; what was recorded stays
        reports = await asyncio.gather(*(self._read(one) for one in bound))
        async with self._judging:
            bound = self._fences.bound(node)
            verdicts = [
                judge(one.facts, *report) for one, report in zip(bound, reports, strict=True)
            ]
            return await self._write(hypervisor, found(bound, verdicts))

    async def _read(self, bound: BoundFence) -> tuple[frozenset[str], str]:
        record = bound.facts.record
        if bound.device.identity is Identity.IGNORED:
            return frozenset(), ""
        if record is not None and record.proven and record.systemUUID in bound.facts.claims:
            return frozenset({record.systemUUID}), ""
        try:
            read = await read_systems(await self._fences.opened(bound.device), LONGEST)
        except HypercobaltError as error:
            return frozenset(), str(error)
        return read.found, read.unread

    async def _write(self, hypervisor: Hypervisor, finding: DeviceFinding) -> Result:
        """Write the condition and the records, and an Event where the host is newly refused."""
        known = self._hypervisors.get(hypervisor.metadata.name) or hypervisor
        before = get_condition(known.conditions, _Type.FENCE_DEVICES_PROVEN)
        own = (before,) if before is not None else ()
        after = set_condition(
            own,
            _Type.FENCE_DEVICES_PROVEN,
            finding.status,
            finding.reason,
            finding.message,
            now=self._clock.now(),
        )
        await self._statuses.put(known, Part(TYPES, after, {"fenceDevices": finding.records}))
        same = before is not None and (before.reason, before.message) == (
            finding.reason,
            finding.message,
        )
        if finding.status == "False" and not same:
            self._events.record(
                known,
                "Warning",
                f"FenceDevice{finding.reason}",
                finding.message,
                action="CheckingFenceDevices",
            )
        return Result(finding.again)


def node_changed(old: Node | None, new: Node | None) -> bool:
    """A predicate: a host's reports or bindings may have changed on its Node."""
    if old is None or new is None:
        return True

    def seen(node: Node) -> tuple[object, ...]:
        info = node.status.nodeInfo
        uuid = info.systemUUID if info is not None else ""
        return node.metadata.labels, uuid, fleet.ready(node) == "True"

    return seen(old) != seen(new)


def host_changed(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: a host's reports or bindings may have changed on its Hypervisor."""
    if old is None or new is None:
        return True

    def seen(one: Hypervisor) -> tuple[object, ...]:
        status = one.status
        return one.metadata.labels, status.hostUUID, status.fenceDevices

    return seen(old) != seen(new)
