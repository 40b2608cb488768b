"""nova-compute on a host of the lab, as a systemd service.

Source: systemd.service(5); Nova's libvirt driver.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from hypercobalt.lab import services
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.openstack import config, volumes
from hypercobalt.lab.openstack.place import OpenStackPlace

SERVICE: Final = "nova-compute.service"
_CONFIGURATION = "/etc/nova/nova.conf"
_IDENTITY = "/var/lib/nova/compute_id"
_UNIT = """\
[Unit]
Description=OpenStack Compute
After=libvirtd.service openvswitch-switch.service network.target

[Service]
Environment=PATH={programs}/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={program} --config-file {configuration}
Restart=on-failure
RestartSec=1
KillMode=process
TimeoutStopSec=15

[Install]
WantedBy=multi-user.target
"""


async def install(place: OpenStackPlace, host: Host, *, shared: bool) -> None:
    """Write nova-compute's files and start it; it starts with the host from then on.

    Args:
        place: of the environment.
        host: that runs.
        shared: whether guests' disks are where the other hosts see them.

    Raises:
        LabError: the host is off, or the service does not start.
    """
    unit = _UNIT.format(
        programs=place.programs,
        program=place.program("nova-compute"),
        configuration=_CONFIGURATION,
    )
    host.disk.write(_IDENTITY, config.compute_id(host.name))
    volumes.let_mount(host)
    await configure(place, host, shared=shared)
    await services.install(host, {SERVICE: unit})


async def configure(place: OpenStackPlace, host: Host, *, shared: bool) -> None:
    """Write nova.conf; a service that runs reads it at its next start.

    Raises:
        LabError: the host is off.
    """
    text = config.compute(place, host.name, host.address, shared=shared)
    host.disk.write(_CONFIGURATION, text, mode=0o600)
    for folder in (config.SHARED_INSTANCES, config.LOCAL_INSTANCES):
        await host.run("mkdir", "--parents", str(PurePosixPath(folder)))


async def last_words(host: Host, unit: str = SERVICE) -> str:
    """The end of what nova-compute, or another unit, logged on a host."""
    try:
        return await host.run(
            *("journalctl", "--unit", unit, "--lines", "15", "--output", "cat", "--no-pager")
        )
    except (CommandError, LabError) as exc:
        return str(exc)
