"""A real libvirt makes the same guest of a definition that was rewritten."""

from __future__ import annotations

import re
import uuid
from typing import Final
from xml.etree import ElementTree as ET

from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.documents.portable.rewriting import rewritten
from tests.lab.kit.hand import Hand
from tests.lab.kit.libvirtd import Daemon

UUID: Final = str(uuid.uuid4())
RICH: Final = """
<domain type='qemu'><name>rich</name><uuid>{uuid}</uuid><title>a &lt;b&gt;</title>
  <metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>
    <nova:flavor name='m1'><nova:vcpus>2</nova:vcpus></nova:flavor></nova:instance></metadata>
  <memory unit='MiB'>64</memory><currentMemory unit='MiB'>48</currentMemory>
  <vcpu placement='static' cpuset='0' current='1'>2</vcpu>
  <iothreads>1</iothreads>
  <cputune><shares>1024</shares><vcpupin vcpu='0' cpuset='0'/></cputune>
  <sysinfo type='smbios'><system><entry name='manufacturer'>OpenStack</entry></system></sysinfo>
  <os><type arch='x86_64' machine='q35'>hvm</type><smbios mode='sysinfo'/>
    <bootmenu enable='yes' timeout='100'/></os>
  <features><acpi/><apic/><vmcoreinfo state='on'/></features>
  <cpu mode='custom' match='exact'><model fallback='allow'>qemu64</model>
    <topology sockets='2' dies='1' cores='1' threads='1'/></cpu>
  <clock offset='utc'><timer name='pit' tickpolicy='delay'/>
    <timer name='hpet' present='no'/></clock>
  <on_crash>restart</on_crash>
  <pm><suspend-to-mem enabled='no'/></pm>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap' iothread='1'/>
      <source file='{shared}/rich.img'/><target dev='vda' bus='virtio'/><serial>{uuid}</serial>
      <iotune><total_iops_sec>1000</total_iops_sec></iotune><boot order='1'/>
      <alias name='ua-root'/></disk>
    <disk type='network' device='disk'><driver name='qemu' type='raw'/>
      <source protocol='rbd' name='pool/image'><auth username='nova'>
        <secret type='ceph' uuid='{uuid}'/></auth></source>
      <target dev='vdb' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <controller type='scsi' model='virtio-scsi'/><controller type='virtio-serial'/>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br-int'/>
      <virtualport type='openvswitch'><parameters interfaceid='{uuid}'/></virtualport>
      <model type='virtio'/><driver name='vhost' queues='2'/>
      <mtu size='1442'/></interface>
    <serial type='pty'><log file='{shared}/rich.log' append='on'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <input type='tablet' bus='usb'/>
    <graphics type='vnc' port='-1' listen='127.0.0.1' passwd='secret'/>
    <video><model type='virtio' heads='1'/></video>
    <watchdog model='i6300esb' action='reset'/>
    <memballoon model='virtio'><stats period='10'/></memballoon>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <vsock model='virtio'><cid auto='yes'/></vsock>
    <panic model='isa'/>
  </devices>
</domain>
"""


def _parts(root: ET.Element, path: str = "") -> list[str]:
    """Each element with its attributes, in order."""
    here = f"{path}/{root.tag}"
    attributes = " ".join(f"{name}={value}" for name, value in sorted(root.attrib.items()))
    found = [f"{here} {attributes} {(root.text or '').strip()}"]
    for child in root:
        found += _parts(child, here)
    return found


async def test_libvirt_reads_the_same_guest(libvirtd: Daemon) -> None:
    hand, shared = Hand(libvirtd.uri), str(libvirtd.directory)
    hand.define(RICH.format(uuid=UUID, shared=shared))
    dump = ("dumpxml", "--inactive", "--security-info", "rich")
    before = hand(*dump)
    made = rewritten(before, UUID, Allowed(shared=(shared,)))
    assert made.dropped == ()
    hand("undefine", "rich")
    hand.define(made.xml)
    after = hand(*dump)
    assert "127.0.0.1" in before  # the listening address of a screen is the host's own
    listening = re.compile(r"<listen [^>]*/>| listen='[^']*'")
    old, new = (listening.sub("", text) for text in (before, after))
    assert _parts(ET.fromstring(old)) == _parts(ET.fromstring(new))  # noqa: S314 - of our libvirt
    assert rewritten(after, UUID, Allowed(shared=(shared,))).xml == made.xml
