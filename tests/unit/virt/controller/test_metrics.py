"""Metrics of VMIs."""

from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.virt.controller.metrics import VMIPhases


def test_vmis_are_counted_by_phase_and_no_phase_is_a_label_of_its_own() -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    vmis = [
        VirtualMachineInstance(status=VMIStatus(phase=p)) for p in ("", "Pending", "Running", "x")
    ]
    meta = ObjectMeta(deletionTimestamp=now)
    vmis.append(VirtualMachineInstance(metadata=meta, status=VMIStatus(phase="Running")))
    registry = CollectorRegistry()
    registry.register(VMIPhases(lambda: vmis))

    def count(phase: str) -> float | None:
        return registry.get_sample_value("kubevirt_vmi_phase_count", {"phase": phase})

    found = [count(one) for one in ("Pending", "Running", "Unknown", "Failed", "", "x")]
    assert found == [2, 2, 1, 0, None, None]
    assert registry.get_sample_value("hypercobalt_vmis_leaving") == 1
