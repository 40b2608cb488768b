"""The disk of a host: a writable layer over the machine's own root file system.

The host sees every program of the machine, and nothing that the machine is: what it enabled,
mounts, serves and stores about itself is hidden by empty directories and replaced by what a
hypervisor host has. `contents` lists the files, pure; `Disk` makes them.

Source: overlayfs (opaque directories), systemd.unit(5), libvirtd.conf and qemu.conf of libvirt.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.lab import mounts
from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.processes import environment

# Paths of the machine that its hosts do not see: enabled units, boot scripts, networks, databases
# of libvirt and Open vSwitch with whatever runs on the machine itself, timers' stamps, its journal.
HIDDEN: Final = (
    "etc/cron.d",
    "etc/cron.daily",
    "etc/cron.hourly",
    "etc/libvirt/qemu",
    "etc/libvirt/secrets",
    "etc/libvirt/storage",
    "etc/netplan",
    "etc/openvswitch",
    "etc/ovn",
    "etc/pki/qemu",
    "etc/rc2.d",
    "etc/rc3.d",
    "etc/rc4.d",
    "etc/rc5.d",
    "etc/rcS.d",
    "etc/systemd/network",
    "etc/systemd/system",
    "etc/systemd/system.conf.d",
    "var/lib/libvirt",
    "var/lib/openvswitch",
    "var/lib/ovn",
    "var/lib/systemd",
    "var/log/journal",
    "var/log/libvirt",
    "var/log/openvswitch",
    "var/log/ovn",
)
WANTED: Final[Mapping[str, tuple[str, ...]]] = {
    "sockets.target": (
        "libvirtd.socket",
        "libvirtd-ro.socket",
        "libvirtd-admin.socket",
        "libvirtd-tcp.socket",
        "virtlockd.socket",
        "virtlogd.socket",
    ),
    "multi-user.target": (
        "libvirtd.service",
        "openvswitch-switch.service",
        "systemd-networkd.service",
    ),
}
# Started by the distribution's own wants or by generators, and of no use in a host.
MASKED: Final = (
    "console-getty.service",
    "getty.target",
    "systemd-networkd-wait-online.service",
    "systemd-timesyncd.service",
    "systemd-modules-load.service",  # modules are the machine's
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "ovs-record-hostname.service",  # waits for a resolver
    "modprobe@.service",
)

# A host mounts, decrypts and starts nothing that these would make units of; a process each.
MASKED_GENERATORS: Final = (
    "postgresql-generator",
    "systemd-cryptsetup-generator",
    "systemd-debug-generator",
    "systemd-fstab-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-rc-local-generator",
    "systemd-run-generator",
    "systemd-system-update-generator",
    "systemd-sysv-generator",
    "systemd-veritysetup-generator",
)

LOCAL: Final = "/var/lib/hypercobalt/local"
"""In a host: a directory of its own, for VM disks."""
CONSOLES: Final = "/var/lib/hypercobalt/consoles"
"""In a host: the sockets of its VMs' serial ports."""

_LIBVIRTD = """\
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
host_uuid = "{uuid}"
"""
# With the distribution's default, libvirtd ends after 120 s without a client: a host looks broken.
_ARGUMENTS = 'LIBVIRTD_ARGS=""\n'
# KVM reports the CPUID of the CPU that executes it, with its APIC ID. libvirt compares that with
# the one in its cache: after a start on another CPU it would probe each emulator again, seconds of
# work. Guests, and the threads of their emulators, get all CPUs: libvirt sets that for each of
# them.
_LIBVIRTD_SERVICE = """\
[Service]
CPUAffinity={cpu}
"""
_QEMU = """\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
"""
_NETWORK = """\
[Match]
Name=host0

[Network]
Address={address}/24
LinkLocalAddressing=no
"""
# The bridge that has the bond: see `hypercobalt.lab.bond`.
_TUNNEL_BRIDGE = """\
[Match]
Name=br-phy

[Network]
Address={address}/24
LinkLocalAddressing=no
ConfigureWithoutCarrier=yes
"""
_JOURNAL = """\
[Journal]
Storage=persistent
SystemMaxUse=16M
"""
_LOGIND = """\
[Login]
InhibitDelayMaxSec=30
"""
_MANAGER = """\
[Manager]
DefaultTimeoutStopSec=8s
"""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """Who a host is; two hosts with the same would refuse to migrate to each other."""

    lab_id: str
    name: str
    address: str

    @property
    def uuid(self) -> uuid.UUID:
        """UUID of the host's hardware, as libvirt reports it."""
        return uuid.uuid5(uuid.UUID(self.lab_id), self.name)

    @property
    def tunnel_address(self) -> str:
        """Where the other hosts' switches find this host's: 10.79.N.I for the host 10.77.N.I."""
        return str(ipaddress.IPv4Address(self.address) + (2 << 16))

    @property
    def tunnel_mac(self) -> str:
        """MAC of the bridge with the tunnel address: locally administered, unique to the host."""
        return ":".join(f"{byte:02x}" for byte in (2, *self.uuid.bytes[:5]))

    @property
    def machine_id(self) -> str:
        """ID of the host's operating system: the content of /etc/machine-id."""
        return uuid.uuid5(self.uuid, "machine-id").hex


def contents(identity: HostIdentity, cpu: int) -> dict[str, str]:
    """Files of the host by path, text each.

    Args:
        identity: who it is.
        cpu: CPU of the machine on which the host's libvirtd runs; the same for all hosts.
    """
    return {
        "etc/machine-id": f"{identity.machine_id}\n",
        "etc/hostname": f"{identity.name}\n",
        "etc/fstab": "",
        "etc/crypttab": "",
        "etc/cloud/cloud-init.disabled": "",
        "etc/default/libvirtd": _ARGUMENTS,
        "etc/libvirt/libvirtd.conf": _LIBVIRTD.format(uuid=identity.uuid),
        "etc/libvirt/qemu.conf": _QEMU,
        "etc/openvswitch/system-id.conf": f"{identity.name}\n",
        "etc/systemd/system/libvirtd.service.d/lab.conf": _LIBVIRTD_SERVICE.format(cpu=cpu),
        "etc/systemd/network/10-host0.network": _NETWORK.format(address=identity.address),
        "etc/systemd/network/30-br-phy.network": _TUNNEL_BRIDGE.format(
            address=identity.tunnel_address
        ),
        "etc/systemd/journald.conf.d/lab.conf": _JOURNAL,
        "etc/systemd/logind.conf.d/lab.conf": _LOGIND,
        "etc/systemd/system.conf.d/lab.conf": _MANAGER,
    }


def links() -> dict[str, str]:
    """Symbolic links of the host by path: units that start at boot, what never does."""
    system = "etc/systemd/system"
    wanted = {
        f"{system}/{target}.wants/{unit}": f"/lib/systemd/system/{unit}"
        for target, units in WANTED.items()
        for unit in units
    }
    never = [f"{system}/{unit}" for unit in MASKED]
    never += [f"etc/systemd/system-generators/{one}" for one in MASKED_GENERATORS]
    return wanted | dict.fromkeys(never, "/dev/null")


def hosts_file(addresses: Mapping[str, str]) -> str:
    """/etc/hosts: the names of all hosts of the lab."""
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    return "".join(f"{line}\n" for line in [*lines, *(f"{a} {n}" for n, a in addresses.items())])


@dataclass(frozen=True, slots=True)
class Disk:
    """A tmpfs with a host's writable layer, and the merged root on top.

    Memory is taken by what the host writes only. The layer must lie on another file system than
    the machine's root: overlayfs refuses a layer inside a layer.
    """

    folder: Path  # the tmpfs's mount point

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def layer(self) -> Path:
        return self.folder / "upper"

    async def prepare(self, identity: HostIdentity, addresses: Mapping[str, str]) -> None:
        """Make or mount what is missing; a disk that is there keeps what the host wrote.

        Raises:
            LabError: a file system cannot be mounted or written.
        """
        mounted = mounts.under(self.folder)
        if self.folder not in mounted:
            self.folder.mkdir(parents=True, exist_ok=True)
            mount = ("mount", "-t", "tmpfs", "-o", "mode=755", "hypercobalt", str(self.folder))
            await run(*mount, env=environment(identity.lab_id))
        if self.root not in mounted:
            try:
                self._write_layer(identity)
            except OSError as exc:
                raise LabError(f"disk of {identity.name}: {exc}") from exc
            await self._mount_root(identity)
        self.write_hosts(addresses)

    async def _mount_root(self, identity: HostIdentity) -> None:
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        self.root.mkdir(exist_ok=True)
        # Paths in the option string must not hold its separators: work from inside the folder.
        await run(
            "env", f"--chdir={self.folder}", "mount", "-t", "overlay", "overlay",
            "-o", "lowerdir=/,upperdir=upper,workdir=work", "root",
            env=environment(identity.lab_id),
        )  # fmt: skip

    def _write_layer(self, identity: HostIdentity) -> None:
        if self.layer.exists():
            return
        fresh = self.folder / "upper.new"
        shutil.rmtree(fresh, ignore_errors=True)
        for path in HIDDEN:
            os.setxattr(_folder(fresh, path), "trusted.overlay.opaque", b"y")
        for path in (LOCAL, CONSOLES):
            _folder(fresh, path.lstrip("/"))
        for path, text in contents(identity, min(os.sched_getaffinity(0))).items():
            _folder(fresh, str(Path(path).parent)).joinpath(Path(path).name).write_text(text)
        for path, target in links().items():
            _folder(fresh, str(Path(path).parent)).joinpath(Path(path).name).symlink_to(target)
        fresh.rename(self.layer)

    def write_hosts(self, addresses: Mapping[str, str]) -> None:
        """Write the addresses of all hosts into the host's /etc/hosts, also while it runs.

        Raises:
            LabError: it cannot be written.
        """
        self.write("etc/hosts", hosts_file(addresses))

    def write(self, path: str, text: str | bytes, *, mode: int = 0o644) -> None:
        """Put a file into the host, whole, also while it runs.

        Args:
            path: absolute or relative to the host's root.
            text: the content.
            mode: its permissions.

        Raises:
            LabError: it cannot be written.
        """
        target = self.root / path.lstrip("/")
        fresh = target.with_name(f".{target.name}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            fresh.touch(mode=0o600, exist_ok=False)  # closed to others before anything is in it
            fresh.write_bytes(text.encode() if isinstance(text, str) else text)
            fresh.chmod(mode)
            fresh.replace(target)
        except OSError as exc:
            raise LabError(f"{target} cannot be written: {exc.strerror}") from exc

    def link(self, path: str, target: str) -> None:
        """Have a symbolic link in the host, also while it runs; a file of that name stays.

        Raises:
            LabError: it cannot be made.
        """
        link = self.root / path.lstrip("/")
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                link.symlink_to(target)
        except OSError as exc:
            raise LabError(f"{link} cannot be made: {exc.strerror}") from exc

    def read(self, path: str) -> bytes:
        """A file of the host; nothing when it is not there."""
        try:
            return (self.root / path.lstrip("/")).read_bytes()
        except OSError:
            return b""

    async def remove(self) -> None:
        """Give everything back, whatever is there of it.

        Raises:
            LabError: a file system is still in use.
        """
        await mounts.release(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder(layer: Path, path: str) -> Path:
    """A directory of the layer, with owner and mode as the machine's directory of that path."""
    here, below = layer, Path("/")
    here.mkdir(mode=0o755, exist_ok=True)
    for part in Path(path).parts:
        here, below = here / part, below / part
        if here.is_dir():
            continue
        here.mkdir(mode=0o755)
        if below.is_dir():
            seen = below.stat()
            os.chown(here, seen.st_uid, seen.st_gid)
            here.chmod(seen.st_mode & 0o7777)
    return here
