"""The pod's own libvirtd: a session daemon without rights, with the driver of QEMU alone.

It opens no TCP port, starts no other daemon (virtlogd would outlive the pod's end and cost twice
the launcher's memory), and has no D-Bus to go to. It keeps QEMU through its own restart.

Source: libvirt's libvirtd.conf, qemu.conf, virtqemud(8); measured in docs/decisions/0074.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.vmi.paths import PodPaths

log = get_logger(__name__)

_PROGRAMS: Final = {"virtqemud": "virtqemud-sock", "libvirtd": "libvirt-sock"}
"""The first that is installed counts: libvirt's daemon for QEMU alone is missing in Debian 12."""
_PATH: Final = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
)  # fmt: skip
_DRIVER: Final = "libvirt_driver_qemu.so"
_NO_BUS: Final = "unix:path=/nonexistent"
_QEMU_CONF: Final = """\
stdio_handler = "file"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
"""
_DAEMON_CONF: Final = """\
host_uuid = "{uuid}"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
log_level = 3
log_outputs = "3:stderr"
min_workers = 2
prio_workers = 1
keepalive_interval = -1
"""
_AGAIN: Final = 1.0  # seconds before a daemon that died is started again
_LAST: Final = 5.0  # seconds for it to end


@dataclass(frozen=True, slots=True)
class DaemonPlace:
    """Where the daemon's files lie, by the pod's paths.

    Args:
        private: directory for what nobody but the launcher uses.
        runtime: directory of sockets and states; its name is `libvirt`, as libvirt wants it.
    """

    private: Path
    runtime: Path

    @classmethod
    def within(cls, paths: PodPaths) -> DaemonPlace:
        """Check the paths of a pod.

        Raises:
            ConfigurationError: libvirt would look elsewhere.
        """
        runtime = Path(paths.runtime)
        if runtime.name != "libvirt":
            raise ConfigurationError(f"paths.runtime {runtime}: its last part must be `libvirt`")
        return cls(Path(paths.private), runtime)

    @property
    def configuration(self) -> Path:
        return self.private / "libvirt"

    @property
    def cache(self) -> Path:
        """Where libvirt's driver of QEMU caches what it finds out about emulators."""
        return self.private / "libvirt/qemu/cache/capabilities"

    def environment(self) -> Mapping[str, str]:
        """Variables of the daemon's process."""
        private = str(self.private)
        return {
            "PATH": ":".join(_PATH),
            "LC_ALL": "C",
            "HOME": private,
            "XDG_CONFIG_HOME": private,
            "XDG_CACHE_HOME": private,
            "XDG_DATA_HOME": private,
            "XDG_RUNTIME_DIR": str(self.runtime.parent),
            "LIBVIRT_DRIVER_DIR": str(self.private / "drivers"),
            "DBUS_SESSION_BUS_ADDRESS": _NO_BUS,
            "DBUS_SYSTEM_BUS_ADDRESS": _NO_BUS,
        }


class SessionDaemon:
    """Kept running by `run`.

    Args:
        place: where its files lie.
        drivers: directory of libvirt's drivers.

    Raises:
        ConfigurationError: no libvirt is installed.
    """

    def __init__(self, place: DaemonPlace, drivers: Path) -> None:
        program = next(filter(_installed, _PROGRAMS), None)
        if program is None:
            raise ConfigurationError(f"none of {', '.join(_PROGRAMS)} is installed")
        self._place, self._program = place, program
        _prepare(place, drivers)

    @property
    def uri(self) -> str:
        socket = self._place.runtime / _PROGRAMS[self._program]
        return f"qemu+unix:///session?socket={socket}"

    async def run(self) -> None:
        """Start the daemon, and again whenever it dies; it ends when this is cancelled.

        Raises:
            ConfigurationError: it cannot be started.
        """
        while True:
            process = await self._start()
            try:
                code = await process.wait()
            finally:
                await _end(process)
            log.error("libvirtd_died", code=code)
            await asyncio.sleep(_AGAIN)

    async def _start(self) -> asyncio.subprocess.Process:
        words = (self._program, "-f", str(self._place.configuration / "daemon.conf"))
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                env=dict(self._place.environment()),
                cwd=self._place.private,
            )
        except OSError as exc:
            raise ConfigurationError(f"{self._program} cannot be started: {exc}") from exc


def _installed(program: str) -> bool:
    return any(Path(directory, program).exists() for directory in _PATH)


def _prepare(place: DaemonPlace, drivers: Path) -> None:
    alone = place.private / "drivers"
    for directory in (place.configuration, place.runtime, alone):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    (place.configuration / "qemu.conf").write_text(_QEMU_CONF)
    # Each pod is a host of its own to libvirt: it refuses to migrate a guest to the same one.
    daemon = _DAEMON_CONF.format(uuid=uuid4())
    (place.configuration / "daemon.conf").write_text(daemon)
    link = alone / _DRIVER
    if not link.is_symlink():
        link.symlink_to(drivers / _DRIVER)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a daemon that may have ended."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_LAST):
            await process.wait()
    except TimeoutError:
        process.kill()


def socket_directory(paths: PodPaths, uid: str) -> Path:
    """Make the directory of the guest's sockets, and return it."""
    directory = Path(paths.guest_socket(uid, "any")).parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def has_kvm() -> bool:
    """Whether this process may open /dev/kvm."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK)
