"""Who wrote what of an instance and its pod, in the order of the writes: drawn from a run.

An object's version orders the writes of all; the entry of `managedFields` that a write changes
names its writer. A binding and a deletion change none: schedulers alone bind, and virt-controller
deletes the pod of a VMI.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeVar

import msgspec

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ManagedFieldsEntry, Object, ObjectMeta, ResourceInfo, Struct
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.watch import Change, WatchEvent

API: Final = "API server"
CLIENT, SCHEDULER, CONTROLLER = "client", "kube-scheduler", "virt-controller"
_NAMES: Final = {"cobalt-lab": CLIENT}
_ORDER: Final = (CLIENT, API, CONTROLLER, SCHEDULER, "kubelet", "virt-handler")


class _Entry(ManagedFieldsEntry, frozen=True):
    fieldsV1: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def key(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource


_NOTHING: Final = _Entry()


class _Meta(ObjectMeta, frozen=True):
    managedFields: tuple[_Entry, ...] = ()


class _Condition(Struct, frozen=True):
    type: str
    status: str


class _Status(Struct, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()


class _Spec(Struct, frozen=True):
    nodeName: str = ""


class _Seen(Object, frozen=True):
    """What is read of an instance or a pod."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        return "pod" if self.resource.kind == "Pod" else "vmi"


class _SeenVMI(_Seen, frozen=True):
    resource: ClassVar[ResourceInfo] = VirtualMachineInstance.resource


class _SeenPod(_Seen, frozen=True):
    resource: ClassVar[ResourceInfo] = Pod.resource


S = TypeVar("S", bound=_Seen)


@dataclass(frozen=True, slots=True)
class Step:
    """What one actor did."""

    who: str
    what: str


@dataclass(slots=True)
class Recording:
    """What was seen so far."""

    seen: list[tuple[Change, _Seen]] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """The writes, each once, in their order."""
        before: dict[str, _Seen] = {}
        made: list[Step] = []
        for change, now in sorted(self.seen, key=lambda one: int(one[1].metadata.resourceVersion)):
            made += _steps(change, now, before.get(now.name))
            before[now.name] = now
        return made


@asynccontextmanager
async def recorded(kube: Kube, namespace: str) -> AsyncGenerator[Recording]:
    """Record the instances and pods of a namespace, in which there is neither yet."""
    recording = Recording()
    async with AsyncExitStack() as stack:
        vmis = await stack.enter_async_context(kube.watch(_SeenVMI, namespace))
        pods = await stack.enter_async_context(kube.watch(_SeenPod, namespace))
        reading = (
            asyncio.create_task(_read(vmis, recording)),
            asyncio.create_task(_read(pods, recording)),
        )
        try:
            yield recording
        finally:
            for task in reading:
                task.cancel()
            for found in await asyncio.gather(*reading, return_exceptions=True):
                if isinstance(found, Exception):
                    raise found


async def _read(events: AsyncIterator[WatchEvent[S]], recording: Recording) -> None:
    async for event in events:
        assert not event.problem, event.problem
        if event.object is not None:
            recording.seen.append((event.change, event.object))


def diagram(steps: Iterable[Step]) -> str:
    """The steps as Mermaid draws them."""
    made = list(steps)
    taken = [name for name in _ORDER if name == API or any(step.who == name for step in made)]
    lines = ["sequenceDiagram"]
    lines += [f"    participant {_id(name)} as {name}" for name in taken]
    lines += [f"    {_id(step.who)}->>{_id(API)}: {step.what}" for step in made]
    return "\n".join(lines) + "\n"


def by_actor(drawn: str) -> dict[str, list[str]]:
    """What each actor does in every run, in its own order: actors do not wait for each other.

    Conditions come with a phase, or after it.
    """
    found: dict[str, list[str]] = {}
    for line in drawn.splitlines():
        who, arrow, request = line.strip().partition("->>")
        step = request.partition(": ")[2].partition(",")[0]
        if arrow and (not step.startswith(("pod:", "vmi:")) or "phase" in step):
            found.setdefault(who, []).append(step)
    return found


def _id(name: str) -> str:
    return name.replace(" ", "").replace("-", "")


def _steps(change: Change, now: _Seen, before: _Seen | None) -> Iterator[Step]:
    if change is Change.DELETED:
        yield Step(API, f"{now.name} is gone")
        return
    who = ", ".join(_writers(before, now))
    if before is None:
        yield Step(who, f"create {now.name}")
    elif now.metadata.deletionTimestamp and not before.metadata.deletionTimestamp:
        yield Step(CLIENT if now.name == "vmi" else CONTROLLER, f"delete {now.name}")
    elif now.spec.nodeName and not before.spec.nodeName:
        yield Step(SCHEDULER, "bind pod to a node")
    elif what := ", ".join(_changes(before, now)):
        yield Step(who, f"{now.name}: {what}")


def _writers(before: _Seen | None, now: _Seen) -> list[str]:
    """Who owns more than before; where nobody does, whose entry differs.

    A write also takes fields from the entry of their last owner.
    """
    old = {one.key: one for one in before.metadata.managedFields} if before else {}
    changed = [one for one in now.metadata.managedFields if one != old.get(one.key)]
    gained = [one for one in changed if _paths(one) - _paths(old.get(one.key, _NOTHING))]
    found = (one.manager.partition("/")[0] for one in gained or changed)
    return list(dict.fromkeys(_NAMES.get(name, name) for name in found))


def _paths(entry: _Entry) -> set[str]:
    def below(fields: object, path: str) -> Iterator[str]:
        if isinstance(fields, dict):
            for name, inner in fields.items():
                yield f"{path}/{name}"
                yield from below(inner, f"{path}/{name}")

    return set(below(msgspec.json.decode(entry.fieldsV1), ""))


def _changes(before: _Seen, now: _Seen) -> Iterator[str]:
    if now.status.phase != before.status.phase:
        yield f"phase {now.status.phase}"
    old = {one.type: one.status for one in before.status.conditions}
    for one in now.status.conditions:
        if old.get(one.type) != one.status:
            yield f"{one.type.rpartition('/')[2]} {one.status}"
    if before.metadata.finalizers and not now.metadata.finalizers:
        yield "no finalizer"
