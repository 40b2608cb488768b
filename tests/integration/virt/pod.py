"""A launcher pod on this machine: a launcher of an unprivileged user in namespaces of its own.

As a runtime does, it gives the pod its directories, devices and an account for its user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final
from uuid import uuid4

import msgspec

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.lab.guest import bootsector
from hypercobalt.lab.guest.bootsector import Program
from hypercobalt.virt.launcher.settings import LauncherSettings, encode_settings
from hypercobalt.virt.wire.messages import Sync
from hypercobalt.vmi.paths import PodPaths

WAIT: Final = 60.0
_DISK_BYTES: Final = 20 * 1024**2  # what the programs that write reach
_NAMESPACES: Final = (
    "unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
    "--mount-proc",
)  # fmt: skip
# The kernel forgets the signal of --kill-child with a change of user: it is asked for again.
_USER: Final = (
    "setpriv", "--pdeathsig", "KILL", f"--reuid={LAUNCHER_USER}", f"--regid={LAUNCHER_USER}",
    "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs",
)  # fmt: skip
# An interpreter below /root stays in reach of a user that may not enter that directory.
_SCRIPT: Final = """
set -e
place=$1 home=$2 room=$3; shift 3
grep -v ':x:107:' /etc/passwd >$place/passwd
echo "qemu:x:107:107::$place/private:/usr/sbin/nologin" >>$place/passwd
mount --bind $place/passwd /etc/passwd
mkdir $place/dev $place/home
mount --bind /root $place/home
mount -t tmpfs -o mode=755 tmpfs /root
case $home in /root/*)
  mkdir -p $home; mount --bind $place/home/${home#/root/} $home;;
esac
umount -l $place/home
mount -t tmpfs -o mode=755 tmpfs $place/dev
mkdir $place/dev/pts $place/dev/shm
chmod 1777 $place/dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts $place/dev/pts
ln -s pts/ptmx $place/dev/ptmx
for name in null:3 zero:5 full:7 random:8 urandom:9; do
  mknod -m 666 $place/dev/${name%:*} c 1 ${name#*:}
done
mkdir $place/dev/net
mknod -m 666 $place/dev/net/tun c 10 200
mount --move $place/dev /dev
ip tuntap add dev tap0 mode tap user 107
ip link set tap0 up
[ -z "$room" ] || mount -t tmpfs -o "size=$room,uid=107,gid=107" tmpfs $place/ephemeral
ip link set lo up
cd $place
exec "$@"
"""


def missing() -> str | None:
    """What this machine lacks to run one, if anything."""
    for program in ("libvirtd", "qemu-system-x86_64", "qemu-img", "unshare", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None if os.geteuid() == 0 else "it needs root"


def until(happened: Callable[[], bool], what: str) -> None:
    """Wait for something that has no event, with a bound."""
    deadline = time.monotonic() + WAIT
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {WAIT} s")
        time.sleep(0.01)


class Pod:
    """One pod with one image, whose guest is a boot sector.

    Attributes:
        directory: everything that the pod has.
        paths: of the pod.
        uid: of its VMI.
        room: of its overlays, as mount(8) has sizes; "" for that of the machine.
    """

    def __init__(self, directory: Path, program: Program) -> None:
        self.directory, self.uid, self.room = directory, str(uuid4()), ""
        self.paths = PodPaths(
            private=f"{directory}/private",
            public=f"{directory}/public",
            ephemeral=f"{directory}/ephemeral",
            runtime=f"{directory}/run/libvirt",
            images=f"{directory}/images",
            kernel=f"{directory}/kernel",
        )
        writable = (self.paths.private, self.paths.public, self.paths.sockets,
                    self.paths.ephemeral, self.paths.runtime)  # fmt: skip
        for path in map(Path, writable):
            path.mkdir(parents=True)
            os.chown(path, LAUNCHER_USER, LAUNCHER_USER)
        directory.chmod(0o755)
        self._make_image(program)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return Path(self.paths.command_socket)

    @property
    def log(self) -> str:
        """What the pod has printed."""
        return (self.directory / "log").read_text()

    def start(self, *, module: str = "hypercobalt.virt.launcher", **settings: object) -> None:
        """Start the pod, and do not wait for its launcher."""
        given = LauncherSettings(
            namespace="lab",
            name="guest",
            uid=self.uid,
            paths=self.paths,
            handlers=(os.getuid(),),
            **settings,  # type: ignore[arg-type]
        )
        self.execute(sys.executable, "-m", module, encode_settings(given))

    def execute(self, *command: str) -> None:
        """Start the pod with a command."""
        home = str(Path(sys.executable).resolve().parents[1])
        inside = ("bash", "-c", _SCRIPT, "pod", str(self.directory), home, self.room)
        with (self.directory / "log").open("ab") as out:
            self._process = subprocess.Popen(
                [*_NAMESPACES, *inside, *_USER, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def wait(self) -> int:
        """Wait for the pod's end, and return the exit code of its first process."""
        assert self._process
        return self._process.wait(WAIT)

    def first(self) -> int:
        """Process id of the pod's first process."""
        assert self._process
        return _children(self._process.pid)[0]

    def launcher(self) -> int:
        """Process id of the launcher, below the first."""
        return next(one for one in _children(self.first()) if b"launcher" in _words(one))

    def enlarge(self, room: str) -> None:
        """Give the overlays more room."""
        enter = ("nsenter", "-t", str(self.first()), "-m")
        remount = ("mount", "-o", f"remount,size={room}", self.paths.ephemeral)
        subprocess.run([*enter, *remount], check=True)

    def processes(self, program: str) -> list[int]:
        """Processes of a program in this pod."""
        return self.programs().get(program, [])

    def programs(self) -> dict[str, list[int]]:
        """Processes in the pod's PID namespace by the first 15 letters of their programs."""
        found: dict[str, list[int]] = {}
        try:
            here = Path(f"/proc/{self.first()}/ns/pid").readlink()
        except (OSError, IndexError):
            return found
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "ns/pid").readlink() == here:
                    name = (process / "comm").read_text().strip()
                    found.setdefault(name, []).append(int(process.name))
        return found

    def ports(self) -> list[str]:
        """Lines of the kernel's tables of the pod's TCP and UDP sockets."""
        tables = [Path(f"/proc/{self.first()}/net/{name}") for name in ("tcp", "tcp6", "udp")]
        return [line for table in tables for line in table.read_text().splitlines()[1:]]

    def qemu(self) -> list[int]:
        """Process ids of its QEMUs."""
        return self._by_command("qemu-system-x86_64")

    def close(self) -> None:
        """End everything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(WAIT)
            until(lambda: not self._left(), "the end of the pod's processes")

    def vmi(self, *, phase: str = "Scheduled", **spec: object) -> bytes:
        """The VMI as the handler passes it on, as JSON."""
        devices = {
            "autoattachPodInterface": False,
            "autoattachGraphicsDevice": False,
            "autoattachMemBalloon": False,
            "disks": [{"name": "root", "disk": {"bus": "sata"}}],
        }
        return msgspec.json.encode(
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachineInstance",
                "metadata": {"name": "guest", "namespace": "lab", "uid": self.uid},
                "spec": {
                    "domain": {
                        "machine": {"type": "q35"},
                        "memory": {"guest": "32Mi"},
                        "firmware": {"uuid": str(uuid4())},
                        "features": {"acpi": {"enabled": True}},
                        "devices": devices,
                    },
                    "volumes": [{"name": "root", "containerDisk": {"image": "lab/guest"}}],
                    **spec,
                },
                "status": {"phase": phase},
            }
        )

    def sync(self, *, phase: str = "Scheduled", **spec: object) -> Sync:
        """The call that makes the guest run, without KVM."""
        return Sync(msgspec.Raw(self.vmi(phase=phase, **spec)), emulation=True)

    def _make_image(self, program: Program) -> None:
        disk = Path(self.paths.image(0), "disk")
        disk.mkdir(parents=True)
        raw = self.directory / "boot.img"
        raw.write_bytes(bootsector.image(program).ljust(_DISK_BYTES, b"\0"))
        convert = ("qemu-img", "convert", "-f", "raw", "-O", "qcow2")
        subprocess.run([*convert, str(raw), str(disk / "guest.qcow2")], check=True)

    def _left(self) -> bool:
        """Whether a process is left that has the pod's directory in its command."""
        command = str(self.directory).encode()
        return any(command in _words(int(one.name)) for one in Path("/proc").glob("[0-9]*"))

    def _by_command(self, program: str) -> list[int]:
        numbers = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
        return [
            one
            for one in numbers
            if (words := _words(one)).startswith((program.encode(), f"/usr/bin/{program}".encode()))
            and str(self.directory).encode() in words
        ]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@contextmanager
def pod(program: Program = "idle") -> Iterator[Pod]:
    """A pod that is not started yet; nothing of it is left afterwards."""
    directory = Path(mkdtemp(prefix="hv"))  # short: a Unix socket's path has 107 bytes
    made = Pod(directory, program)
    try:
        yield made
    finally:
        made.close()
        rmtree(directory)
