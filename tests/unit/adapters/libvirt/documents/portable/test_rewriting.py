"""What is written for another host has nothing of a definition but what the table allows."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.unit.adapters.libvirt.documents import hostile
from tests.unit.adapters.libvirt.documents.portable.attacks import (
    ALLOWED,
    ATTACKS,
    NAME,
    UUID,
    Attack,
    disk,
    document,
)

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed, listed
from hypercobalt.adapters.libvirt.documents.portable.errors import NotPortableError
from hypercobalt.adapters.libvirt.documents.portable.paths import is_below, is_own
from hypercobalt.adapters.libvirt.documents.portable.rewriting import Portable, rewritten
from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    Entry,
    Form,
    Inert,
    Named,
    Optional,
    Rule,
    Value,
)
from hypercobalt.adapters.libvirt.documents.portable.table.devices import DEVICES
from hypercobalt.adapters.libvirt.documents.portable.table.domain import DOMAIN
from hypercobalt.adapters.libvirt.model import Evacuated
from hypercobalt.lab.disk import CONSOLES, LOCAL
from hypercobalt.lab.host import GUESTS, SHARED
from hypercobalt.lab.vms.domain import Domain, Kernel, Port, RawDisk, Tuning

SAMPLES = Path(__file__).parent.parent / "samples"
LAB = Allowed(shared=(SHARED,), local=(LOCAL,), consoles=(CONSOLES,), kernels=(GUESTS,))


def write(xml: str, allowed: Allowed = ALLOWED, *, copies: bool = False) -> str:
    return rewritten(xml, UUID, allowed, copies=copies).xml


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_definition_that_names_more_than_the_site_allows_is_refused_by_name(
    attack: Attack,
) -> None:
    with pytest.raises(NotPortableError) as refused:
        write(attack.xml)
    assert attack.names in str(refused.value)
    write(document())  # without it there is nothing to refuse


@pytest.mark.parametrize("encoding", ["utf-16", "utf-7", "latin-1", "cp037"])
def test_encoding_that_a_document_declares_changes_nothing(encoding: str) -> None:
    attack = ATTACKS["disk outside"].xml
    with pytest.raises(NotPortableError):
        write(f"<?xml version='1.0' encoding='{encoding}'?>{attack}")
    written = write(f"<?xml version='1.0' encoding='{encoding}'?>{document()}")
    assert "?xml" not in written


@pytest.mark.parametrize(
    "hidden",
    [
        "<!DOCTYPE domain [<!ENTITY a SYSTEM 'file:///etc/shadow'>]>",
        "<!DOCTYPE domain [<!ENTITY a 'b'>]>",
        "<!DOCTYPE domain SYSTEM 'http://192.0.2.1/'>",
    ],
)
def test_document_types_are_refused(hidden: str) -> None:
    with pytest.raises(NotPortableError, match="document type"):
        write(hidden + document())


@pytest.mark.parametrize(
    "title",
    [
        "<![CDATA[</title><devices><serial type='file'/></devices>]]>",
        "&lt;/title&gt;&lt;seclabel type='none'/&gt;",
        "&#60;/title&#62;",
        "a<!-- </title> -->b",
        "a<?php </title> ?>b",
        "]]>"[:2] + "&gt;",
    ],
)
def test_markup_in_a_text_stays_a_text(title: str) -> None:
    written = ET.fromstring(write(document(more=f"<title>{title}</title>")))  # noqa: S314 - ours
    assert [one.tag for one in written] == [
        "name",
        "uuid",
        "memory",
        "vcpu",
        "os",
        "title",
        "devices",
    ]
    assert not list(written.iter("serial"))


@pytest.mark.parametrize("value", ["a\nb", "a\x1b[2J", "a\u2028b", "é" * 1001, "&undefined;"])
def test_values_with_control_characters_or_without_bound_are_refused(value: str) -> None:
    with pytest.raises(NotPortableError):
        write(document(more=f"<title>{value}</title>"))


@pytest.mark.parametrize(
    ("name", "fits"),
    [("vm-a", True), ("näme 1", True), ("a/b", False), ("..", False), ("-x", False), ("", False)],
)
def test_name_is_no_path_of_the_host(name: str, fits: bool) -> None:
    xml = document().replace(f"<name>{NAME}</name>", f"<name>{name}</name>")
    if fits:
        assert f"<name>{name}</name>" in write(xml)
    else:
        with pytest.raises(NotPortableError, match="name"):
            write(xml)


def test_definition_of_another_instance_is_refused() -> None:
    """The definition would replace that instance's definition on the other host."""
    with pytest.raises(NotPortableError, match="<uuid> is not that of the instance"):
        rewritten(document(), str(uuid.uuid4()), ALLOWED)


def test_second_identity_is_refused() -> None:
    other = f"<uuid>{uuid.uuid4()}</uuid>"
    with pytest.raises(NotPortableError, match="more than 1 times"):
        write(document(more=other))


def test_refusal_has_no_value_of_the_document() -> None:
    secret = "<graphics type='vnc' passwd='s3cr\x7ft'/>"
    with pytest.raises(NotPortableError) as refused:
        write(document(secret))
    assert "s3cr" not in str(refused.value)
    tag = "a" * 500
    with pytest.raises(NotPortableError) as refused:
        write(document(f"<{tag}/>"))
    assert len(str(refused.value)) < 200


# -- what passes -----------------------------------------------------------------------------------


def test_recorded_definition_keeps_all_but_what_libvirt_fills_in() -> None:
    xml = (SAMPLES / "domain-tcg.xml").read_text()
    identity = "2e051c26-0f75-4dbb-b5d3-29083bde29f7"
    written = rewritten(xml, identity, Allowed(shared=("/srv/guests",)))
    assert written.dropped == ()
    before, after = (_parts(ET.fromstring(one)) for one in (xml, written.xml))  # noqa: S314 - a file of ours
    assert after < before
    gone = {path for path in before - after if not re.search("alias|seclabel|emulator", path)}
    assert gone == {"domain@id=1", "domain/devices/disk/source@index=1"}


def _parts(root: ET.Element, path: str = "") -> set[str]:
    here = f"{path}/{root.tag}".lstrip("/")
    found = {f"{here}={(root.text or '').strip()}"}
    found |= {f"{here}@{name}={value}" for name, value in root.attrib.items()}
    return found.union(*(_parts(child, here) for child in root))


def test_recorded_definition_of_nova_waits_for_its_interface_alone() -> None:
    xml = (SAMPLES / "domain-nova.xml").read_text()
    with pytest.raises(NotPortableError, match="<devices/interface> has type='ethernet'"):
        write(xml)
    dimm = xml.index("<memory model='dimm'>"), xml.index("</devices>")
    plugged = (
        (xml[: dimm[0]] + xml[dimm[1] :])
        .replace("type='ethernet'", "type='bridge'")
        .replace("<target dev='tap0'/>", "<source bridge='br-int'/><target dev='tap00000000-01'/>")
    )
    made = rewritten(plugged, UUID, ALLOWED)
    before, after = parse(plugged), parse(made.xml)
    assert (after.memory_bytes, after.vcpus, after.pins) == (
        before.memory_bytes,
        before.vcpus,
        before.pins,
    )
    assert after.memory_nodes == before.memory_nodes
    assert "nova:flavor" in made.xml


@pytest.mark.parametrize(
    "extra", [None, Kernel(f"{GUESTS}/k/vmlinuz", f"{GUESTS}/k/initrd", "quiet")]
)
def test_guests_of_the_lab_pass_whole(extra: Kernel | None) -> None:
    domain = Domain(
        name="lab-1",
        uuid=uuid.UUID(UUID),
        type="kvm",
        title="linux 10.0.0.1",
        console=f"{CONSOLES}/lab-1.sock",
        log=f"{SHARED}/consoles/lab-1.log",
        vcpus=2,
        boots=extra,
        disks=(RawDisk(f"{SHARED}/vms/lab-1.img"),),
        port=Port(uuid.uuid4(), "52:54:00:00:00:01"),
        tuning=Tuning(pins=((0, "0-1"),), emulator="0", nodes="0", cells=((160, "0-1"),)),
    )
    made = rewritten(domain.xml(), UUID, LAB)
    assert made.dropped == ()
    assert _parts(ET.fromstring(made.xml)) == _parts(ET.fromstring(domain.xml()))  # noqa: S314 - ours


def test_local_disk_passes_only_where_it_is_copied() -> None:
    local = document(disk("<source file='/local/a.img'/>"))
    assert "/local/a.img" in write(local, copies=True)
    with pytest.raises(NotPortableError):
        write(local)


def test_log_that_is_not_the_domains_own_is_dropped_and_named() -> None:
    for path in ("/var/log/cron", "/shared/../etc/vm-a.log", "/shared/vm-b.log", "/local/vm-a.log"):
        serial = f"<serial type='pty'><log file='{path}' append='off'/></serial>"
        made = rewritten(document(serial), UUID, ALLOWED)
        assert made == Portable(document("<serial type='pty'/>").replace("'", '"'), made.dropped)
        assert made.dropped == ("<devices/serial/log>",)


@pytest.mark.parametrize("append", ["", " append='off'", " append='on'"])
def test_log_is_appended_to_whatever_the_definition_has(append: str) -> None:
    """Without that, root's virtlogd empties the file as the domain starts."""
    serial = f"<serial type='pty'><log file='/shared/vm-a.log'{append}/></serial>"
    assert '<log file="/shared/vm-a.log" append="on"/>' in write(document(serial))


THEIRS = "0c1d2e3f-3b07-43c6-9a25-a2b6ba2e3b1e"


@pytest.mark.parametrize("name", [THEIRS, THEIRS.upper(), f"{THEIRS}_VARS", f"{THEIRS}.x", UUID])
def test_name_that_begins_with_the_uuid_of_another_domain_makes_no_file_its_own(name: str) -> None:
    """A domain's name is its host's choice, so another domain's UUID can be one."""

    def named(devices: str = "", os: str = "") -> str:
        return document(devices, os=os).replace(f"<name>{NAME}<", f"<name>{name}<")

    socket = f"<source mode='bind' path='/consoles/{name}.sock'/>"
    log = f"<log file='/shared/{name}/disk' append='on'/>"
    with nullcontext() if name == UUID else pytest.raises(NotPortableError, match="named after"):
        write(named(os=f"<nvram>/shared/{name}/disk</nvram>"))
    with nullcontext() if name == UUID else pytest.raises(NotPortableError, match="named after"):
        write(named(f"<serial type='unix'>{socket}</serial>"))
    assert ("<log" in write(named(f"<serial type='pty'>{log}</serial>"))) is (name == UUID)
    assert "<interface" in write(
        named("<interface type='bridge'><source bridge='br-int'/></interface>")
    )


@pytest.mark.parametrize("name", ["shared", "consoles"])
def test_name_of_a_root_makes_nothing_below_it_its_own(name: str) -> None:
    def named(devices: str, os: str = "") -> str:
        return document(devices, os=os).replace(f"<name>{NAME}<", f"<name>{name}<")

    socket = "<source mode='bind' path='/consoles/vm-b.sock'/>"
    with pytest.raises(NotPortableError, match="named after"):
        write(named(f"<serial type='unix'>{socket}</serial>"))
    with pytest.raises(NotPortableError, match="named after"):
        write(named("", os="<nvram>/shared/vm-b.img</nvram>"))
    log = "<serial type='pty'><log file='/shared/vm-b.img'/></serial>"
    assert "<log" not in write(named(log))


def test_tap_is_named_by_the_new_host() -> None:
    """Another port's would keep that port's instance from starting there."""
    tap = "<source bridge='br-int'/><target dev='tap00000000-01'/>"
    assert "tap" not in write(document(f"<interface type='bridge'>{tap}</interface>"))


def test_listening_address_and_labels_are_the_new_hosts() -> None:
    screen = (
        "<graphics type='vnc' port='5901' autoport='no' listen='192.0.2.1' passwd='a&amp;b'>"
        "<listen type='socket' socket='/etc/a'/></graphics>"
    )
    written = write(
        document(f"<emulator>/tmp/qemu</emulator>{screen}", more="<seclabel type='none'/>")
    )
    assert '<graphics type="vnc" port="5901" autoport="no" passwd="a&amp;b"/>' in written
    assert not re.search("emulator|seclabel|listen|/etc|/tmp", written)


def test_mark_is_kept_or_replaced_and_foreign_notes_are_dropped() -> None:
    notes = (
        "<metadata><a:b xmlns:a='urn:a'><c/></a:b>"
        "<nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>"
        "<nova:name>x</nova:name></nova:instance></metadata>"
    )
    ours = document(more=notes)
    assert rewritten(ours, UUID, ALLOWED).dropped == ("<metadata/a:b>",)
    assert "urn:a" not in write(ours)
    mark = Evacuated("kvm-1", "boot-1", pending=True)
    marked = rewritten(ours, UUID, ALLOWED, mark=mark).xml
    assert parse(marked).evacuated == mark
    assert parse(write(marked)).evacuated == mark
    assert "nova:name" in write(marked)


def test_address_alias_and_topology_of_devices_are_kept() -> None:
    """The guest sees the same machine."""
    address = "<address type='pci' domain='0x0000' bus='0x04' slot='0x00' function='0x0'/>"
    devices = disk(
        "<source file='/shared/a' index='2'/>", more=f"{address}<alias name='ua-root'/>"
    ) + (
        "<controller type='pci' index='4' model='pcie-root-port'><model name='pcie-root-port'/>"
        "<target chassis='4' port='0x13'/><alias name='pci.4'/></controller>"
    )
    written = write(document(devices))
    assert address.replace("'", '"') in written
    assert '<alias name="ua-root"/>' in written
    assert "pci.4" not in written
    assert '<target chassis="4" port="0x13"/>' in written


# -- the table as a whole --------------------------------------------------------------------------


def entries(entry: Entry, path: str = "domain", depth: int = 0) -> Iterator[tuple[str, Entry]]:
    yield path, entry
    if depth > 12:
        return
    match entry:
        case Rule():
            for tag, child in entry.children.items():
                yield from entries(child, f"{path}/{tag}", depth + 1)
        case Choice():
            for rule in entry.rules.values():
                yield from entries(rule, path, depth + 1)
        case Optional():
            yield from entries(entry.rule, path, depth + 1)
        case Dropped() | Inert():
            return


def test_rules_require_and_drop_what_they_can() -> None:
    for path, entry in entries(DOMAIN):
        if isinstance(entry, Rule):
            assert entry.required <= entry.attributes.keys(), path
            assert not entry.dropped & entry.attributes.keys(), path
            assert entry.text is None or not entry.children, path
        if isinstance(entry, Choice):
            for value, rule in entry.rules.items():
                form = rule.attributes.get(entry.attribute)
                assert not value or (isinstance(form, Form) and form.pattern.fullmatch(value)), path


HOSTILE_VALUES = (
    "/etc/shadow", "/shared/../etc/shadow", "../x", "/dev/sda", "file:/etc/shadow", "a,b=c", "a\nb",
    "json:{}", "'\"><x/>", "-x", "/bin/sh", "tcp:192.0.2.1:1", "${x}", "%s", "a\0b",
)  # fmt: skip


def test_no_form_takes_a_path_a_script_or_an_option_of_qemu() -> None:
    free = {"up to 1,000 printable characters", "up to 2,000 printable characters"}
    prose = {
        "up to 255 characters of ASCII",
        "up to 8 characters",
        "up to 16 characters",
        "12 characters",
    }
    for path, entry in entries(DOMAIN):
        if not isinstance(entry, Rule) or path == "domain/name":
            continue
        for form in (*entry.attributes.values(), *filter(None, [entry.text])):
            if not isinstance(form, Form) or form.rule in free | prose:
                continue
            taken = [value for value in HOSTILE_VALUES if form.pattern.fullmatch(value)]
            assert not taken, (path, form.rule)


def test_free_text_is_nowhere_that_opens_files() -> None:
    free = {
        re.sub(r"/(bios|system|baseBoard|chassis)/", "/*/", path)
        for path, entry in entries(DOMAIN)
        if isinstance(entry, Rule)
        for form in (*entry.attributes.values(), *filter(None, [entry.text]))
        if isinstance(form, Form) and "printable" in form.rule
    }
    assert free == {
        "domain/title",
        "domain/description",
        "domain/os/cmdline",
        "domain/sysinfo/*/entry",
    }


# -- properties ------------------------------------------------------------------------------------

_ALIENS = ("script", "hostdev", "x:y", "config", "filesystem")
_SAMPLES: dict[Named, str] = {
    Named.DISK_FILE: "/shared/a.img",
    Named.VARIABLES: "/shared/vm-a_VARS.fd",
    Named.LOG: "/shared/vm-a.log",
    Named.SOCKET: "/consoles/vm-a.sock",
    Named.KERNEL: "/kernels/linux",
    Named.FIRMWARE: "/usr/share/OVMF/OVMF_CODE.fd",
    Named.NETWORK: "br-int",
    Named.FORMAT: "raw",
    Named.STORAGE_HOST: "mon-1",
}
SITE = replace(ALLOWED, storage_hosts=frozenset({"mon-1"}))


class Making:
    """Makes elements by the table, some of them with a part that is not of it."""

    def __init__(self, data: st.DataObject, *, hostile: bool) -> None:
        self._draw, self._hostile = data.draw, hostile

    def element(self, tag: str, entry: Entry, depth: int = 0) -> ET.Element:
        match entry:
            case Choice():
                value = self._draw(st.sampled_from(sorted(entry.rules)))
                made = self.element(tag, entry.rules[value], depth)
                if value:
                    made.set(entry.attribute, value)
                return made
            case Optional():
                return self.element(tag, entry.rule, depth)
            case Rule():
                return self._by_rule(tag, entry, depth)
            case Dropped():
                return ET.Element(tag, {"path": "/etc/shadow"})
            case Inert():
                namespace = "http://openstack.org/xmlns/libvirt/nova/1.1"
                return ET.Element(tag, {f"xmlns:{entry.prefix}": namespace})

    def _by_rule(self, tag: str, rule: Rule, depth: int) -> ET.Element:
        made = ET.Element(tag)
        others = sorted(rule.attributes.keys() - rule.required)
        more = self._draw(st.sets(st.sampled_from(others), max_size=3)) if others else set[str]()
        for name in sorted(rule.required | more):
            made.set(name, self._value(rule.attributes[name]))
        for name in rule.fixed:
            made.set(name, self._draw(st.sampled_from(HOSTILE_VALUES)).replace("\0", ""))
        if rule.text is not None:
            made.text = self._value(rule.text)
        tags = sorted(rule.children)
        for child in self._draw(st.lists(st.sampled_from(tags), max_size=3)) if tags else ():
            made.append(self.element(child, rule.children[child], depth + 1))
        if self._hostile and self._draw(st.integers(0, 15)) == 0:
            alien = self._draw(st.sampled_from(_ALIENS))
            if self._draw(st.booleans()):
                made.set(alien, "/etc/shadow")
            else:
                ET.SubElement(made, alien, {"file": "/etc/shadow"})
        return made

    def _value(self, allowed: Value) -> str:
        if self._hostile and self._draw(st.integers(0, 15)) == 0:
            return self._draw(st.sampled_from(HOSTILE_VALUES)).replace("\0", "")
        if isinstance(allowed, Form):
            return self._draw(st.from_regex(allowed.pattern, fullmatch=True))
        return _SAMPLES[allowed]


def made(data: st.DataObject, *, hostile: bool) -> str:
    """A definition: a few devices and other parts, by the table or nearly so."""
    making, root = Making(data, hostile=hostile), ET.fromstring(document())  # noqa: S314 - ours
    devices = root.find("devices")
    assert devices is not None
    assert isinstance(DEVICES, Rule)
    for tag in data.draw(st.lists(st.sampled_from(sorted(DEVICES.children)), max_size=3)):
        devices.append(making.element(tag, DEVICES.children[tag]))
    others = sorted(DOMAIN.children.keys() - {one.tag for one in root})
    for tag in data.draw(st.sets(st.sampled_from(others), max_size=2)):
        root.append(making.element(tag, DOMAIN.children[tag]))
    return ET.tostring(root, encoding="unicode")


def _fits(element: ET.Element, entry: Entry, path: str) -> None:
    """An oracle of its own: every part of the output is the table's."""
    match entry:
        case Choice():
            _fits(element, entry.rules[element.get(entry.attribute, entry.default)], path)
        case Optional():
            _fits(element, entry.rule, path)
        case Rule():
            for name, value in element.attrib.items():
                if name in entry.fixed:
                    assert value == entry.fixed[name], (path, name)
                    continue
                allowed = entry.attributes[name]
                if isinstance(allowed, Form):
                    assert allowed.pattern.fullmatch(value), (path, name)
                else:
                    assert value == _SAMPLES[allowed], (path, name)
            if entry.text is None:
                assert not (element.text or "").strip(), path
            for child in element:
                if child.tag.startswith("{"):  # another program's notes
                    assert path == "domain/metadata"
                    continue
                _fits(child, entry.children[child.tag], f"{path}/{child.tag}")
        case Dropped():
            pytest.fail(f"{path} is dropped")
        case Inert():
            return


@pytest.mark.parametrize("hostile", [False, True])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_output_of_any_input_is_of_the_table_alone_and_stays_the_same(
    hostile: bool, data: st.DataObject
) -> None:
    try:
        written = write(made(data, hostile=hostile), SITE)
    except NotPortableError as exc:
        event(f"refused: {re.sub('<.*?>', '<>', str(exc))}")
        return
    event("written")
    _fits(ET.fromstring(written), DOMAIN, "domain")  # noqa: S314 - without a document type
    assert write(written, SITE) == written


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(ATTACKS)), st.data())
def test_attack_in_any_disguise_is_refused_or_absent(name: str, data: st.DataObject) -> None:
    """Blanks, comments, CDATA and character references around and in the parts of an attack."""
    xml = ATTACKS[name].xml
    disguises = ["<!-- a -->", " ", "\n", "<?a b?>", "<!--<devices>-->"]
    places = [found.end() for found in re.finditer(">", xml)][:-1]
    for place in sorted(data.draw(st.sets(st.sampled_from(places), max_size=4)), reverse=True):
        xml = f"{xml[:place]}{data.draw(st.sampled_from(disguises))}{xml[place:]}"
    xml = xml.replace("/etc", data.draw(st.sampled_from(["/etc", "&#47;etc", "/&#x65;tc"])))
    with pytest.raises(NotPortableError):
        write(xml)


@pytest.mark.parametrize("seed", range(60))
def test_hostile_documents_end_within_bounds(seed: int) -> None:
    identity = f"<name>{NAME}</name><uuid>{UUID}</uuid>"
    xml = hostile.document(seed).decode(errors="replace")
    xml = xml.replace("<domain>", f"<domain type='kvm'>{identity}", 1)
    seconds = list[float]()
    for _ in range(3):  # of a busy machine
        begun = time.thread_time()
        with suppress(NotPortableError):
            write(xml)
        seconds.append(time.thread_time() - begun)
    assert min(seconds) < 0.15


# -- paths and roots -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/shared/a", True),
        ("/shared/a/b.c.img", True),
        ("/shared", False),
        ("/shared/", False),
        ("/shared/.hidden", False),
        ("/shared/a/..", False),
        ("/shared/a/../b", False),
        ("/shared/ a", False),
        ("/shared/a,b", False),
        ("/shared/a\n", False),
        ("/sharedx/a", False),
        ("/shared/" + "a" * 1100, False),
    ],
)
def test_path_is_below_a_root_by_its_components(path: str, below: bool) -> None:
    assert is_below(path, ("/shared",)) is below


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/c/vm-a.sock", True),
        ("/c/vm-a", True),
        ("/c/vm-a/console.log", True),
        ("/c/vm-a_VARS.fd", True),
        (f"/c/{UUID}/console.log", True),
        ("/c/vm-ab.sock", False),
        ("/c/xvm-a.sock", False),
        ("/c/vm-a.sock.x", False),
    ],
)
def test_file_is_the_domains_own_by_its_name(path: str, own: bool) -> None:
    assert is_own(path, (NAME, UUID)) is own


@pytest.mark.parametrize(
    "root", ["/", "/etc", "/dev", "/var/lib", "relative", "/a/../b", "/a//b", "/a/"]
)
def test_root_that_holds_more_than_instances_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match=r"path|directory"):
        Allowed(shared=(root,))


def test_lists_of_the_command_line_are_read() -> None:
    assert listed(" /a/b/, ,/c") == ("/a/b", "/c")
    with pytest.raises(ValueError, match="vmdk"):
        Allowed(formats=frozenset({"vmdk"}))
