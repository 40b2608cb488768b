"""What the table of portable definitions lacks ties a domain to its host, by name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost import cpu
from tests.unit.adapters.libvirt.documents.portable.attacks import ATTACKS, Attack, disk, document

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.documents.portable.rules import Choice
from hypercobalt.adapters.libvirt.documents.portable.table.devices import DEVICES
from hypercobalt.adapters.libvirt.documents.portable.table.domain import DOMAIN
from hypercobalt.adapters.libvirt.documents.portable.table.interfaces import INTERFACE
from hypercobalt.adapters.libvirt.model import Devices, DomainState
from hypercobalt.compute.direct.obstacles import hindrance, waits_for_host


def bound(devices: str, *, os: str = "", more: str = "", root: str = "") -> tuple[str, ...]:
    return parse(document(devices, os=os, more=more, root=root)).devices.bound


# -- devices of the host have names ---------------------------------------------------------------

_PCI: Final = "<address domain='0x0000' bus='0x3b' slot='0x00' function='0x0'/>"
NAMES: Final = {
    f"<hostdev mode='subsystem' type='pci'><source>{_PCI}</source></hostdev>": (
        "host device pci 0000:3b:00.0"
    ),
    "<hostdev mode='subsystem' type='usb'><source><vendor id='0x0951'/><product id='0x1666'/>"
    "</source></hostdev>": "host device usb 0951:1666",
    "<hostdev mode='subsystem' type='usb'><source><address bus='1' device='4'/></source>"
    "</hostdev>": "host device usb 1.4",
    "<hostdev mode='subsystem' type='usb'><source><vendor id='0x0951'/><product id='0x1666'/>"
    "<address bus='1' device='4'/></source></hostdev>": "host device usb 0951:1666 at 1.4",
    "<hostdev mode='subsystem' type='scsi'><source><adapter name='scsi_host0'/>"
    "<address bus='0' target='0' unit='3'/></source></hostdev>": (
        "host device scsi scsi_host0 at 0:0:3"
    ),
    "<hostdev mode='subsystem' type='scsi'><source protocol='iscsi' name='iqn.2014-07.a:b/1'/>"
    "</hostdev>": "host device scsi iscsi:iqn.2014-07.a:b/1",
    "<hostdev mode='subsystem' type='scsi_host'><source protocol='vhost' wwpn='naa.5001'/>"
    "</hostdev>": "host device scsi_host naa.5001",
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source>"
    "<address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>": (
        "host device mdev c2177883-f1bb-47f0-914d-32a22e3a8804"
    ),
    "<hostdev mode='capabilities' type='storage'><source><block>/dev/sdf1</block></source>"
    "</hostdev>": "host device storage /dev/sdf1",
    "<hostdev mode='capabilities' type='misc'><source><char>/dev/input/event3</char></source>"
    "</hostdev>": "host device misc /dev/input/event3",
    "<hostdev mode='capabilities' type='net'><source><interface>eth0</interface></source>"
    "</hostdev>": "host device net eth0",
    f"<interface type='hostdev'><source>{_PCI}</source></interface>": (
        "network interface passed through 0000:3b:00.0"
    ),
    "<interface type='direct'><source dev='eth0' mode='bridge'/></interface>": (
        "network interface of the type direct eth0"
    ),
    "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>": (
        "network interface of the type vdpa /dev/vhost-vdpa-0"
    ),
    "<interface type='vhostuser'><source type='unix' path='/run/a.sock' mode='server'/>"
    "</interface>": "network interface of the type vhostuser /run/a.sock",
    "<interface type='user'/>": "network interface of the type user",
    "<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>": (
        "TPM of the type passthrough /dev/tpm0"
    ),
    "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>": (
        "TPM of the type emulator"
    ),
    "<tpm model='tpm-crb'><backend type='external'><source type='unix' path='/run/swtpm'/>"
    "</backend></tpm>": "TPM of the type external /run/swtpm",
    "<filesystem type='mount'><source dir='/srv'/><target dir='share'/></filesystem>": (
        "directory of the host share"
    ),
    "<memory model='nvdimm'><source><path>/dev/dax0.0</path></source></memory>": (
        "memory device of the model nvdimm /dev/dax0.0 "
        "(attribute model of <devices/memory> must be dimm)"
    ),
    "<memory model='virtio-pmem'><source><path>/tmp/pmem</path></source></memory>": (
        "memory device of the model virtio-pmem /tmp/pmem "
        "(attribute model of <devices/memory> must be dimm)"
    ),
    "<rng model='virtio'><backend model='random'>/dev/hwrng</backend></rng>": (
        "random number generator of the model random /dev/hwrng (the text of "
        "<devices/rng/backend> must be one of /dev/urandom, /dev/random)"
    ),
    "<rng model='virtio'><backend model='egd' type='tcp'/></rng>": (
        "random number generator of the model egd "
        "(<devices/rng/backend> has model='egd': it must be one of random, builtin)"
    ),
    "<serial type='dev'><source path='/dev/ttyS0'/></serial>": (
        "serial port of the type dev /dev/ttyS0"
    ),
    "<serial type='tcp'><source mode='connect' host='192.0.2.1' service='2445'/></serial>": (
        "serial port of the type tcp 192.0.2.1:2445"
    ),
    "<parallel type='dev'><source path='/dev/parport0'/></parallel>": (
        "parallel port of the type dev /dev/parport0"
    ),
    "<channel type='file'><source path='/tmp/a'/></channel>": "channel of the type file /tmp/a",
    "<input type='passthrough' bus='virtio'><source evdev='/dev/input/event1'/></input>": (
        "input device of the type passthrough /dev/input/event1 "
        "(attribute type of <devices/input> must be one of mouse, tablet, keyboard)"
    ),
    "<shmem name='shmem0'><model type='ivshmem-plain'/></shmem>": "shared memory shmem0",
    "<redirdev bus='usb' type='tcp'><source host='192.0.2.1' service='4000'/></redirdev>": (
        "redirected device of the type tcp 192.0.2.1:4000"
    ),
    "<smartcard mode='host'/>": "smartcard of the mode host",
    "<audio id='1' type='alsa'/>": "audio backend of the type alsa",
    "<graphics type='egl-headless'><gl rendernode='/dev/dri/renderD128'/></graphics>": (
        "screen of the type egl-headless"
    ),
    "<pstore backend='acpi-erst'><path>/tmp/pstore</path></pstore>": "pstore /tmp/pstore",
    "<crypto model='virtio' type='qemu'><backend model='builtin'/></crypto>": (
        "crypto device of the model builtin"
    ),
    "<lease><lockspace>a</lockspace></lease>": "lease",
    "<disk type='volume' device='disk'><source pool='local' volume='v1.qcow2'/>"
    "<target dev='vda'/></disk>": "disk vda of the type volume local:v1.qcow2",
    "<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'>"
    f"{_PCI}</source><target dev='vda'/></disk>": "disk vda of the type nvme 0000:3b:00.0",
    "<disk type='vhostuser' device='disk'><source type='unix' path='/run/a.sock'/>"
    "<target dev='vda'/></disk>": "disk vda of the type vhostuser /run/a.sock",
    "<disk type='vhostvdpa' device='disk'><source dev='/dev/vhost-vdpa-0'/><target dev='vda'/>"
    "</disk>": "disk vda of the type vhostvdpa /dev/vhost-vdpa-0",
    "<disk type='dir' device='floppy'><source dir='/srv'/><target dev='fda'/></disk>": (
        "floppy fda of the type dir /srv"
    ),
    "<disk type='network' device='disk'><source protocol='nbd' name='a'/><target dev='vda'/>"
    "</disk>": "disk vda of the type network nbd:a "
    "(attribute protocol of <devices/disk/source> must be rbd)",
}


@pytest.mark.parametrize(("device", "name"), NAMES.items(), ids=NAMES.values())
def test_device_of_the_host_has_a_name(device: str, name: str) -> None:
    (found,) = bound(device)
    rule = found.removeprefix(name)
    assert found.startswith(name)
    assert not rule or (rule.startswith(" (<devices/") and "it must be one of" in rule)


def test_names_are_short_and_plain_whatever_a_document_has() -> None:
    source = f"<source dev='{'a' * 999}'/>"
    (name,) = bound(f"<hostdev type='a\x7f\u202e&lt;'>{source}</hostdev>")
    assert name == f"host device a??? {'a' * 80}"


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("<launchSecurity type='sev'/>", "<launchSecurity>"),
        (
            "<memoryBacking><source type='file'/></memoryBacking>",
            "<memoryBacking> (attribute type of <memoryBacking/source> "
            "must be one of anonymous, memfd)",
        ),
        ("<qemu:commandline/>", "<qemu:commandline>"),
    ],
)
def test_parts_beside_the_devices_are_named_as_well(more: str, name: str) -> None:
    assert bound("", more=more) == (name,)
    assert bound("", root=" new='a'") == ("attribute new of <domain>",)


# -- an allow-list ---------------------------------------------------------------------------------

_OF_THE_SITE: Final = {
    "disk outside", "disk with dots", "disk with one dot", "disk beside a root", "root itself",
    "doubled slash", "relative", "protocol as a file", "local disk", "device", "no driver",
    "image with a header", "backing file", "own monitors", "kernel", "initrd",
    "command line alone", "firmware", "variables", "variables of another",
    "variables as a source", "template", "hidden memory", "another bridge", "socket elsewhere",
    "socket of another",
}  # fmt: skip
"""Refused by what the site allows, or by what several elements have to agree on."""


@pytest.mark.parametrize("name", ATTACKS)
def test_all_that_no_site_allows_ties_a_domain_to_its_host(name: str) -> None:
    devices = parse(ATTACKS[name].xml).devices
    assert bool(devices.bound) is (name not in _OF_THE_SITE)


_CONTROLLER: Final = (
    "<controller type='pci' index='4' model='pcie-root-port'><model name='pcie-root-port'/>"
    "<target chassis='4' port='0x13'/></controller>"
)
PORTABLE: Final = (
    "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/shared/a'/>"
    "<backingStore type='file'><format type='raw'/><source file='/shared/b'/><backingStore/>"
    "</backingStore><target dev='vda' bus='virtio'/><iotune><read_iops_sec>1</read_iops_sec>"
    "</iotune></disk>",
    "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='rbd' "
    "name='p/i'><host name='mon'/></source><target dev='vdb' bus='virtio'/></disk>",
    "<interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br-int'/>"
    "<virtualport type='openvswitch'><parameters "
    "interfaceid='8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e'/></virtualport><model type='virtio'/>"
    "<driver name='vhost' queues='2'><host csum='off'/></driver></interface>",
    _CONTROLLER,
    "<serial type='pty'><target type='isa-serial' port='0'><model name='isa-serial'/></target>"
    "</serial>",
    "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
    "<graphics type='vnc' port='-1' autoport='yes'/>",
    "<video><model type='virtio' heads='1' primary='yes'/></video>",
    "<audio id='1' type='none'/>",
    "<sound model='ich9'><codec type='duplex'/></sound>",
    "<input type='tablet' bus='usb'/>",
    "<memballoon model='virtio'><stats period='10'/></memballoon>",
    "<rng model='virtio'><rate bytes='1'/><backend model='random'>/dev/urandom</backend></rng>",
    "<watchdog model='i6300esb' action='reset'/>",
    "<panic model='isa'/>",
    "<vsock model='virtio'><cid auto='yes'/></vsock>",
    "<hub type='usb'/>",
    "<memory model='dimm'><target><size unit='MiB'>1</size><node>0</node></target></memory>",
    "<iommu model='intel'><driver intremap='on'/></iommu>",
)


def _places(device: ET.Element) -> Iterator[ET.Element]:
    """Copies of a device, each with an attribute or an element more at another place."""
    for index, _ in enumerate(device.iter()):
        for attribute in (True, False):
            changed = copy.deepcopy(device)
            place = list(changed.iter())[index]
            if attribute:
                place.set("new", "a")
            else:
                ET.SubElement(place, "new")
            yield changed


@pytest.mark.parametrize("device", PORTABLE, ids=lambda device: device.split()[0].strip("<"))
def test_attribute_or_element_that_the_table_lacks_ties_a_domain_to_its_host(device: str) -> None:
    assert bound(device) == ()
    for changed in _places(ET.fromstring(device)):  # noqa: S314 - ours
        xml = ET.tostring(changed, encoding="unicode")
        assert len(bound(xml)) == 1, xml
        assert "new" in bound(xml)[0] or "has a text" in bound(xml)[0]


_NAME = st.from_regex(r"[a-z][a-z0-9]{0,12}", fullmatch=True)


@given(_NAME.filter(lambda name: name not in DEVICES.children))
def test_device_of_any_other_name_ties_a_domain_to_its_host(tag: str) -> None:
    assert len(bound(f"<{tag}><source dev='/dev/sda'/></{tag}>")) == 1


@given(_NAME.filter(lambda name: name not in DOMAIN.children))
def test_part_of_any_other_name_ties_a_domain_to_its_host(tag: str) -> None:
    assert bound("", more=f"<{tag}/>") == (f"<{tag}>",)


@given(_NAME, st.sampled_from(["file", "dev", "name", "dir", "path", "volume"]))
def test_source_of_any_other_kind_ties_a_domain_to_its_host(kind: str, attribute: str) -> None:
    """The table has these kinds: an image or a device by its path, and an image in Ceph."""
    source = disk(f"<source {attribute}='/shared/a'/>", type_=kind)
    known = (kind, attribute) in {("file", "file"), ("block", "dev")}
    assert bool(bound(source)) is not known
    assert isinstance(INTERFACE, Choice)
    assert bool(bound(f"<interface type='{kind}'/>")) is (kind not in INTERFACE.rules)


@given(_NAME.filter(lambda name: name != "rbd"))
def test_network_disk_of_any_other_protocol_ties_a_domain_to_its_host(protocol: str) -> None:
    assert bound(disk(f"<source protocol='{protocol}' name='a/b'/>", type_="network"))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_ties_a_domain_to_its_host_keeps_it_there_in_every_move(attack: Attack) -> None:
    found = parse(attack.xml)
    for active in (True, False):
        state = DomainState.RUNNING if active else DomainState.SHUTOFF
        domain = found.domain("u", "n", state, active=active)
        tied = bool(found.devices.bound)
        assert hindrance(domain, lambda _: True).startswith("it is tied to its host by: ") is tied
        assert waits_for_host(domain, lambda _: True).startswith("it is tied") is tied


# -- firmware variables and backing files ---------------------------------------------------------


@pytest.mark.parametrize(
    ("nvram", "path"),
    [
        ("<nvram>/a_VARS.fd</nvram>", "/a_VARS.fd"),
        ("<nvram type='file'><source file='/a_VARS.fd'/></nvram>", "/a_VARS.fd"),
        ("<nvram type='block'><source dev='/dev/sda'/></nvram>", "/dev/sda"),
        ("<nvram type='network'><source protocol='nbd' name='a'/></nvram>", ""),
    ],
)
def test_variables_are_a_file_by_text_or_by_source(nvram: str, path: str) -> None:
    found = parse(document(os=nvram)).devices
    assert found.nvram == path
    assert bool(found.bound) is ("type='block'" in nvram or "network" in nvram)


def test_each_image_that_a_disk_is_built_upon_is_read() -> None:
    chain = (
        "<backingStore type='file'><format type='raw'/><source file='/local/b'/>"
        "<backingStore type='file'><format type='raw'/><source file='/local/c'/><backingStore/>"
        "</backingStore></backingStore>"
    )
    (found,) = parse(document(disk("<source file='/shared/a'/>", more=chain))).devices.disks
    assert (found.path, found.backing) == ("/shared/a", ("/local/b", "/local/c"))


def test_files_of_ports_and_of_direct_boot_are_read() -> None:
    ports = (
        "<serial type='pty'><source path='/dev/pts/0'/><log file='/shared/a'/></serial>"
        "<parallel type='file'><source path='/shared/b'/></parallel>"
        "<console type='unix'><source path='/c/d.sock'/><log file='/shared/c'/></console>"
        "<channel type='unix'><source path='/c/e.sock'/></channel><channel type='unix'/>"
        "<serial type='pty'><log/></serial>"
    )
    boot = "<kernel>/k/linux</kernel><initrd>/k/initrd</initrd>"
    found = parse(document(ports, os=boot)).devices
    assert found.logs == ("/shared/a", "/shared/c", "/shared/b")
    assert found.sockets == ("/c/d.sock", "/c/e.sock")
    assert found.kernels == ("/k/linux", "/k/initrd")
    many = "<controller type='usb'><address type='pci'/></controller>" * 60_000
    assert parse(document(ports + many, os=boot)).devices.logs == found.logs


# -- cost ------------------------------------------------------------------------------------------


def test_document_with_more_parts_than_are_read_ties_its_domain_to_its_host() -> None:
    found = parse(document("<controller type='usb'><address type='pci'/></controller>" * 60_000))
    assert found.devices.bound == ("more parts than are read",)
    assert (found.problem, found.memory_bytes) == (None, 1024**3)


def test_what_is_named_of_a_domain_is_bounded() -> None:
    found = bound("<hostdev type='usb'/>" * 5000)
    assert len(found) == 17
    assert found[-1] == "more of that kind"


def test_documents_of_two_hundred_guests_are_read_within_a_second() -> None:
    guest = document("".join(PORTABLE) + _CONTROLLER * 30)
    assert parse(guest).devices.bound == Devices().bound
    with cpu() as used:
        for _ in range(200):
            parse(guest)
    assert used.seconds < 1
