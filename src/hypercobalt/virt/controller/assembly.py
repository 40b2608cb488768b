"""Puts virt-controller's controller under a manager."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.kubevirt.names import APP, LAUNCHER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Controller, Manager, owned, primary
from hypercobalt.runtime.write_cache import WriteCache
from hypercobalt.virt.controller.act import Render, VMIActions
from hypercobalt.virt.controller.metrics import VMIPhases
from hypercobalt.virt.controller.observe import BY_VMI, VMIObserver, controlling_vmi
from hypercobalt.virt.controller.reconciler import NAME, VMIReconciler

REPORTER: Final = "kubevirt.io/virt-controller"
"""Reporter of the Events."""
MANAGER: Final = "virt-controller"
"""Owner of the fields that are written."""


def add_controller(manager: Manager, render: Render) -> None:
    """Add the controller of VMIs and what it watches.

    Args:
        manager: runs it.
        render: makes launcher pods.
    """
    vmis = manager.informer(VirtualMachineInstance)
    pods = manager.informer(Pod, labels=f"{APP}={LAUNCHER}", indexes={BY_VMI: controlling_vmi})
    kube = manager.kube.as_manager(MANAGER)
    observer = VMIObserver(kube, pods.cache, WriteCache(pods), manager.clock)
    actions = VMIActions(kube, observer, render, manager.recorder(REPORTER))
    reconciler = VMIReconciler(kube, WriteCache(vmis), observer, actions)
    manager.metrics.registry.register(VMIPhases(lambda: vmis.cache))
    watches = (primary(vmis), owned(pods, VirtualMachineInstance))
    manager.add(Controller(NAME, reconciler, watches=watches))
