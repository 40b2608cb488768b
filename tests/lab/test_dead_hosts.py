"""Hosts that lose power, freeze or are cut off: what the API shows, how soon, and when they return.

One lab with three hosts, each with a fault of its own at the same time: the Leases' time is waited
for once.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, ReadyReason
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.setup import Setup
from hypercobalt.runtime import Kube, SystemClock
from hypercobalt.views.lab import STALE, rows
from tests.following import follow

T = TypeVar("T", Hypervisor, Node)

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("able_machine")]

CRASHED, FROZEN, CUT = HOSTS = ("kvm-1", "kvm-2", "kvm-3")
UP = 60.0
LEASE = 40.0  # of a node agent, from its last renewal
GRACE = 50.0  # of a Node, from its last renewal
SLACK = 15.0  # of a busy machine
BACK = 30.0  # the heartbeat and the agent renew each 10 s

RecordProperty = Callable[[str, object], None]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    try:
        made = await Lab.make(tmp_path / "lab", api_port=0)
        await made.up(Setup(hosts=3))
        yield made
    finally:
        await down(tmp_path / "lab")


def ready(hypervisor: Hypervisor) -> Condition:
    found = get_condition(hypervisor.conditions, HypervisorConditionType.READY)
    assert found is not None
    return found


def is_ready(hypervisor: Hypervisor) -> bool:
    return ready(hypervisor).reason == ReadyReason.READY


def is_silent(hypervisor: Hypervisor) -> bool:
    return ready(hypervisor).reason == ReadyReason.AGENT_SILENT


def is_lost(node: Node) -> bool:
    (condition,) = (one for one in node.status.conditions if one.type == "Ready")
    keys = {taint.key for taint in node.spec.taints}
    return condition.status == "Unknown" and "node.kubernetes.io/unreachable" in keys


def is_well(node: Node) -> bool:
    (condition,) = (one for one in node.status.conditions if one.type == "Ready")
    return condition.status == "True" and not node.spec.taints


async def seconds_until(
    kube: Kube, kind: type[T], right: Callable[[T], bool], limit: float
) -> dict[str, float]:
    """When the object of each host is right, from now."""
    begun = time.monotonic()

    async def one(name: str) -> float:
        await follow(kube, kind, name, right, seconds=limit)
        return round(time.monotonic() - begun, 1)

    return dict(zip(HOSTS, await asyncio.gather(*map(one, HOSTS)), strict=True))


async def test_a_dead_host_is_unready_within_its_leases_and_ready_again_when_it_returns(
    lab: Lab, record_property: RecordProperty
) -> None:
    async with lab.control.client() as kube:
        await seconds_until(kube, Hypervisor, is_ready, UP)

        await asyncio.gather(
            lab.host(CRASHED).crash(), lab.host(FROZEN).freeze(), lab.host(CUT).wire.cut()
        )
        power = {host.name: host.power for host in lab.hosts}
        found = (await kube.list(Hypervisor)).items
        table = rows(power, found, SystemClock().now(), cut={CUT})
        assert [(row.power, row.state) for row in table] == [
            ("off", STALE),
            ("frozen", STALE),
            ("cut", STALE),
        ]

        silent, lost = await asyncio.gather(
            seconds_until(kube, Hypervisor, is_silent, LEASE + SLACK),
            seconds_until(kube, Node, is_lost, GRACE + SLACK),
        )
        for hypervisor in (await kube.list(Hypervisor)).items:
            assert ready(hypervisor).status == "False"
            for type_ in ("LibVirtConnection", "HaEnabled"):
                held = get_condition(hypervisor.conditions, type_)
                assert held is None or (held.status, held.reason) == ("Unknown", "AgentSilent")

        back, well, *_ = await asyncio.gather(
            seconds_until(kube, Hypervisor, is_ready, BACK + SLACK),
            seconds_until(kube, Node, is_well, BACK + SLACK),
            lab.up_host(lab.host(CRASHED)),
            lab.host(FROZEN).thaw(),
            lab.host(CUT).wire.restore(),
        )
    for what, times in (
        ("hypervisor_unready", silent),
        ("node_unreachable", lost),
        ("hypervisor_ready_again", back),
        ("node_ready_again", well),
    ):
        record_property(f"seconds_until_{what}", times)
        sys.stdout.write(f"\n{what} {times}")
