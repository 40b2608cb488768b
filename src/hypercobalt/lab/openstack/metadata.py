"""What tells guests who they are: Neutron's metadata agent on each host, between them and Nova.

A guest asks 169.254.169.254. OVN leads that to a port of the guest's network on its own host, in a
network namespace with a haproxy. The agent adds whose port the request came from, and signs that
with a secret that Nova has too: who knows it can read the metadata of every instance.

The agent starts a haproxy that has ended again; systemd starts the agent, and leaves the haproxies.

Source: Neutron, "OpenStack Metadata API and OVN"; systemd.kill(5) (KillMode).
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.lab import services
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.openstack import computes, config
from hypercobalt.lab.openstack.place import OpenStackPlace
from hypercobalt.lab.ovn import CONTROLLER, Central

SERVICE: Final = "neutron-ovn-metadata-agent.service"
NOVA_FILE: Final = "nova-metadata.conf"
"""What Nova's API reads beside nova.conf."""
CONFIGURATION: Final = "/etc/neutron/neutron_ovn_metadata_agent.ini"
"""In a host: the agent's, with the secret."""
_PRIVATE: Final = 0o600
_REGISTERED: Final = "neutron:ovn-metadata-id"
_UP: Final = timedelta(seconds=90)  # on a busy machine
_STEP: Final = 0.5
_RUN: Final = Path(__file__).with_name("run_metadata_agent.py")
_PROGRAM: Final = "/etc/neutron/run_metadata_agent.py"
_UNIT: Final = f"""\
[Unit]
Description=OpenStack Neutron OVN metadata agent
After=openvswitch-switch.service {CONTROLLER} network.target
StartLimitIntervalSec=0

[Service]
Environment=PATH={{programs}}/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart={{python}} {_PROGRAM} --config-file {CONFIGURATION}
Restart=always
RestartSec=1
KillMode=process
TimeoutStopSec=15

[Install]
WantedBy=multi-user.target
"""


def configure(place: OpenStackPlace) -> None:
    """Write what Nova's API has to know of the agents.

    Raises:
        OSError: it cannot be written.
    """
    _write(place.etc / NOVA_FILE, config.nova_metadata(_secret(place)))


async def install(place: OpenStackPlace, host: Host, central: Central) -> None:
    """Write the files of a host's agent, start it, and wait until OVN knows it.

    Args:
        place: of the environment.
        host: that runs, with its controller of OVN.
        central: the databases of OVN.

    Raises:
        LabError: the host is off, or the agent does not start in time.
    """
    text = config.metadata_agent(place, _secret(place))
    host.disk.write(CONFIGURATION, text, mode=_PRIVATE)
    host.disk.write(_PROGRAM, await asyncio.to_thread(_RUN.read_bytes))
    unit = _UNIT.format(programs=place.programs, python=place.python)
    await services.install(host, {SERVICE: unit})
    await _registered(host, central)


async def _registered(host: Host, central: Central) -> None:
    show = ("get", "Chassis_Private", host.name, "external_ids")
    try:
        async with asyncio.timeout(_UP.total_seconds()):
            while _REGISTERED not in await central.sbctl(*show):  # noqa: ASYNC110 - no event
                await asyncio.sleep(_STEP)
    except TimeoutError:
        raise LabError(
            f"the metadata agent on {host.name} is not up after {_UP}: "
            f"{await computes.last_words(host, SERVICE)}"
        ) from None


def _secret(place: OpenStackPlace) -> str:
    """The secret of an environment, made once."""
    kept = place.folder / "metadata-secret"
    if not kept.exists():
        _write(kept, secrets.token_hex(32))
    return kept.read_text()


def _write(file: Path, text: str) -> None:
    """Put a file for root alone in place, whole."""
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=_PRIVATE, exist_ok=False)  # closed to others before anything is in it
    fresh.write_text(text)
    fresh.replace(file)
