"""What the tests of the lifecycle share: a site in memory, and what node agents report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.coordination import Event
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.runtime import Kube

TEST_AGGREGATE = "tenant_filter_tests"
QUICK = LifecycleSettings(
    poll=timedelta(milliseconds=50),
    resync=timedelta(milliseconds=300),
    compare=timedelta(milliseconds=300),
)


def now() -> datetime:
    return datetime.now(UTC)


def site(*hosts: str, has: Iterable[str] | None = None) -> FakeCompute:
    """A compute service with the aggregates that tests name, and those hosts."""
    made = FakeCompute(now, has=has) if has is not None else FakeCompute(now)
    made.world.add_aggregate("zone-a", zone="zone-a")
    made.world.add_aggregate("zone-b", zone="zone-b")
    made.world.add_aggregate(TEST_AGGREGATE)
    made.world.add_aggregate("general")
    for host in hosts:
        made.world.add_host(host)
    return made


async def agent_reports(
    kube: Kube, name: str, *, status: str = "True", version: str = "9.0.0"
) -> Hypervisor:
    """What the host's node agent writes when libvirt answers."""
    conditions = set_condition(
        (), "LibVirtConnection", status, "Connected", "", now=datetime(2026, 1, 1, tzinfo=UTC)
    )
    mine = HypervisorStatus(libVirtVersion=version, numInstances=0, conditions=conditions)
    agent = kube.as_manager("kvm-node-agent")
    return await agent.apply(
        Hypervisor(metadata=ObjectMeta(name=name), status=mine), force=True, subresource="status"
    )


def phase(hypervisor: Hypervisor) -> str:
    """Phase of the recovery of a host; "" for a healthy host."""
    return hypervisor.status.recovery.phase if hypervisor.status.recovery else ""


def message(hypervisor: Hypervisor, type_: str) -> str:
    """Message of a condition, empty if there is none."""
    found = get_condition(hypervisor.conditions, type_)
    return found.message if found else ""


async def set_spec(kube: Kube, name: str, **changes: object) -> None:
    """Change the spec as a person would."""

    def changed(found: Hypervisor) -> Hypervisor:
        spec: HypervisorSpec = replace(found.spec, **changes)
        return replace(found, spec=spec)

    assert await kube.modify(Hypervisor, name, changed) is not None


async def warnings(kube: Kube, about: str) -> set[str]:
    """Notes of the Warning Events on a Hypervisor."""
    return {
        event.note
        for event in (await kube.list(Event, "default")).items
        if event.type == "Warning" and event.regarding and event.regarding.name == about
    }
