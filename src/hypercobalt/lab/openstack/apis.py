"""The OpenStack services that run on the machine."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hypercobalt.lab import processes
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.openstack import infra, metadata
from hypercobalt.lab.openstack.config import METADATA_PORT
from hypercobalt.lab.openstack.place import (
    GLANCE,
    KEYSTONE,
    NEUTRON,
    NOVA,
    PLACEMENT,
    OpenStackPlace,
    Service,
)

_SERVE = Path(__file__).with_name("serve.py")
_METADATA = ("nova.wsgi.metadata", METADATA_PORT)


async def start_keystone(place: OpenStackPlace) -> None:
    """Start Keystone and wait until it listens.

    Raises:
        LabError: it does not.
    """
    await _serve(place, KEYSTONE, {"OS_KEYSTONE_CONFIG_DIR": str(place.etc)})


async def start_placement(place: OpenStackPlace) -> None:
    """Start Placement and wait until it listens.

    Raises:
        LabError: it does not.
    """
    await _serve(place, PLACEMENT, {"OS_PLACEMENT_CONFIG_DIR": str(place.etc)})


async def start_glance(place: OpenStackPlace) -> None:
    """Start Glance and wait until it listens.

    Raises:
        LabError: it does not.
    """
    for folder in ("images", "staging", "tasks"):
        (place.state("glance") / folder).mkdir(parents=True, exist_ok=True)
    await _serve(place, GLANCE, {"OS_GLANCE_CONFIG_DIR": str(place.etc)})


async def start_nova(place: OpenStackPlace) -> None:
    """Start Nova's conductor, scheduler and APIs, and wait until those listen.

    Its API for people and that of metadata are one process, for 190 MiB less.

    Raises:
        LabError: it does not.
    """
    (place.state("nova") / "lock").mkdir(parents=True, exist_ok=True)
    configuration = ("--config-file", str(place.etc / "nova.conf"))
    for name in ("nova-conductor", "nova-scheduler"):
        await _start(place, name, (place.program(name), *configuration))
    # The paste file must be the first.
    files = {
        "OS_NOVA_CONFIG_DIR": str(place.etc),
        "OS_NOVA_CONFIG_FILES": f"api-paste.ini;nova.conf;{metadata.NOVA_FILE}",
    }
    await _serve(place, NOVA, files, _METADATA)


async def start_neutron(place: OpenStackPlace) -> None:
    """Start Neutron's API and the workers of ML2/OVN, and wait until the API listens.

    Raises:
        LabError: it does not.
    """
    state = place.state("neutron")
    (state / "lock").mkdir(parents=True, exist_ok=True)
    temporary = state / "tmp"  # holds the API's start time, by a process id of long ago
    if not processes.find(place.lab_id, f"openstack/{NEUTRON.name}-api"):
        shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(exist_ok=True)
    settings = {
        "OS_NEUTRON_CONFIG_DIR": str(place.etc),
        "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
        "ASGI_WORKERS": "1",  # or no event of OVN ever reaches Nova
        "TMPDIR": str(temporary),
    }
    configuration = ("--config-file", str(place.etc / "neutron.conf"))
    for name in ("neutron-periodic-workers", "neutron-ovn-maintenance-worker"):
        await _start(place, name, (place.program(name), *configuration), settings)
    await _serve(place, NEUTRON, settings)


async def _serve(
    place: OpenStackPlace, service: Service, settings: Mapping[str, str], *more: tuple[str, int]
) -> None:
    name = f"{service.name}-api"
    served = ((service.application, service.port), *more)
    pairs = (str(part) for pair in served for part in pair)
    argv = (str(place.python), str(_SERVE), place.address, *pairs)
    await _start(place, name, argv, settings)
    log = place.log / f"{name}.log"
    role = f"openstack/{name}"
    for _, port in served:
        await infra.answers(place.lab_id, role, place.address, port, log)


async def _start(
    place: OpenStackPlace, name: str, argv: Sequence[str], settings: Mapping[str, str] | None = None
) -> None:
    if processes.find(place.lab_id, role := f"openstack/{name}"):
        return
    await processes.spawn(
        argv,
        lab_id=place.lab_id,
        role=role,
        log=place.log / f"{name}.log",
        env={**place.environment, **(settings or {})},
    )


async def check(place: OpenStackPlace) -> None:
    """Make sure that everything that was started still runs.

    Raises:
        LabError: something has ended; the message has the end of its log.
    """
    running = {process.role for process in await asyncio.to_thread(processes.find, place.lab_id)}
    for name in ("nova-conductor", "nova-scheduler"):
        if f"openstack/{name}" not in running:
            raise LabError(f"{name} ended: {processes.tail(place.log / f'{name}.log')}")
