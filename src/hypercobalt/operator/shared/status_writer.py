"""How the operator's controllers write the status of a Hypervisor: together, in one writer.

Each controller hands in its part: the condition types and the fields that are its own. Parts that
come in while a write of the same Hypervisor is under way, or waits for its turn, are put together
and go out in one: a single server-side apply of all that the operator owns. `Ready` and `Tainted`
are computed from the result, so they cost no write of their own. Fields of the node agent and of
others are never in it.

Source: Kubernetes API concepts, "Server-Side Apply"; docs/decisions/0010-one-status-writer.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import OPERATOR_TYPES, HypervisorConditionType
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.schema import Writer
from hypercobalt.api.writers import written_by
from hypercobalt.runtime import InvalidError, Kube, NotFoundError, Operation
from hypercobalt.runtime.write_cache import WriteCache

MANAGER: Final = "hypervisor-operator"
"""Field manager of the operator's part of a Hypervisor's status."""

AT_ONCE: Final = 4
"""Writes under way: when a whole fleet has something to write, parts meet while they wait."""

_Type = HypervisorConditionType

FIELDS: Final = written_by(Hypervisor, Writer.OPERATOR)
"""Fields of the status that the operator writes."""

TYPES: Final = OPERATOR_TYPES
"""Conditions that the operator writes; `HaEnabled` apart, never over another writer's."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the status that one controller sets.

    Args:
        types: condition types that are the controller's.
        conditions: as they should be; a type that is missing here is taken away.
        fields: by name, of `FIELDS`; others stay as they are.
    """

    types: frozenset[str] = frozenset()
    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict[str, object])


Compute = Callable[[Hypervisor], tuple[Condition, ...]]


class StatusWriter:
    """One for a process: the only writer of Hypervisors' status in it.

    Args:
        kube: its field manager does not matter.
        hypervisors: gets each write.
        compute: returns the conditions that follow from the rest.
        external_ha: another HA service writes `HypervisorDisabled` in maintenance `ha`.
    """

    def __init__(
        self,
        kube: Kube,
        hypervisors: WriteCache[Hypervisor],
        compute: Compute,
        *,
        external_ha: bool = True,
    ) -> None:
        self._kube, self._hypervisors = kube.as_manager(MANAGER), hypervisors
        self._compute, self._external_ha = compute, external_ha
        self._waiting: dict[str, _Batch] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def put(self, stored: Hypervisor, part: Part) -> Hypervisor:
        """Write `part`, unless the status has it already, and return the object as it is then.

        Args:
            stored: the object as the caller has it; a newer state counts if there is one. An object
                that is gone, or belongs to another shard by now, is not written.
            part: of the caller.
        """
        name = stored.metadata.name
        batch = self._waiting.setdefault(name, _Batch(stored))
        batch.parts.append(part)
        async with self._hypervisors.turn(name):
            if not batch.done:
                async with self._turn:
                    self._waiting.pop(name, None)
                    await self._write(batch)
        if batch.error is not None:
            raise batch.error
        return batch.stored

    async def _write(self, batch: _Batch) -> None:
        stored = self._hypervisors.get(batch.stored.metadata.name)
        try:
            if stored is not None:
                status = compose(stored, batch.parts, self._compute, external_ha=self._external_ha)
                batch.stored = await self._apply(stored, status)
        except NotFoundError as error:
            self._hypervisors.missing(batch.stored)
            batch.error = error
        except Exception as error:  # noqa: BLE001 - raised again by each caller that has a part in it
            batch.error = error
        batch.done = True

    async def _apply(self, stored: Hypervisor, status: HypervisorStatus) -> Hypervisor:
        mine_now = owned(stored, external_ha=self._external_ha)
        if status == mine_now:
            return stored
        # Where a host fails, a state that is out of date must not undo what is recorded of its
        # fencing, as that of a new leader may be.
        version = stored.metadata.resourceVersion if _fails(stored) else ""
        meta = ObjectMeta(name=stored.metadata.name, resourceVersion=version)
        mine = Hypervisor(metadata=meta, status=status)
        kept = {condition.type for condition in status.conditions}
        gone = {c.type for c in mine_now.conditions} - kept
        cleared = [n for n in FIELDS if getattr(stored.status, n) and not getattr(status, n)]
        try:
            answer = await self._kube.apply(mine, force=True, subresource="status")
        except InvalidError:
            if not gone:
                raise
            # Another manager owns a part of a released condition; the rest would be invalid.
            await self._remove(stored, gone)
            unconditional = replace(mine, metadata=replace(meta, resourceVersion=""))
            answer = await self._kube.apply(unconditional, force=True, subresource="status")
        # An apply removes only what no other manager owns, as the existing operator may.
        left = [n for n in cleared if getattr(answer.status, n)]
        if left or any(condition.type in gone for condition in answer.conditions):
            answer = await self._remove(answer, gone, left)
        return self._hypervisors.wrote(answer)

    async def _remove(
        self, stored: Hypervisor, types: set[str], fields: Iterable[str] = ()
    ) -> Hypervisor:
        """Remove conditions and fields, of any owner."""
        places = [n for n, c in enumerate(stored.conditions) if c.type in types]
        paths = [f"conditions/{place}" for place in reversed(places)]
        removals: list[Operation] = [
            {"op": "remove", "path": f"/status/{path}"} for path in (*paths, *fields)
        ]
        return await self._kube.json_patch(
            Hypervisor,
            stored.metadata.name,
            removals,
            resource_version=stored.metadata.resourceVersion,
            subresource="status",
        )


def _fails(hypervisor: Hypervisor) -> bool:
    """Whether the host is unwell, or was recovered and has not been given back."""
    in_ha = hypervisor.spec.maintenance == Maintenance.HA
    return in_ha or hypervisor.status.unhealthySince is not None


@dataclass(slots=True)
class _Batch:
    """Parts that are written together; `stored` is the answer once it is done."""

    stored: Hypervisor
    parts: list[Part] = field(default_factory=list[Part])
    done: bool = False
    error: Exception | None = None


def owned(hypervisor: Hypervisor, *, external_ha: bool = True) -> HypervisorStatus:
    """Return the operator's part of the status.

    Args:
        hypervisor: as stored.
        external_ha: in maintenance `ha` another service reports whether the host is disabled.
    """
    types = _types(hypervisor, external_ha=external_ha)
    fields: dict[str, Any] = {name: getattr(hypervisor.status, name) for name in FIELDS}
    conditions = tuple(c for c in hypervisor.conditions if c.type in types)
    return HypervisorStatus(conditions=conditions, **fields)


def _types(hypervisor: Hypervisor, *, external_ha: bool) -> frozenset[str]:
    ha = external_ha and hypervisor.spec.maintenance == Maintenance.HA
    return TYPES - {_Type.HYPERVISOR_DISABLED} if ha else TYPES


def compose(
    stored: Hypervisor, parts: list[Part], compute: Compute, *, external_ha: bool = True
) -> HypervisorStatus:
    """Return the operator's status with the parts in it; later parts override earlier ones."""
    mine, types = owned(stored, external_ha=external_ha), _types(stored, external_ha=external_ha)
    fields: dict[str, Any] = {}
    conditions = mine.conditions
    for part in parts:
        fields |= part.fields
        conditions = _merged(conditions, part)
    conditions = tuple(c for c in conditions if c.type in types)
    others = tuple(c for c in stored.conditions if c.type not in types)
    status = replace(stored.status, conditions=(*others, *conditions), **fields)
    found = compute(replace(stored, status=status))
    conditions = _merged(conditions, Part(frozenset(one.type for one in found), found))
    return replace(mine, conditions=conditions, **fields)


def _merged(conditions: tuple[Condition, ...], part: Part) -> tuple[Condition, ...]:
    """Merge conditions: old ones keep their places, so that equal sets are equal tuples."""
    kept = tuple(
        get_condition(part.conditions, c.type) or c
        for c in conditions
        if c.type not in part.types or get_condition(part.conditions, c.type)
    )
    there = {condition.type for condition in kept}
    return (*kept, *(c for c in part.conditions if c.type not in there))
