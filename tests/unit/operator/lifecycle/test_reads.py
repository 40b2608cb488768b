"""A step declares all that it reads: a change of anything else leads to no pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.messages import decide_once
from tests.unit.operator.lifecycle.facts import HOST, LABELS, facts
from tests.unit.operator.lifecycle.steps import COPIED, steps
from tests.unit.operator.lifecycle.strategies import conditions, hosts
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import Aggregate, HypervisorStatus, SmokeTest
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.reads import Reads
from hypercobalt.operator.lifecycle.reconciler import WRITES
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.lifecycle.step import LifecycleFacts, LifecycleStep, StepOutcome

PROBE = "hypervisor:StorageReachable"
FIXED = {f"metadata.{name}" for name in ("name", "uid", "creationTimestamp", "ownerReferences")}
NOTED = {"metadata.generation"}
"""Read at any time: conditions note of which generation they are."""


@pytest.fixture(autouse=True, scope="module")
def rules_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        decide_once(patch)
        yield


class Log:
    """The reads of a host, as paths; conditions by type, labels and annotations by key."""

    read: ClassVar[set[str]] = set()


def noting(prefix: str) -> Callable[[msgspec.Struct, str], object]:
    """`__getattribute__` of a struct that notes which of its fields are read."""

    def read(self: msgspec.Struct, name: str) -> object:
        if name in type(self).__struct_fields__:
            Log.read.add(f"{prefix}{name}")
        return object.__getattribute__(self, name)

    return read


class Noted(dict[str, str]):
    """Labels or annotations."""

    def __init__(self, kind: str, known: dict[str, str]) -> None:
        super().__init__(known)
        self._kind = kind

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        Log.read.add(f"{self._kind} {key}")
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        Log.read.add(f"{self._kind} {key}")
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        Log.read.add(f"{self._kind} {key}")
        return super().__contains__(key)


class NotedCondition(Condition, frozen=True):
    def __getattribute__(self, name: str) -> object:
        if name in {"status", "reason", "message", "lastTransitionTime"}:
            Log.read.add(f"condition {self.type}")
        return super().__getattribute__(name)


class NotedSpec(HypervisorSpec, frozen=True):
    __getattribute__ = noting("spec.")


class NotedStatus(HypervisorStatus, frozen=True):
    __getattribute__ = noting("status.")


class NotedMeta(ObjectMeta, frozen=True):
    __getattribute__ = noting("metadata.")


def noted(known: Hypervisor) -> Hypervisor:
    """The same facts; records which of them are read."""

    def fields(struct: msgspec.Struct) -> dict[str, Any]:
        return {name: getattr(struct, name) for name in struct.__struct_fields__}

    found = tuple(NotedCondition(**fields(one)) for one in known.conditions)
    status = {**fields(known.status), "conditions": found}
    texts = {
        "labels": Noted("label", known.metadata.labels),
        "annotations": Noted("annotation", known.metadata.annotations),
    }
    meta = {**fields(known.metadata), **texts}
    return msgspec.structs.replace(
        known,
        metadata=NotedMeta(**meta),
        spec=NotedSpec(**fields(known.spec)),
        status=NotedStatus(**status),
    )


def undeclared(step: LifecycleStep, given: LifecycleFacts) -> list[str]:
    """What a step reads of a host in one run, and neither declares nor finds written by steps."""
    Log.read.clear()
    asyncio.run(step.run(replace(given, hypervisor=noted(given.hypervisor))))
    wholes = {"status.conditions", "status.waits", "metadata.labels", "metadata.annotations"}
    read = Log.read - FIXED - wholes
    return sorted(read - set(declared(step.reads, given.hypervisor)) - set(written(given)))


def declared(reads: Reads, hypervisor: Hypervisor) -> Iterator[str]:
    yield from reads.fields
    yield from (f"condition {type_}" for type_ in reads.conditions)
    yield from (f"label {key}" for key in reads.labels)
    yield from (f"annotation {key}" for key in reads.annotations)
    times = reads.at_times.items()
    at_times = [name for name, when in times if name in NOTED or when(hypervisor)]
    yield from (name if "." in name else f"condition {name}" for name in at_times)


def written(given: LifecycleFacts) -> Iterator[str]:
    return declared(WRITES, given.hypervisor)


@st.composite
def any_facts(draw: st.DrawFn) -> LifecycleFacts:
    """Any host, whether the compute service lists it or not."""
    spec, host = draw(hosts())
    spec = msgspec.structs.replace(spec, skipTests=draw(st.booleans()))
    found = facts(
        *draw(conditions()),
        spec=spec,
        host=host,
        labels={**LABELS, COPIED[0]: "region-a"},
        **draw(FIELDS),
    )
    gone = NOW if draw(st.booleans()) else None
    meta = msgspec.structs.replace(found.hypervisor.metadata, deletionTimestamp=gone)
    known = msgspec.structs.replace(found.hypervisor, metadata=meta)
    return replace(found, hypervisor=known)


FIELDS = st.fixed_dictionaries(
    {
        "numInstances": st.sampled_from([None, 0, 2]),
        "libVirtVersion": st.sampled_from([None, "unknown", "7.0.0", "9.0.0"]),
        "serviceId": st.sampled_from([None, "service-1"]),
        "smokeTest": st.sampled_from([None, SmokeTest(attempts=1, server="s1")]),
        "aggregates": st.sampled_from([(), (Aggregate(name="zone-a", uuid="u"),)]),
        "evicted": st.sampled_from([None, True]),
    }
)


FORGOTTEN = replace(
    facts(
        condition("Registered", "False", "NotRegistered"),
        condition("NodeHealthy", "True", "Healthy"),
        spec=HypervisorSpec(lifecycleEnabled=True, maintenance="termination"),
        host=None,
        numInstances=1,
    ),
    now=NOW + LifecycleSettings().forgotten,
)
"""Facts of a host in termination, long unknown to the compute service."""

PROBED = facts(
    condition("Onboarding", "True", "Initial"),
    condition("AgentReporting", "True", "Reporting"),
    condition("LibVirtConnection", "True", "Connected"),
    condition("StorageReachable", "False"),
    libVirtVersion="9.0.0",
)
"""Waits for its storage and nothing else."""


@pytest.mark.parametrize("place", range(len(steps())), ids=[step.name for step in steps()])
@given(known=any_facts())
@example(known=FORGOTTEN)
@example(known=PROBED)
def test_step_reads_nothing_that_it_does_not_declare(place: int, known: LifecycleFacts) -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host(HOST.name, servers=known.host.servers if known.host else ())
    assert undeclared(steps(compute, PROBE)[place], known) == []


@dataclass
class Careless:
    """A step that reads more than it declares."""

    name = "careless"
    reads = Reads(at_times={"status.numInstances": lambda one: bool(one.spec.maintenance)})

    async def run(self, facts: LifecycleFacts) -> StepOutcome:
        hypervisor = facts.hypervisor
        return StepOutcome(
            facts
            if hypervisor.status.numInstances
            and hypervisor.spec.version
            and hypervisor.metadata.labels.get("zone")
            and hypervisor.metadata.annotations.get("note", "none")
            and facts.holds("TLSCertificateInstalled", "True")
            else replace(facts)
        )


def test_access_to_a_condition_or_field_counts_as_read() -> None:
    known = facts(
        condition("TLSCertificateInstalled", "True"),
        spec=HypervisorSpec(version="2"),
        labels={"zone": "a"},
        numInstances=1,
    )
    assert undeclared(Careless(), known) == [
        "annotation note",
        "condition TLSCertificateInstalled",
        "label zone",
        "spec.version",
        "status.numInstances",
    ]
