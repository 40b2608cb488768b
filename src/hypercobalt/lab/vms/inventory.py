"""The VMs of a lab, as the libvirt of each host lists them."""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.lab.errors import LabRequestError
from hypercobalt.lab.vms.request import ListedVm


@dataclass(frozen=True, slots=True)
class Inventory:
    """The VMs of all hosts, as these list them.

    Args:
        vms: by host and name. During a migration a VM is on both hosts.
        silent: the state or error of a host that cannot list its VMs, by its name.
    """

    vms: tuple[ListedVm, ...]
    silent: dict[str, str]

    def find(self, name: str) -> ListedVm:
        """A VM by name; while it moves, where it still runs.

        Raises:
            LabError: no host has it.
        """
        found = [vm for vm in self.vms if vm.name == name]
        if not found:
            silent = "".join(
                f"; {host} does not list its VMs: {why}" for host, why in self.silent.items()
            )
            names = ", ".join(sorted({vm.name for vm in self.vms})) or "none"
            raise LabRequestError(f"VM {name!r} is on no host; there are: {names}{silent}")
        return next((vm for vm in found if vm.state == "running"), found[0])
