"""Since when a dead host may have stored nothing that came to it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.unit.operator.samples import NOW

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.ha.observing.signs import fell

EARLIER = NOW - timedelta(minutes=10)


def since(type_: str, status: str, at: datetime) -> Condition:
    return Condition(type=type_, status=status, reason="Because", message="", lastTransitionTime=at)


@pytest.mark.parametrize(
    ("conditions", "unwell", "at"),
    [
        pytest.param((), NOW, NOW, id="its kubelet is silent"),
        pytest.param((since("AgentReporting", "False", EARLIER),), NOW, EARLIER, id="its agent"),
        pytest.param(
            (since("DefinitionsStored", "False", EARLIER),), NOW, EARLIER, id="it could not write"
        ),
        pytest.param(
            (since("AgentReporting", "False", NOW), since("DefinitionsStored", "True", EARLIER)),
            NOW - timedelta(seconds=5),
            NOW - timedelta(seconds=5),
            id="all at once",
        ),
        pytest.param((since("AgentReporting", "False", EARLIER),), None, None, id="it is well"),
    ],
)
def test_host_stores_nothing_once_its_agent_cannot(
    conditions: tuple[Condition, ...], unwell: datetime | None, at: datetime | None
) -> None:
    status = HypervisorStatus(conditions=conditions, unhealthySince=unwell)
    assert fell(Hypervisor(status=status)) == at
