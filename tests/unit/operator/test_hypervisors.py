"""A controller's part of the status."""

from __future__ import annotations

from tests.unit.operator.samples import condition

from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.hypervisors import holds


def test_a_part_that_the_status_has_is_not_written() -> None:
    mine = condition("Ready", "True")
    stored = HypervisorStatus(internalIp="192.0.2.1", conditions=(mine, condition("Other", "True")))
    assert holds(stored, HypervisorStatus(conditions=(mine,)))
    assert holds(stored, HypervisorStatus(internalIp="192.0.2.1", conditions=(mine,)))
    assert not holds(stored, HypervisorStatus(internalIp="192.0.2.2", conditions=(mine,)))
    assert not holds(stored, HypervisorStatus(conditions=(condition("Ready", "False"),)))
