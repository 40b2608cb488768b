"""What the operating system is: os-release, the kernel, and hostnamed for the hardware.

Source: os-release(5), org.freedesktop.hostname1(5), proc(5).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.adapters.host.bus import RefusedError, Service, reach
from hypercobalt.adapters.host.files import follow, resolve
from hypercobalt.adapters.host.model import OperatingSystem
from hypercobalt.adapters.host.port import HostError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
FIRST_RETRY: Final = timedelta(seconds=5)
OS_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")  # the first that can be read counts
_MAX_FILE, _MAX_VALUE = 64 << 10, 4096  # bytes, characters
_NAME, _PATH = "org.freedesktop.hostname1", "/org/freedesktop/hostname1"
_COMMAND_LINE: Final = Path("/proc/cmdline")  # the kernel's; the same in every container
_NO_DESCRIBE = "org.freedesktop.DBus.Error.UnknownMethod"  # before systemd 249
_LINE = re.compile(r"""\s*([A-Za-z0-9_]+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']*)\s*""", re.ASCII)
_ESCAPE = re.compile(r"""\\([\\$"'`])""")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Facts = Mapping[str, object]


class HostSystem:
    """The operating system under `root`, and the hostnamed behind a bus.

    Args:
        address: of the system bus; None: the usual one.
        root: of the host's file system; in a container it is mounted somewhere else.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        root: Path = Path("/"),
    ) -> None:
        self._address, self._root = address, root
        self._files = tuple(root / name for name in OS_RELEASE)

    async def watch(self) -> AsyncGenerator[OperatingSystem]:
        known: OperatingSystem | None = None
        hardware: Facts | None = None
        wait, complaint = FIRST_RETRY, ""
        while True:
            with follow(self._files, self._root) as changed:
                release = parse_os_release(self._read_release())
                if hardware is None:
                    try:
                        hardware = await self._describe()
                    except HostError as error:
                        if str(error) != complaint:
                            complaint = str(error)
                            log.warning("hardware_unknown", error=complaint)
                found = assemble(release, hardware or {}, read_file(_COMMAND_LINE))
                if found != known:
                    known = found
                    yield found
                await changed(wait if hardware is None else RESYNC)
                wait = min(wait * 2, RESYNC)

    def _read_release(self) -> str:
        texts = (read_file(resolve(file, self._root)) for file in self._files)
        return next(filter(None, texts), "")

    async def _describe(self) -> Facts:
        """What hostnamed reports, by the names of its JSON, which its properties share.

        Raises:
            HostError: it cannot be reached.
        """
        async with reach(_NAME, self._address) as hostnamed:
            return await _read(hostnamed)


async def _read(hostnamed: Service) -> Facts:
    try:
        reply = await hostnamed.call(_PATH, f"{_NAME}.Describe")
    except RefusedError as error:
        if error.name != _NO_DESCRIBE:
            raise
        return await hostnamed.properties(_PATH, _NAME)
    try:
        return msgspec.json.decode(str(reply.body[0]), type=dict[str, object])
    except (msgspec.DecodeError, IndexError) as error:
        raise HostError(f"{_NAME} Describe: the answer is not a JSON object") from error


def assemble(release: Mapping[str, str], hardware: Facts, command_line: str) -> OperatingSystem:
    """Combine what three sources report."""
    kernel = os.uname()

    def text(name: str) -> str:
        value = hardware.get(name)
        return clean(value) if isinstance(value, str) else ""

    # An image that systemd-sysupdate manages has IMAGE_VERSION; VERSION_ID is the release's.
    versions = (release.get(n) for n in ("GARDENLINUX_VERSION", "IMAGE_VERSION", "VERSION_ID"))
    features = release.get("GARDENLINUX_FEATURES", "").split(",")
    return OperatingSystem(
        pretty_version=release.get("PRETTY_NAME", ""),
        version=next(filter(None, versions), ""),
        variant_id=release.get("VARIANT_ID", ""),
        kernel_name=kernel.sysname,
        kernel_release=kernel.release,
        kernel_version=kernel.version,
        kernel_command_line=clean(command_line),
        hardware_vendor=text("HardwareVendor"),
        hardware_model=text("HardwareModel"),
        hardware_serial=text("HardwareSerial"),
        firmware_version=text("FirmwareVersion"),
        firmware_vendor=text("FirmwareVendor"),
        firmware_date=_date(hardware.get("FirmwareDate")),
        commit_id=release.get("GARDENLINUX_COMMIT_ID_LONG", ""),
        features=tuple(filter(None, (feature.strip() for feature in features))),
    )


def parse_os_release(text: str) -> dict[str, str]:
    """Read assignments as a shell would, without expansion; what is no assignment is passed over.

    The last one of a name counts. Values are cleaned and cut to 4096 characters.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            name, value = match.groups()
            found[name] = clean(_unquote(value))
    return found


def clean(text: str) -> str:
    """Text fit for an API object: no control characters, no surrounding space, not too long."""
    return _CONTROL.sub(" ", text)[:_MAX_VALUE].strip()


def read_file(path: Path) -> str:
    """The text of a small regular file; "" if there is none that can be read."""
    try:
        # It may be a pipe, which must not block the agent.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = os.read(descriptor, _MAX_FILE) if regular else b""
        finally:
            os.close(descriptor)
    except OSError:
        return ""
    return content.decode(errors="replace")


def _unquote(value: str) -> str:
    if value.startswith("'"):
        return value[1:-1]
    return _ESCAPE.sub(r"\1", value[1:-1] if value.startswith('"') else value)


def _date(microseconds: object) -> datetime | None:
    """Read FirmwareDate: microseconds since 1970."""
    if not isinstance(microseconds, int) or not 0 < microseconds < 1 << 56:
        return None
    try:
        return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    except (OverflowError, ValueError):
        return None
