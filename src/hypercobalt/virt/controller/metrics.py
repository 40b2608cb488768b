"""Metrics of VMIs, counted out of the cache at each scrape. Label sets are closed: no names.

Source: KubeVirt's monitoring, `kubevirt_vmi_phase_count`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance


class VMIPhases(Collector):
    """Number of VMIs in each phase, and of those that have to go.

    Args:
        vmis: all of them.
    """

    def __init__(self, vmis: Callable[[], Iterable[VirtualMachineInstance]]) -> None:
        self._vmis = vmis

    def collect(self) -> Iterable[Metric]:
        """Count; a phase that is not known counts as Unknown."""
        phases, leaving = Counter[str](), 0
        known = {str(phase) for phase in VMIPhase}
        for vmi in self._vmis():
            phase = vmi.status.phase
            phases[phase if phase in known else VMIPhase.UNKNOWN] += 1
            leaving += vmi.metadata.deletionTimestamp is not None
        counted = GaugeMetricFamily(
            "kubevirt_vmi_phase_count", "VirtualMachineInstances in a phase.", labels=("phase",)
        )
        for phase in sorted(known - {""}):
            counted.add_metric((phase,), phases[phase] + (phases[""] if phase == "Pending" else 0))
        yield counted
        yield GaugeMetricFamily(
            "hypercobalt_vmis_leaving",
            "VirtualMachineInstances that are deleted and not gone yet.",
            value=leaving,
        )
