"""What libvirt answers, as an error of the port."""

from __future__ import annotations

import pytest

from hypercobalt.adapters.libvirt.links import within
from hypercobalt.adapters.libvirt.port import DiskInUseError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.rpc.errors import RpcError

QEMU = (
    "internal error: process exited while connecting to monitor: qemu-system-x86_64: -blockdev "
    '{"node-name":"libvirt-1-format"}: Failed to get "write" lock\nIs another process using the '
    "image [/shared/a.qcow2]?"
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (QEMU, DiskInUseError),
        (QEMU.replace('"write"', 'shared "write"'), DiskInUseError),
        ("resource busy: Lockspace resource '9f3b' is locked", DiskInUseError),
        ("Cannot allocate memory", LibvirtRefusedError),
        ("cannot acquire state change lock (held by monitor=x)", LibvirtRefusedError),
    ],
)
async def test_refusal_shows_whether_a_disk_is_in_use(
    text: str, kind: type[LibvirtRefusedError]
) -> None:
    async def refused() -> None:
        raise RpcError(text)

    with pytest.raises(LibvirtRefusedError) as raised:
        await within(1, "start", refused())
    assert type(raised.value) is kind
