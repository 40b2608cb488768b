"""Leases and reporters for tables."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.unit.operator.samples import node as sample_node

from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.core import NodeCondition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.times import micro_time
from hypercobalt.views.explain.reporters import Reporters


def lease(name: str, renewed: datetime, *, holder: str = "someone", namespace: str = "ns") -> Lease:
    return Lease(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=LeaseSpec(
            holderIdentity=holder, leaseDurationSeconds=40, renewTime=micro_time(renewed)
        ),
    )


def reporters(
    now: datetime, *, agent: int | None = 5, kubelet: int | None = 5, operator: int | None = 5
) -> Reporters:
    """All reporters, each last seen so many seconds ago; None for never."""

    def seen(name: str, seconds: int | None) -> Lease | None:
        return None if seconds is None else lease(name, now - timedelta(seconds=seconds))

    ready = NodeCondition(type="Ready", status="True")
    return Reporters(
        agent=seen("node-agent-kvm-a", agent),
        kubelet=seen("kvm-a", kubelet),
        operator=seen("4c28796a.cloud.sap", operator),
        node=sample_node(ready),
    )
