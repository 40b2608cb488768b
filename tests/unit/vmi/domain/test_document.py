"""A document of hostile values, its names, and the machine without devices."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.vmi.domain.reading import made, one, refused
from tests.unit.vmi.guests import UID, guest

from hypercobalt.vmi.domain import DomainContext, domain_name
from hypercobalt.vmi.domain.elements import LONGEST, element

Json = Any


UNFIT = ("a\0", "\n", "\t", "\x1f", "\x7f", "\x9f", "\ud800", "\ufffe", "\uffff")


@pytest.mark.parametrize("text", UNFIT)
def test_characters_that_xml_lacks_are_refused(text: str) -> None:
    with refused("spec: the value of tag/@a has the character"):
        element("tag", a=text)
    with refused("spec: the value of tag has the character"):
        element("tag", text=text)


def test_values_are_bounded() -> None:
    assert element("tag", text="a" * LONGEST).text == "a" * LONGEST
    with refused("spec: the value of tag is longer"):
        element("tag", text="a" * (LONGEST + 1))


def test_values_are_escaped() -> None:
    markup = '"/><source file="/etc/shadow"/><x a="&lt;]]>'
    vmi = guest(domain={"firmware": {"serial": markup}, "cpu": {"model": markup}})
    root = made(vmi)
    assert one(root, "sysinfo/system/entry[@name='serial']").text == markup
    assert one(root, "cpu/model").text == markup
    assert root.find(".//source[@file='/etc/shadow']") is None


def test_name_is_that_of_namespace_and_vmi() -> None:
    assert one(made(guest()), "name").text == "lab_tiny"


def test_two_long_names_stay_two_and_short_enough_for_files() -> None:
    names = {domain_name(guest(metadata={"name": "a" * 250 + last}).metadata) for last in "bc"}
    assert len(names) == 2
    assert {len(name) for name in names} == {240}
    assert domain_name(guest(metadata={"name": "a" * 236}).metadata) == "lab_" + "a" * 236


@pytest.mark.parametrize("field", ["namespace", "name", "uid"])
def test_a_name_that_is_a_path_is_refused(field: str) -> None:
    with refused(f"metadata.{field}: "):
        made(guest(metadata={field: "../a"}))


def test_domain_has_the_vmi_it_belongs_to_in_its_metadata() -> None:
    assert one(made(guest()), ".//{http://kubevirt.io}uid").text == UID


def test_document_is_bounded() -> None:
    long = "a" * 4000
    names = [{"name": long, "type": "tablet"}] * 300
    with refused("spec.domain: the domain document has more than"):
        made(guest(devices={"inputs": names}))


@pytest.mark.parametrize("uuid", ["x", "1", "14926add-2a10-5352-af3b-8f5e925d45d"])
def test_a_uuid_that_is_none_is_refused(uuid: str) -> None:
    with refused("spec.domain.firmware.uuid: "):
        made(guest(domain={"firmware": {"uuid": uuid}}))


def test_passthrough_needs_kvm() -> None:
    vmi = guest(domain={"cpu": {"model": "host-passthrough"}})
    assert one(made(vmi), "cpu").get("mode") == "host-passthrough"
    with refused("spec.domain.cpu.model: host-passthrough needs KVM"):
        made(vmi, DomainContext(emulation=True))


@pytest.mark.parametrize(
    ("cpu", "mode", "features"),
    [
        (None, "host-model", []),
        ({"features": [{"name": "a"}]}, "host-model", [("a", "require")]),
        ({"model": "EPYC"}, "custom", [("mpx", "disable")]),
        (
            {"model": "EPYC", "features": [{"name": "mpx", "policy": "force"}]},
            "custom",
            [("mpx", "force")],
        ),
        ({"model": "host-passthrough"}, "host-passthrough", []),
    ],
)
def test_named_models_come_without_mpx(cpu: Json, mode: str, features: Json) -> None:
    found = one(made(guest(domain={"cpu": cpu})), "cpu")
    assert found.get("mode") == mode
    assert [(it.get("name"), it.get("policy")) for it in found.findall("feature")] == features
    assert (found.find("model") is None) == (mode != "custom")


def test_other_architectures_are_refused() -> None:
    assert one(made(guest({"architecture": ""})), "os/type").get("arch") == "x86_64"
    with refused("spec.architecture: 'arm64' is not amd64"):
        made(guest({"architecture": "arm64"}))


def test_a_guest_without_a_machine_has_libvirts_own() -> None:
    assert "machine" not in one(made(guest(domain={"machine": None})), "os/type").attrib


def test_a_paused_guest_shows_its_boot_menu() -> None:
    menu = one(made(guest({"startStrategy": "Paused"})), "os/bootmenu")
    assert menu.attrib == {"enable": "yes", "timeout": "10000"}
    assert made(guest()).find("os/bootmenu") is None


@pytest.mark.parametrize(
    ("bios", "count"), [({"useSerial": True}, 1), ({"useSerial": False}, 0), ({}, 0), (None, 0)]
)
def test_the_bios_uses_the_serial_port_on_request(bios: Json, count: int) -> None:
    firmware = {"bootloader": {"bios": bios}}
    assert len(made(guest(domain={"firmware": firmware})).findall("os/bios")) == count


@pytest.mark.parametrize(
    ("boot", "expected"),
    [
        ({}, {}),
        ({"kernelArgs": "a"}, {"cmdline": "a"}),
        ({"container": {"kernelPath": "/a/k"}}, {"kernel": "k"}),
        (
            {"container": {"initrdPath": "/a/i"}, "kernelArgs": "b c"},
            {"initrd": "i", "cmdline": "b c"},
        ),
    ],
)
def test_kernel_and_ramdisk_are_the_launchers_links(boot: Json, expected: Json) -> None:
    found = one(made(guest(domain={"firmware": {"kernelBoot": boot}})), "os")
    parts = [part for tag in ("kernel", "initrd", "cmdline") for part in found.findall(tag)]
    assert {part.tag: (part.text or "").rpartition("/")[2] for part in parts} == expected


@pytest.mark.parametrize("member", ["kernelPath", "initrdPath"])
def test_a_kernel_without_a_name_is_refused(member: str) -> None:
    boot = {"container": {member: "/a/.."}}
    with refused(f"spec.domain.firmware.kernelBoot.container.{member}: "):
        made(guest(domain={"firmware": {"kernelBoot": boot}}))


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ({}, {"offset": "utc"}),
        ({"utc": {}}, {"offset": "utc", "adjustment": "reset"}),
        ({"utc": {"offsetSeconds": 0}}, {"offset": "utc", "adjustment": "0"}),
        ({"utc": {"offsetSeconds": -60}}, {"offset": "utc", "adjustment": "-60"}),
        ({"timezone": "Europe/Berlin"}, {"offset": "timezone", "timezone": "Europe/Berlin"}),
    ],
)
def test_clock_follows_utc_or_a_zone(clock: Json, expected: Json) -> None:
    assert one(made(guest(domain={"clock": clock})), "clock").attrib == expected


@pytest.mark.parametrize("zone", ["/etc/passwd", ":/etc/passwd", "a/../../b"])
def test_a_time_zone_that_is_a_path_is_refused(zone: str) -> None:
    with refused("spec.domain.clock.timezone: "):
        made(guest(domain={"clock": {"timezone": zone}}))


def test_a_timer_is_present_unless_it_is_disabled() -> None:
    timers = {
        "rtc": {"track": "wall", "tickPolicy": "delay"},
        "kvm": {"present": False},
        "hyperv": {"present": True},
    }
    found = made(guest(domain={"clock": {"timer": timers}})).findall("clock/timer")
    assert [it.attrib for it in found] == [
        {"name": "rtc", "present": "yes", "tickpolicy": "delay", "track": "wall"},
        {"name": "kvmclock", "present": "no"},
        {"name": "hypervclock", "present": "yes"},
    ]


@pytest.mark.parametrize(
    ("features", "acpi", "apic"),
    [
        (None, 1, []),
        ({"acpi": {}}, 1, []),
        ({"acpi": {"enabled": False}, "apic": {}}, 0, [{}]),
        ({"apic": {"enabled": True, "endOfInterrupt": True}}, 1, [{"eoi": "on"}]),
        ({"apic": {"enabled": False, "endOfInterrupt": True}}, 1, []),
    ],
)
def test_acpi_is_on_and_apic_off_by_default(features: Json, acpi: int, apic: Json) -> None:
    found = one(made(guest(domain={"features": features})), "features")
    assert len(found.findall("acpi")) == acpi
    assert [it.attrib for it in found.findall("apic")] == apic
    assert one(found, "vmport").get("state") == "off"
