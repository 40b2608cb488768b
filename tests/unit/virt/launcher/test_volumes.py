"""Which file of an image becomes a disk, and which links lead out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypercobalt.adapters.disks.fake import FakeDisks
from hypercobalt.adapters.disks.port import MIB, DiskFailureError, DiskImage
from hypercobalt.api import codec
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.virt.launcher.volumes import prepare_volumes, takes_direct_io
from hypercobalt.vmi.paths import PodPaths
from hypercobalt.vmi.unfit import UnfitVMIError


@pytest.fixture
def paths(tmp_path: Path) -> PodPaths:
    return PodPaths(
        public=f"{tmp_path}/public",
        ephemeral=f"{tmp_path}/ephemeral",
        runtime=f"{tmp_path}/run/libvirt",
        images=f"{tmp_path}/images",
        kernel=f"{tmp_path}/kernel",
    )


@pytest.fixture
def disks(paths: PodPaths) -> FakeDisks:
    made = FakeDisks()
    made.images[put(paths, "disk/guest.img")] = DiskImage("raw", 8 * MIB)
    return made


def put(paths: PodPaths, name: str, *, index: int = 0) -> Path:
    file = Path(paths.image(index), name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return file


def vmi(*volumes: Mapping[str, object], **domain: object) -> VirtualMachineInstance:
    spec = {"volumes": volumes, "domain": domain}
    document = {"metadata": {"name": "guest", "namespace": "lab"}, "spec": spec}
    return codec.decode(msgspec.json.encode(document), VirtualMachineInstance)


def container_disk(path: str = "") -> dict[str, object]:
    return {"name": "root", "containerDisk": {"image": "lab/guest", "path": path}}


EMPTY = {"name": "data", "emptyDisk": {"capacity": "1500Ki"}}


async def test_disks_are_made_over_images_and_empty(paths: PodPaths, disks: FakeDisks) -> None:
    for _ in range(2):
        formats = await prepare_volumes(vmi(container_disk(), EMPTY), paths, disks)
        assert formats == {"root": "raw"}
    link = Path(paths.container_disk(0))
    assert link.readlink() == Path(paths.image(0), "disk/guest.img")
    assert disks.made == {
        Path(paths.overlay("root")): (link, 8 * MIB),
        Path(paths.empty_disk("data")): (None, MIB),
    }


async def test_path_names_the_file_where_it_is_given(paths: PodPaths, disks: FakeDisks) -> None:
    disks.images[put(paths, "other/one.img")] = DiskImage("qcow2", MIB)
    put(paths, "disk/second.img")
    for path in ("other/one.img", "/other/one.img"):
        assert await prepare_volumes(vmi(container_disk(path)), paths, disks) == {"root": "qcow2"}
    with pytest.raises(UnfitVMIError, match="holds 2 files, not one"):
        await prepare_volumes(vmi(container_disk()), paths, disks)


@pytest.mark.parametrize("path", ["../../secret", "/../../secret", "link", "up/secret"])
async def test_nothing_leads_out_of_an_image(
    paths: PodPaths, disks: FakeDisks, tmp_path: Path, path: str
) -> None:
    (tmp_path / "secret").write_text("")
    root = Path(paths.image(0))
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to(tmp_path)
    with pytest.raises(UnfitVMIError, match="leads out of its image") as refused:
        await prepare_volumes(vmi(container_disk(path)), paths, disks)
    assert refused.value.field == "spec.volumes[0].containerDisk.path"


@pytest.mark.parametrize("path", ["absent", "a\0b", "loop", "x" * 5000])
async def test_file_that_an_image_lacks_is_named(
    paths: PodPaths, disks: FakeDisks, path: str
) -> None:
    Path(paths.image(0), "loop").symlink_to("loop")
    with pytest.raises(UnfitVMIError, match="is not in its image"):
        await prepare_volumes(vmi(container_disk(path)), paths, disks)


async def test_image_without_the_directory_of_disks_is_refused(
    paths: PodPaths, disks: FakeDisks
) -> None:
    with pytest.raises(UnfitVMIError, match="has no directory /disk") as refused:
        await prepare_volumes(vmi(EMPTY, container_disk()), paths, disks)
    assert refused.value.field == "spec.volumes[1].containerDisk"


async def test_bad_image_is_the_vmis_fault_and_a_full_disk_is_not(
    paths: PodPaths, disks: FakeDisks
) -> None:
    disks.full = True
    with pytest.raises(DiskFailureError, match="No space left"):
        await prepare_volumes(vmi(container_disk()), paths, disks)
    disks.images[Path(paths.image(0), "disk/guest.img")] = "it has a backing file"
    with pytest.raises(UnfitVMIError, match=r"spec\.volumes\[0\]: .*backing file"):
        await prepare_volumes(vmi(container_disk()), paths, disks)
    with pytest.raises(UnfitVMIError, match=r"spec\.volumes\[0\]"):
        await prepare_volumes(vmi({"name": "d", "emptyDisk": {"capacity": "1"}}), paths, disks)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["..", ".", "", "disk", "guest.img", "up", "loop"]), max_size=8))
def test_any_path_leads_to_a_file_of_the_image_or_nowhere(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    place = tmp_path_factory.mktemp("image")
    paths = PodPaths(public=f"{place}/public", ephemeral=f"{place}/e", images=f"{place}/images")
    root = put(paths, "disk/guest.img").parents[1]
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    disks = FakeDisks()
    disks.images[root / "disk/guest.img"] = DiskImage("raw", MIB)
    with suppress(UnfitVMIError, DiskFailureError):
        made = vmi(container_disk("/".join(parts)))
        assert asyncio.run(prepare_volumes(made, paths, disks)) == {"root": "raw"}
        assert Path(paths.container_disk(0)).resolve().is_relative_to(root)


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "..", "", "a" * 64])
async def test_volume_whose_name_is_a_path_is_refused(
    paths: PodPaths, disks: FakeDisks, name: str
) -> None:
    for volume in ({**container_disk(), "name": name}, {**EMPTY, "name": name}):
        with pytest.raises(UnfitVMIError, match=r"spec\.volumes"):
            await prepare_volumes(vmi(volume), paths, disks)
    assert not disks.made


async def test_kernel_is_linked_from_its_image(paths: PodPaths, disks: FakeDisks) -> None:
    kernel = Path(paths.kernel, "boot/vmlinuz")
    kernel.parent.mkdir(parents=True)
    kernel.write_text("")
    container = {"image": "lab/kernel", "kernelPath": "/boot/vmlinuz"}
    made = vmi(firmware={"kernelBoot": {"container": container}})
    await prepare_volumes(made, paths, disks)
    assert Path(paths.kernel_file("/boot/vmlinuz", "")).resolve() == kernel
    container["initrdPath"] = "/boot/absent"
    made = vmi(firmware={"kernelBoot": {"container": container}})
    with pytest.raises(UnfitVMIError, match=r"kernelBoot\.container\.initrdPath"):
        await prepare_volumes(made, paths, disks)


def test_direct_io_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    assert takes_direct_io(tmp_path / "new") in {True, False}
    assert list((tmp_path / "new").iterdir()) == []
