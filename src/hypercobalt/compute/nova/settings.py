"""Settings of the adapter to Nova. It imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

NO_NETWORK: Final = "none"
FIRST_NETWORK: Final = ""


@dataclass(frozen=True, slots=True)
class SmokeSettings:
    """Settings of the servers that onboarding boots on a new host.

    The defaults are those of the existing operator.

    Args:
        project: project of the servers; "" for that of the environment's account. An application
            credential always uses its own project.
        project_domain: of `project`.
        flavor: its id.
        image: its exact name; the first one, where there are several.
        network: name or id; `FIRST_NETWORK` for the first that is not shared, `NO_NETWORK` for a
            server without a port.
        volume_type: type of the volume that the server boots from; "" for the default type.
        volume_gib: size of that volume; 0 boots from the image, without a volume.
    """

    project: str = "test"
    project_domain: str = "cc3test"
    flavor: str = "1"
    image: str = "cirros-kvm"
    network: str = FIRST_NETWORK
    volume_type: str = "premium"
    volume_gib: int = 64


@dataclass(frozen=True, slots=True)
class NovaSettings:
    """Settings of the adapter.

    Args:
        smoke: how servers for tests are booted.
        evacuate_local_disks: servers with disks on their host are evacuated too. Nova makes the
            disks again from the image, unless all hosts share the directory or pool they are in.
        live_migrate_devices: servers with virtual GPUs or PCI devices are moved live, where Nova
            can.
        service_down_time: Nova's option of that name, for which Nova shows a dead host as up.
    """

    smoke: SmokeSettings = SmokeSettings()
    evacuate_local_disks: bool = False
    live_migrate_devices: bool = True
    service_down_time: timedelta = timedelta(seconds=60)
