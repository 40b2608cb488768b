"""Settings of the adapter to Nova. It imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

NO_NETWORK: Final = "none"
FIRST_NETWORK: Final = ""
SERVICE_DOWN_TIME: Final = timedelta(seconds=60)
"""Nova's option `service_down_time` by default."""


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
