"""Facts of a host from os-release, hostnamed's answer and the kernel's command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.host.files import follow, resolve
from hypercobalt.adapters.host.model import UnitNameError, check_unit_name
from hypercobalt.adapters.host.system import HostSystem, assemble, parse_os_release, read_file

GARDEN = """\
ID=gardenlinux
NAME="Garden Linux"
PRETTY_NAME="Garden Linux 1877.3"
IMAGE_VERSION=9
VERSION_ID=8
GARDENLINUX_VERSION=1877.3
GARDENLINUX_FEATURES="server, metal,,kvm"
GARDENLINUX_COMMIT_ID_LONG=0123abcd
VARIANT_ID='metal'
"""
LONG = timedelta(seconds=20)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=plain", "plain"),
        ('A="with space"', "with space"),
        ("A='single $x \"y\"'", 'single $x "y"'),
        (r'A="a \"quoted\" \$ \` \\ word"', 'a "quoted" $ ` \\ word'),
        ("A=", ""),
        ('A=""', ""),
        ("A=first\nA=second", "second"),
        ("  A=indented  ", "indented"),
        ("# A=comment", None),
        ('A="never closed', None),
        ("A=two words", None),
        ("export A=x", None),
        ('A="tab\there"', "tab here"),
        ('A="nul\x00 and bell\x07"', "nul  and bell"),
        ("A=" + "x" * 9999, "x" * 4096),
    ],
)
def test_os_release_is_read_as_a_shell_would(text: str, value: str | None) -> None:
    assert parse_os_release(text).get("A") == value


@given(st.text())
def test_no_os_release_breaks_the_reader(text: str) -> None:
    for value in parse_os_release(f'{text}\nA="{text}"').values():
        assert value.isprintable() or not value.isascii()


def test_facts_of_garden_linux_and_a_machine_are_put_together() -> None:
    hardware = {
        "HardwareVendor": "Maker",
        "HardwareModel": "M1",
        "HardwareSerial": None,
        "FirmwareVersion": "2.1",
        "FirmwareVendor": "Vendor\n",
        "FirmwareDate": 1_700_000_000_000_000,
    }

    found = assemble(parse_os_release(GARDEN), hardware, "root=/dev/sda quiet\n")

    assert found.pretty_version == "Garden Linux 1877.3"
    assert (found.version, found.variant_id, found.commit_id) == ("1877.3", "metal", "0123abcd")
    assert found.features == ("server", "metal", "kvm")
    assert found.kernel_command_line == "root=/dev/sda quiet"
    assert found.kernel_release == os.uname().release
    assert (found.hardware_vendor, found.hardware_model, found.hardware_serial) == (
        "Maker",
        "M1",
        "",
    )
    assert (found.firmware_version, found.firmware_vendor) == ("2.1", "Vendor")
    assert found.firmware_date == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("VERSION_ID=12", "12"),
        ("VERSION_ID=12\nIMAGE_VERSION=34", "34"),
        ("VERSION_ID=12\nIMAGE_VERSION=34\nGARDENLINUX_VERSION=5", "5"),
        ("", ""),
    ],
)
def test_version_is_that_of_the_image_before_that_of_the_release(
    release: str, version: str
) -> None:
    assert assemble(parse_os_release(release), {}, "").version == version


@pytest.mark.parametrize("date", [None, "yesterday", -1, 0, 2**80, 1.5, [1]])
def test_a_firmware_date_that_is_none_is_left_out(date: object) -> None:
    assert assemble({}, {"FirmwareDate": date, "HardwareModel": 7}, "").firmware_date is None


def test_a_file_that_is_no_small_text_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bytes").write_bytes(b"A=\xff\xfe\n" + b"x" * 100_000)

    assert read_file(tmp_path / "pipe") == ""
    assert read_file(tmp_path / "none") == ""
    assert read_file(tmp_path) == ""
    assert len(read_file(tmp_path / "bytes")) == 64 << 10


def write(path: Path) -> None:
    path.write_text("VERSION_ID=2\n")


def rename(path: Path) -> None:
    path.with_suffix(".new").write_text("VERSION_ID=2\n")
    path.with_suffix(".new").rename(path)


def swap_link(path: Path) -> None:
    target = path.parent.parent / "srv" / "image-2"
    target.parent.mkdir()
    target.write_text("VERSION_ID=2\n")
    path.with_suffix(".new").symlink_to("/srv/image-2")
    path.with_suffix(".new").rename(path)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("change", "version"), [(write, "2"), (rename, "2"), (swap_link, "2"), (remove, "1")]
)
async def test_a_change_of_os_release_shows_by_itself(
    tmp_path: Path, change: Callable[[Path], None], version: str
) -> None:
    for directory in ("etc", "usr/lib"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text("VERSION_ID=0\n")
    (tmp_path / "usr/lib/os-release").write_text("VERSION_ID=1\n")
    system = HostSystem(f"unix:path={tmp_path}/no-bus", root=tmp_path)

    async with asyncio.timeout(10), aclosing(system.watch()) as states:
        before = await anext(states)
        change(tmp_path / "etc/os-release")
        after = await anext(states)

    assert (before.version, after.version) == ("0", version)


async def test_a_change_behind_a_link_is_noticed_and_one_beside_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a/link").symlink_to("../b/file")
    with follow([tmp_path / "a/link"], tmp_path) as changed:
        waiting = asyncio.create_task(changed(LONG))
        (tmp_path / "b/other").touch()
        (tmp_path / "a/other").touch()
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done

        (tmp_path / "b/file").write_text("x")
        async with asyncio.timeout(5):
            await waiting


def test_links_that_go_round_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert resolve(tmp_path / "a", tmp_path).parent == tmp_path


@pytest.mark.parametrize(
    "name",
    ["libvirtd.service", "getty@tty1.service", r"dev-disk-by\x2did-a.device", "a:b_c.d-e.target"],
)
def test_names_of_units_pass(name: str) -> None:
    check_unit_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "libvirtd",
        ".service",
        "a@.service",
        "@b.service",
        "a b.service",
        "../a.service",
        "a/b.service",
        "a.service\n",
        "ä.service",
        "a@b@c.service",
        "x" * 248 + ".service",
    ],
)
def test_text_that_is_no_name_of_a_unit_is_refused(name: str) -> None:
    with pytest.raises(UnitNameError, match="systemd unit"):
        check_unit_name(name)


def test_description_of_this_systemd_is_understood() -> None:
    """A recorded answer of hostnamed 252, in a container, where it reports no hardware."""
    recorded = (
        '{"Hostname":"kvm-a","StaticHostname":"kvm-a","PrettyHostname":null,"Chassis":"container",'
        '"KernelName":"Linux","KernelRelease":"6.1.0","HardwareVendor":null,"HardwareModel":null,'
        '"HardwareSerial":null,"FirmwareVersion":null,"ProductUUID":null}'
    )
    found = assemble({}, msgspec.json.decode(recorded, type=dict[str, object]), "")

    assert (found.hardware_vendor, found.firmware_version) == ("", "")
