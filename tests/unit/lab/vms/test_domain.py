from __future__ import annotations

import uuid
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.vms.domain import Domain, Kernel, Port, RawDisk, Tuning, Watchdog, element

ID = uuid.UUID("00000000-0000-4000-8000-000000000001")
PORT = uuid.UUID("00000000-0000-4000-8000-000000000002")


PLAIN = Domain(
    name="vm-1",
    uuid=ID,
    type="qemu",
    title="linux 10.78.0.10",
    console="/run/vm-1.sock",
    log="/srv/vm-1.log",
)


def document(domain: Domain) -> ET.Element:
    return ET.fromstring(domain.xml())  # noqa: S314 - our own


@pytest.mark.parametrize(
    ("domain", "path", "attributes"),
    [
        pytest.param(PLAIN, ".", {"type": "qemu"}, id="type"),
        pytest.param(replace(PLAIN, type="kvm"), ".", {"type": "kvm"}, id="type-kvm"),
        pytest.param(PLAIN, "os/boot", {"dev": "hd"}, id="boots-from-its-disk"),
        pytest.param(
            PLAIN, "devices/watchdog", {"model": "i6300esb", "action": "reset"}, id="watchdog"
        ),
        pytest.param(
            replace(PLAIN, watchdog=Watchdog("pause", "ib700")),
            "devices/watchdog",
            {"model": "ib700", "action": "pause"},
            id="another-watchdog",
        ),
        pytest.param(PLAIN, "devices/panic", {"model": "isa"}, id="panic-device"),
        pytest.param(
            PLAIN, "devices/serial/source", {"mode": "bind", "path": "/run/vm-1.sock"}, id="console"
        ),
        pytest.param(
            PLAIN, "devices/serial/log", {"file": "/srv/vm-1.log", "append": "on"}, id="log"
        ),
        pytest.param(
            replace(PLAIN, boots=Kernel("/k", "/i", "quiet")),
            "devices/channel/target",
            {"type": "virtio", "name": "org.qemu.guest_agent.0"},
            id="channel-of-the-guest-agent",
        ),
        pytest.param(
            replace(PLAIN, disks=(RawDisk("/a", readonly=True),)),
            "devices/disk/readonly",
            {},
            id="disk-that-cannot-be-written",
        ),
        pytest.param(
            replace(PLAIN, disks=(RawDisk("/a", "report"),)),
            "devices/disk/driver",
            {"name": "qemu", "type": "raw", "cache": "none", "error_policy": "report"},
            id="disk-uncached",
        ),
        pytest.param(
            replace(PLAIN, disks=(RawDisk("/a"), RawDisk("/b"))),
            "devices/disk[2]/target",
            {"dev": "vdb", "bus": "virtio"},
            id="second-disk",
        ),
        pytest.param(
            replace(PLAIN, port=Port(PORT, "52:54:00:00:00:01")),
            "devices/interface/virtualport/parameters",
            {"interfaceid": str(PORT)},
            id="port",
        ),
        pytest.param(
            replace(PLAIN, tuning=Tuning(pins=((0, "0-1"), (1, "^3,2-4")))),
            "cputune/vcpupin[2]",
            {"vcpu": "1", "cpuset": "^3,2-4"},
            id="pinned",
        ),
        pytest.param(
            replace(PLAIN, tuning=Tuning(emulator="1")),
            "cputune/emulatorpin",
            {"cpuset": "1"},
            id="emulator",
        ),
        pytest.param(
            replace(PLAIN, tuning=Tuning(nodes="0-1")),
            "numatune/memory",
            {"mode": "strict", "nodeset": "0-1"},
            id="on-cells",
        ),
        pytest.param(
            replace(PLAIN, tuning=Tuning(cells=((80, "0"), (64, "1")))),
            "cpu/numa/cell[2]",
            {"id": "1", "cpus": "1", "memory": "64", "unit": "MiB"},
            id="cells-of-its-own",
        ),
        pytest.param(
            replace(PLAIN, extra=(element("iothreads", unit="odd"),)),
            "iothreads",
            {"unit": "odd"},
            id="extra",
        ),
    ],
)
def test_an_element_has_what_was_requested(
    domain: Domain, path: str, attributes: dict[str, str]
) -> None:
    found = document(domain).find(path)
    assert found is not None
    assert found.attrib == attributes


@pytest.mark.parametrize("tag", ["cputune", "numatune", "cpu", "devices/interface", "devices/disk"])
def test_element_that_was_not_requested_is_left_out(tag: str) -> None:
    assert document(PLAIN).find(tag) is None


def test_a_kernel_is_started_without_a_boot_device() -> None:
    found = document(replace(PLAIN, boots=Kernel("/k", "/i", "quiet a=b")))
    assert [(part.tag, part.text) for part in found.iterfind("os/*")] == [
        ("type", "hvm"),
        ("kernel", "/k"),
        ("initrd", "/i"),
        ("cmdline", "quiet a=b"),
    ]


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), max_size=20))
def test_any_text_stays_text(title: str) -> None:
    assert (document(replace(PLAIN, title=title)).findtext("title") or "") == title
