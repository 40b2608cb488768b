"""Memory that a launcher pod needs beyond its guest's.

KubeVirt counts 288 MiB for one vCPU: 240 MiB for a monitor, a launcher, two daemons of libvirt and
QEMU, 32 MiB for graphics, 8 MiB for a thread of QEMU and 8 MiB for each vCPU. Here a launcher with
one libvirtd takes 21 MiB, and QEMU 23 MiB beyond the guest's memory, both measured with eight
guests; the rest is for caches and peaks. With too little, the kernel ends a guest at its limit.

Source: kubevirt, pkg/hypervisor (overhead), for page tables and what each vCPU takes.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.api.kubevirt.spec import DomainSpec
from hypercobalt.vmi.topology import amount, topology

MIB: Final = 1 << 20
BASE_BYTES: Final = 96 * MIB
VCPU_BYTES: Final = 8 * MIB
PAGE_TABLE_SHARE: Final = 512
"""A page table of 8 bytes maps a page of 4096."""


def overhead_bytes(domain: DomainSpec) -> int:
    """The overhead of a guest, in bytes.

    As upstream, page tables count where the VMI requests memory, and not where it only gives the
    guest some: the base has room for those of a guest of 8 GiB.

    Raises:
        UnfitVMIError: the topology or the request has no meaning.
    """
    requested = domain.resources.requests.get("memory")
    tables = 0
    if requested is not None:
        given = amount(requested, "spec.domain.resources.requests.memory")
        tables = given.value // PAGE_TABLE_SHARE
    return BASE_BYTES + topology(domain.cpu).vcpus * VCPU_BYTES + tables
