"""Definitions that a captured host stores, and the part that each of them is refused for."""

from __future__ import annotations

from typing import Final, NamedTuple

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed

NAME: Final = "vm-a"
UUID: Final = "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"
ALLOWED: Final = Allowed(
    shared=("/shared",), local=("/local",), consoles=("/consoles",), kernels=("/kernels",)
)
RAW: Final = "<driver name='qemu' type='raw'/>"
TARGET: Final = "<target dev='vda' bus='virtio'/>"


class Attack(NamedTuple):
    """A definition.

    Args:
        devices: more devices.
        os: more below `<os>`.
        more: more below the root.
        root: attributes of the root.
        names: what the refusal has to name.
    """

    names: str
    devices: str = ""
    os: str = ""
    more: str = ""
    root: str = ""

    @property
    def xml(self) -> str:
        return document(self.devices, os=self.os, more=self.more, root=self.root)


def document(devices: str = "", *, os: str = "", more: str = "", root: str = "") -> str:
    """A definition that fits, with something more."""
    return (
        f"<domain type='kvm'{root}><name>{NAME}</name><uuid>{UUID}</uuid>"
        "<memory unit='KiB'>1048576</memory><vcpu>1</vcpu>"
        f"<os><type arch='x86_64' machine='q35'>hvm</type>{os}</os>{more}"
        f"<devices>{devices}</devices></domain>"
    )


def disk(source: str, *, driver: str = RAW, type_: str = "file", more: str = "") -> str:
    return f"<disk type='{type_}' device='disk'>{driver}{source}{TARGET}{more}</disk>"


def _file(path: str, **more: str) -> str:
    return disk(f"<source file='{path}'/>", **more)


def _port(tag: str, type_: str, inside: str = "") -> str:
    return f"<{tag} type='{type_}'>{inside}<target port='0'/></{tag}>"


_CRON: Final = "<source path='/etc/cron.d/x'/>"
_QCOW2: Final = "<driver name='qemu' type='qcow2'/>"
_QEMU: Final = " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'"
_TEMPLATE: Final = "<nvram template='/etc/shadow'>/shared/vm-a_VARS.fd</nvram>"

CHARACTERS: Final = {
    f"{tag} {type_}": Attack(f"<devices/{tag}> has type='{type_}'", _port(tag, type_, _CRON))
    for tag in ("serial", "parallel", "console", "channel")
    for type_ in ("file", "pipe", "dev", "tcp", "udp", "stdio", "vc", "spiceport", "qemu-vdagent")
    if (tag, type_) != ("channel", "qemu-vdagent")
}
ATTACKS: Final = CHARACTERS | {
    "disk outside": Attack("file of <devices/disk/source>", _file("/etc/shadow")),
    "disk with dots": Attack("file of <devices/disk/source>", _file("/shared/../etc/shadow")),
    "disk with one dot": Attack("file of <devices/disk/source>", _file("/shared/./a")),
    "disk beside a root": Attack("file of <devices/disk/source>", _file("/shared-not/a")),
    "root itself": Attack("file of <devices/disk/source>", _file("/shared")),
    "doubled slash": Attack("file of <devices/disk/source>", _file("/shared//a")),
    "relative": Attack("file of <devices/disk/source>", _file("shared/a")),
    "protocol as a file": Attack("file of <devices/disk/source>", _file("nbd:unix:/shared/a")),
    "local disk": Attack("file of <devices/disk/source>", _file("/local/a.img")),
    "device": Attack(
        "dev of <devices/disk/source>", disk("<source dev='/dev/sda'/>", type_="block")
    ),
    "device as a file": Attack(
        "attribute file of", disk("<source file='/shared/a'/>", type_="block")
    ),
    "directory": Attack("<devices/disk> has type='dir'", disk("<source dir='/etc'/>", type_="dir")),
    "volume": Attack("has type='volume'", disk("<source pool='a' volume='b'/>", type_="volume")),
    "vhost user": Attack("has type='vhostuser'", disk("<source/>", type_="vhostuser")),
    "no type": Attack("<devices/disk> has no type", f"<disk>{RAW}{TARGET}</disk>"),
    "format that is probed": Attack(
        "<devices/disk/driver> lacks the attribute type",
        _file("/shared/a", driver="<driver name='qemu'/>"),
    ),
    "no driver": Attack("<devices/disk> lacks <driver>", _file("/shared/a", driver="")),
    "image with a header": Attack(
        "type of <devices/disk/driver>", _file("/shared/a", driver=_QCOW2)
    ),
    "backing file": Attack(
        "file of <devices/disk/backingStore/source>",
        _file(
            "/shared/a",
            more="<backingStore type='file'><format type='raw'/><source file='/etc/shadow'/>"
            "<backingStore/></backingStore>",
        ),
    ),
    "mirror": Attack("<devices/disk/mirror>", _file("/shared/a", more="<mirror file='/etc/a'/>")),
    "two sources": Attack(
        "<devices/disk/source> stands there",
        disk("<source file='/shared/a'/><source file='/etc/a'/>"),
    ),
    "ssh": Attack(
        "protocol of <devices/disk/source>",
        disk(
            "<source protocol='ssh' name='/etc/shadow'><host name='h'/></source>", type_="network"
        ),
    ),
    "own monitors": Attack(
        "name of <devices/disk/source/host>",
        disk("<source protocol='rbd' name='p/i'><host name='h'/></source>", type_="network"),
    ),
    "options in a name": Attack(
        "name of <devices/disk/source>",
        disk("<source protocol='rbd' name='p/i:conf=/etc/x'/>", type_="network"),
    ),
    "file of options": Attack(
        "<devices/disk/source/config>",
        disk("<source protocol='rbd' name='p/i'><config file='/etc/x'/></source>", type_="network"),
    ),
    "driver outside QEMU": Attack(
        "name of <devices/disk/driver>",
        _file("/shared/a", driver="<driver name='tap' type='raw'/>"),
    ),
    "emulator of another kind": Attack(
        "<devices/disk/source/slices>", disk("<source file='/shared/a'><slices/></source>")
    ),
    "kernel": Attack("<os/kernel>", os="<kernel>/etc/shadow</kernel>"),
    "initrd": Attack("<os/initrd>", os="<initrd>/etc/shadow</initrd>"),
    "command line alone": Attack("<os/cmdline>", os="<cmdline>a</cmdline>"),
    "device tree": Attack("<os/dtb>", os="<dtb>/etc/shadow</dtb>"),
    "init": Attack("<os/init>", os="<init>/bin/sh</init>"),
    "ACPI table": Attack("<os/acpi>", os="<acpi><table type='slic'>/etc/shadow</table></acpi>"),
    "firmware": Attack("<os/loader>", os="<loader readonly='yes' type='pflash'>/etc/a</loader>"),
    "firmware that is written": Attack(
        "readonly of <os/loader>",
        os="<loader readonly='no' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>",
    ),
    "firmware without readonly": Attack(
        "<os/loader> lacks", os="<loader type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>"
    ),
    "variables": Attack("the text of <os/nvram>", os="<nvram>/etc/cron.d/vm-a.fd</nvram>"),
    "variables of another": Attack("the text of <os/nvram>", os="<nvram>/shared/vm-b.fd</nvram>"),
    "template": Attack("template of <os/nvram>", os=_TEMPLATE),
    "variables elsewhere": Attack(
        "<os/nvram> has type='block'", os="<nvram type='block'><source dev='/dev/sda'/></nvram>"
    ),
    "variables as a source": Attack(
        "file of <os/nvram/source>",
        os="<nvram type='file'><source file='/etc/cron.d/vm-a.fd'/></nvram>",
    ),
    "host's SMBIOS": Attack("mode of <os/smbios>", os="<smbios mode='host'/>"),
    "boot loader": Attack("<bootloader>", more="<bootloader>/bin/sh</bootloader>"),
    "fw_cfg": Attack(
        "type of <sysinfo>",
        more="<sysinfo type='fwcfg'><entry name='a' file='/etc/shadow'/></sysinfo>",
    ),
    "QEMU's command line": Attack(
        "xmlns:qemu of <domain>",
        root=_QEMU,
        more="<qemu:commandline><qemu:arg value='-device'/></qemu:commandline>",
    ),
    "QEMU's command line without its namespace": Attack(
        "<qemu:commandline>",
        more="<qemu:commandline><qemu:arg value='-device'/></qemu:commandline>",
    ),
    "QEMU's command line by another prefix": Attack(
        "xmlns:q of <domain>",
        root=_QEMU.replace("xmlns:qemu", "xmlns:q"),
        more="<q:commandline><q:arg value='-device'/></q:commandline>",
    ),
    "namespace as a default": Attack(
        "<commandline> is not among",
        more="<commandline xmlns='http://libvirt.org/schemas/domain/qemu/1.0'/>",
    ),
    "host device": Attack("<devices/hostdev>", "<hostdev mode='subsystem' type='pci'/>"),
    "directory of the host": Attack("<devices/filesystem>", "<filesystem type='mount'/>"),
    "shared memory": Attack("<devices/shmem>", "<shmem name='a'/>"),
    "smartcard": Attack("<devices/smartcard>", "<smartcard mode='host'/>"),
    "TPM": Attack("<devices/tpm>", "<tpm><backend type='passthrough'/></tpm>"),
    "lease": Attack("<devices/lease>", "<lease><target path='/etc/a'/></lease>"),
    "NVDIMM": Attack("model of <devices/memory>", "<memory model='nvdimm'/>"),
    "memory from a file": Attack(
        "type of <memoryBacking/source>",
        more="<memoryBacking><source type='file'/></memoryBacking>",
    ),
    "locked memory": Attack(
        "<memoryBacking/locked>", more="<memoryBacking><locked/></memoryBacking>"
    ),
    "hidden memory": Attack(
        "<memory> is less",
        more="<cpu><numa><cell id='0' cpus='0' memory='999999999' unit='KiB'/></numa></cpu>",
    ),
    "real time": Attack(
        "<cputune/vcpusched>",
        more="<cputune><vcpusched vcpus='0' scheduler='fifo' priority='99'/></cputune>",
    ),
    "core dumps": Attack("the text of <on_crash>", more="<on_crash>coredump-restart</on_crash>"),
    "dumps by a watchdog": Attack(
        "action of <devices/watchdog>", "<watchdog model='i6300esb' action='dump'/>"
    ),
    "script": Attack(
        "<devices/interface/script>",
        "<interface type='bridge'><source bridge='br-int'/><script path='/bin/sh'/></interface>",
    ),
    "interface with a script": Attack(
        "has type='ethernet'", "<interface type='ethernet'><script path='/bin/sh'/></interface>"
    ),
    "host's network card": Attack(
        "has type='direct'", "<interface type='direct'><source dev='eth0'/></interface>"
    ),
    "vhost-user socket": Attack(
        "has type='vhostuser'", "<interface type='vhostuser'><source path='/a'/></interface>"
    ),
    "any device of QEMU as a network card": Attack(
        "type of <devices/interface/model>",
        "<interface type='bridge'><source bridge='br-int'/><model type='vfio-pci'/></interface>",
    ),
    "threads without end": Attack(
        "thread_pool_max of <iothreadids/iothread>",
        more="<iothreadids><iothread id='1' thread_pool_max='9999'/></iothreadids>",
    ),
    "another bridge": Attack(
        "bridge of <devices/interface/source>",
        "<interface type='bridge'><source bridge='br-ex'/></interface>",
    ),
    "vhost device": Attack(
        "<devices/interface/backend>",
        "<interface type='bridge'><source bridge='br-int'/><backend vhost='/dev/sda'/></interface>",
    ),
    "tagged port": Attack(
        "<devices/interface/vlan>",
        "<interface type='bridge'><source bridge='br-int'/><vlan><tag id='1'/></vlan></interface>",
    ),
    "ROM file": Attack(
        "file of <devices/interface/rom>",
        "<interface type='bridge'><source bridge='br-int'/><rom file='/etc/shadow'/></interface>",
    ),
    "socket elsewhere": Attack(
        "path of <devices/serial/source>",
        _port("serial", "unix", "<source mode='bind' path='/etc/vm-a.sock'/>"),
    ),
    "socket of another": Attack(
        "path of <devices/serial/source>",
        _port("serial", "unix", "<source mode='bind' path='/consoles/vm-b.sock'/>"),
    ),
    "socket to connect to": Attack(
        "mode of <devices/serial/source>",
        _port("serial", "unix", "<source mode='connect' path='/consoles/vm-a.sock'/>"),
    ),
    "VNC on a socket": Attack(
        "socket of <devices/graphics>", "<graphics type='vnc' socket='/etc/a'/>"
    ),
    "VNC on a port of the host": Attack("port of", "<graphics type='vnc' port='16514'/>"),
    "screen of the host": Attack(
        "has type='sdl'", "<graphics type='sdl' xauth='/root/.Xauthority'/>"
    ),
    "host's GPU": Attack(
        "enable of <devices/graphics/gl>",
        "<graphics type='spice'><gl enable='yes' rendernode='/dev/dri/a'/></graphics>",
    ),
    "random numbers from a device": Attack(
        "text of <devices/rng/backend>",
        "<rng model='virtio'><backend model='random'>/dev/sda</backend></rng>",
    ),
    "random numbers from a daemon": Attack(
        "<devices/rng/backend> has model='egd'",
        "<rng model='virtio'><backend model='egd' type='tcp'/></rng>",
    ),
    "sound into a file": Attack("has type='file'", "<audio id='1' type='file' path='/etc/a'/>"),
    "fixed address of a vsock": Attack(
        "auto of <devices/vsock/cid>", "<vsock model='virtio'><cid auto='no' address='3'/></vsock>"
    ),
    "CPUs of the host by group": Attack(
        "the text of <resource/partition>",
        more="<resource><partition>/system</partition></resource>",
    ),
    "element of a later version": Attack("<devices/pstore>", "<pstore backend='acpi-erst'/>"),
    "attribute of a later version": Attack(
        "attribute new of <features>", more="<features new='a'/>"
    ),
}
