"""A private libvirtd with QEMU: own configuration, sockets, guests and process namespace.

Everything that it starts lives in one PID namespace and ends with it, guests included. It is
reached by its Unix socket; it has no network but loopback, and one CPU: where KVM reports each CPU
differently, libvirtd would probe all emulators again after half of its starts: that takes a second.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree, which
from tempfile import mkdtemp

WAIT = 20.0
_DIRECTORIES = {
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
    "etc": "/etc/libvirt",
}
_ROOM = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_QEMU_CONF = """
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
stdio_handler = "file"
"""
# cli; hlt; jmp -1: a guest that stands still.
_BOOT_SECTOR = (b"\xfa\xf4\xeb\xfd").ljust(510, b"\0") + b"\x55\xaa"


def missing() -> str | None:
    """What this machine lacks to run one, if anything."""
    for program in ("libvirtd", "qemu-system-x86_64", "unshare", "nsenter"):
        if which(program) is None:
            return f"{program} is not installed"
    return None if os.geteuid() == 0 else "it needs root"


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait for something that has no event, with a bound."""
    deadline = time.monotonic() + WAIT
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {WAIT} s")
        time.sleep(0.005)


class Daemon:
    """One libvirtd; `start` and `stop` it at will, its guests stay as they are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = directory / "run/libvirt-sock"
        for name in _DIRECTORIES:
            (directory / name).mkdir()
        (directory / "etc/qemu.conf").write_text(_QEMU_CONF)
        (directory / "etc/libvirtd.conf").write_text(
            f'host_uuid = "{uuid.uuid4()}"\nauth_unix_rw = "none"\nlog_level = 3\n'
            f'log_outputs = "3:file:{directory}/libvirtd.log"\nunix_sock_rw_perms = "0700"\n'
        )
        (directory / "boot.img").write_bytes(_BOOT_SECTOR)
        mounts = "\n".join(f"mount --bind {directory}/{a} {b}" for a, b in _DIRECTORIES.items())
        script = (
            "set -e\nip link set lo up\nmount -t tmpfs tmpfs /run\nmkdir /run/libvirt\n"
            f"{mounts}\necho ready\nsleep infinity & wait"
        )
        self._room = subprocess.Popen(
            [*_ROOM, "bash", "-c", script],
            stdout=subprocess.PIPE,
        )
        assert self._room.stdout is not None
        assert self._room.stdout.readline() == b"ready\n"

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self._socket}"

    def start(self) -> None:
        """Start libvirtd and wait until it listens."""
        self._socket.unlink(missing_ok=True)
        conf, pid_file = self.directory / "etc/libvirtd.conf", self.directory / "pid"
        enter = ("nsenter", "-t", str(_child(self._room.pid)), "-m", "-n", "-p", "--")
        one_cpu = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
        self._process = subprocess.Popen(
            [*enter, *one_cpu, "libvirtd", "-f", str(conf), "-p", str(pid_file)],
            stderr=subprocess.DEVNULL,
        )
        until(self._listens, "libvirtd's socket")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to libvirtd itself."""
        assert self._process is not None
        os.kill(_child(self._process.pid), number)
        if number is signal.SIGCONT:  # nsenter stops with its child, but does not go on with it
            self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End libvirtd, its guests go on."""
        assert self._process is not None
        self.send(number)
        self._process.send_signal(signal.SIGCONT)  # in case both were stopped
        self._process.wait(WAIT)

    def kill_guest(self, name: str) -> None:
        """Kill the QEMU of a domain, as the kernel does when memory runs out."""
        self.send_guest(name, signal.SIGKILL)

    def send_guest(self, name: str, number: signal.Signals) -> None:
        """Send a signal to the QEMU of a domain."""
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"guest={name},debug-threads=on".encode() in words and self._is_mine(words):
                os.kill(int(process.name), number)
                return
        raise LookupError(f"no QEMU of {name}")

    def guest(self, name: str, *, uuid_: str | None = None, memory: str = "1 MiB") -> str:
        """XML of a guest that stands still."""
        amount, unit = memory.split()
        given = f"<uuid>{uuid_}</uuid>" if uuid_ else ""
        return f"""
<domain type='qemu'><name>{name}</name>{given}<memory unit='{unit}'>{amount}</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type><boot dev='fd'/></os>
  <features><acpi/></features>
  <devices>
    <disk type='file' device='floppy'>
      <driver name='qemu' type='raw'/><source file='{self.directory}/boot.img'/>
      <target dev='fda'/><readonly/><shareable/>
    </disk>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>"""

    def close(self) -> None:
        """End libvirtd and every guest."""
        self._room.send_signal(signal.SIGKILL)
        self._room.wait(WAIT)
        if self._room.stdout is not None:
            self._room.stdout.close()
        if self._process is not None:
            self._process.kill()  # in case nsenter was stopped
            self._process.wait(WAIT)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def _is_mine(self, words: list[bytes]) -> bool:
        return any(str(self.directory).encode() in word for word in words)


def _child(pid: int) -> int:
    found: list[int] = []

    def appeared() -> bool:
        found[:] = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return bool(found)

    until(appeared, f"the child of process {pid}")
    return found[0]


@contextmanager
def private_libvirtd() -> Iterator[Daemon]:
    """A libvirtd that runs; it and all of its guests are gone afterwards."""
    directory = Path(mkdtemp(prefix="hv"))  # short: a Unix socket's path has 107 bytes
    daemon = Daemon(directory)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()
        rmtree(directory)
