"""VirtualMachineInstance: one guest, from its creation to its end (`kubevirt.io/v1`).

Its definition is KubeVirt's (`definition.py`), so the structs hold what our code reads and no more:
a field that is not here survives, because no object is written back as a whole. There is no status
subresource: who may write the status is a matter of admission (`vmi.admission`).

Source: kubevirt.io/api, core/v1/types.go.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.kubevirt.spec import VMISpec
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.meta import Object, ResourceInfo


class VirtualMachineInstance(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", "Namespaced"
    )

    spec: VMISpec = VMISpec()
    status: VMIStatus = VMIStatus()
