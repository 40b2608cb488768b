"""The lab's own services in a host: they run now, and from each boot on.

`systemctl enable`, `add-wants` and `daemon-reload` have systemd run its generators and read all of
its units again, which takes longer than the start of most services. So the links are made here, and
systemd reads its units again only where it reports that it has to.

Source: systemd.unit(5), org.freedesktop.systemd1(5) (NeedDaemonReload).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypercobalt.lab.host import Host

UNITS: Final = "/etc/systemd/system"
"""In a host: where our unit files are."""
DISTRIBUTION: Final = "/lib/systemd/system"
"""In a host: where the units of packages are."""
_AT_BOOT: Final = f"{UNITS}/multi-user.target.wants"


async def install(host: Host, units: Mapping[str, str]) -> None:
    """Write unit files and start the services; what runs is left alone.

    Args:
        host: that runs.
        units: the files by name, all in `multi-user.target`.

    Raises:
        LabError: the host is off, a file cannot be written, or a service does not start.
    """
    for name, text in units.items():
        path = f"{UNITS}/{name}"
        if host.disk.read(path) != text.encode():
            host.disk.write(path, text)
    changed = ("systemctl", "show", "--property=NeedDaemonReload", "--value", *units)
    if "yes" in (await host.run(*changed)).split():
        await host.run("systemctl", "daemon-reload")
    await start(host, *units)


async def start(host: Host, *names: str, folder: str = UNITS) -> None:
    """Start services whose files are in the host; what runs is left alone.

    Args:
        host: that runs.
        names: of the units.
        folder: where their files are.

    Raises:
        LabError: the host is off, or a service does not start.
    """
    for name in names:
        host.disk.link(f"{_AT_BOOT}/{name}", f"{folder}/{name}")
    await host.run("systemctl", "start", *names)
