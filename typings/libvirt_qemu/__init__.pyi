"""What hypercobalt uses of libvirt-python's calls for QEMU alone."""

from collections.abc import Callable

import libvirt

def qemuMonitorEventRegister(  # noqa: N802
    conn: libvirt.virConnect,
    dom: libvirt.virDomain | None,
    event: str,
    cb: Callable[..., None],
    opaque: object,
    flags: int = 0,
) -> int: ...
def qemuMonitorEventDeregister(conn: libvirt.virConnect, callbackID: int) -> None: ...  # noqa: N802, N803
