"""The launcher pod of a VirtualMachineInstance. Pure.

`launcher_pod(vmi, cluster)` is what virt-controller creates.
"""

from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.vmi.pod.metadata import hostname
from hypercobalt.vmi.pod.template import launcher_pod

__all__ = ["LAUNCHER_MODULE", "hostname", "launcher_pod"]
