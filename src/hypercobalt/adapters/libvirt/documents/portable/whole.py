"""What several elements of a definition have to agree on.

What a host promises is counted by `<memory>` and `<vcpu>`; libvirt takes the memory of a guest with
NUMA cells from these instead.
"""

from __future__ import annotations

from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError
from hypercobalt.adapters.libvirt.documents.scaled import memory_bytes
from hypercobalt.adapters.libvirt.documents.tree import Element


def check(root: Element) -> None:
    """Check a definition that fits the table.

    Raises:
        NotPortableError: it takes more than it declares, or lacks an element.
    """
    for tag in ("name", "uuid", "memory"):
        if root.first(tag) is None:
            raise NotPortableError(f"<{tag}> is missing")
    try:
        _check_memory(root)
    except NotPortableError:
        raise
    except ValueError as exc:
        raise NotPortableError(f"<memory>: {exc}") from None
    for disk in root.all("devices/disk"):
        if disk.first("source") and not disk.first("driver"):
            raise NotPortableError("<devices/disk> lacks <driver>: its format has to be written")
    if root.first("os/cmdline") and not root.first("os/kernel"):
        raise NotPortableError("<os/cmdline> without <os/kernel>")


def _check_memory(root: Element) -> None:
    (memory,) = root.all("memory")
    total = memory_bytes(memory.text, memory.get("unit"))
    cells = sum(
        memory_bytes(one.get("memory"), one.get("unit")) for one in root.all("cpu/numa/cell")
    )
    plugged = sum(
        memory_bytes(one.text, one.get("unit")) for one in root.all("devices/memory/target/size")
    )
    # libvirt rounds to KiB, and each size to what the machine type wants.
    if cells + plugged > total + 1024 * 1024 * (1 + sum(1 for _ in root.all("cpu/numa/cell"))):
        raise NotPortableError("<memory> is less than its NUMA cells and memory devices")
