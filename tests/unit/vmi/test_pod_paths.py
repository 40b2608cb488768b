"""Paths of a launcher pod, and texts that cannot be part of one."""

from __future__ import annotations

import pytest

from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.unfit import UnfitVMIError, label, segment

PATHS = PodPaths()


def test_files_lie_where_kubevirt_has_them() -> None:
    assert PATHS.command_socket == "/var/run/kubevirt/sockets/launcher-sock"
    assert PATHS.image(3) == "/var/run/kubevirt-image-volume/disk_3"
    assert PATHS.container_disk(3) == "/var/run/kubevirt/container-disks/disk_3.img"
    assert PATHS.overlay("root") == "/var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2"
    assert PATHS.empty_disk("data") == "/var/run/libvirt/empty-disks/data.qcow2"
    assert PATHS.guest_socket("uid-1", "virt-vnc") == "/var/run/kubevirt-private/uid-1/virt-vnc"


@pytest.mark.parametrize(
    ("path", "name"),
    [("/boot/vmlinuz", "vmlinuz"), ("vmlinuz", "vmlinuz"), ("/a/../.b c", ".b c"), ("/a/b/", "b")],
)
def test_a_kernel_is_found_by_its_last_name(path: str, name: str) -> None:
    expected = f"/var/run/kubevirt/container-disks/kernel-boot/{name}"
    assert PATHS.kernel_file(path, "spec.x") == expected


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "/", "a\0", "a\n", "\x7f", "\x85", "a" * 256]
)
def test_a_segment_cannot_leave_its_directory(text: str) -> None:
    with pytest.raises(UnfitVMIError, match=r"^spec\.x: ") as raised:
        segment(text, "spec.x")
    assert raised.value.field == "spec.x"
    assert raised.value.reason == "Invalid"


@pytest.mark.parametrize("text", ["a", "...", "a..b", "a" * 255, "é"])
def test_a_segment_may_be_any_name_of_a_file(text: str) -> None:
    assert segment(text, "spec.x") == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a.b", "a_b", "a/b", "a\n", "a" * 64])
def test_a_volume_is_named_by_a_label(text: str) -> None:
    with pytest.raises(UnfitVMIError):
        label(text, "spec.x")


@pytest.mark.parametrize("text", ["a", "0", "a-b", "a" * 63])
def test_a_label_is_taken(text: str) -> None:
    assert label(text, "spec.x") == text
