"""What the node agent's concerns put on the board."""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    HostCapabilities,
    Versions,
)
from hypercobalt.agent import board
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.fencing import GuestsStopped
from hypercobalt.api.hypervisor_host import HyperVisorUpdateStatus, OperatingSystemStatus
from hypercobalt.api.incident import Incident, PeerReport
from hypercobalt.runtime import Clock


@dataclass(frozen=True, slots=True)
class Inventory:
    """libvirt's last answers, whole: the four belong together.

    Args:
        missing: what the driver does not offer, in words for a person.
    """

    versions: Versions
    host: HostCapabilities
    offers: DomainCapabilities
    domains: tuple[Domain, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLauncher:
    """A launcher pod that runs on the host.

    Args:
        pod: UID of the pod.
        namespace: of the VirtualMachineInstance, as the launcher shows it; "" if it does not.
        name: of that; the UID of the pod if the launcher does not show it.
        memory_bytes: of its guest; 0 while there is none.
        vcpus: of its guest; 0 while there is none.
    """

    pod: str
    namespace: str
    name: str
    memory_bytes: int = 0
    vcpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(board.Parts):
    """Everything that is known of the host at one moment.

    Args:
        inventory: the last one; kept while libvirt is away. None: never read by this process.
        launchers: launcher pods that run; None: not known yet.
        operating_system: None: not known yet.
        update: None: not known yet.
        boot: None: not known yet.
        guests_stopped: None: this process has not ended the host's guests.
        peer_reports: None: not known yet whether other hosts have to be probed.
        incidents: those that are open; None: not known yet.
        diagnostics: where people are served; None while they are not.
    """

    inventory: Inventory | None = None
    launchers: tuple[RunningLauncher, ...] | None = None
    operating_system: OperatingSystemStatus | None = None
    update: HyperVisorUpdateStatus | None = None
    boot: Boot | None = None
    guests_stopped: GuestsStopped | None = None
    peer_reports: tuple[PeerReport, ...] | None = None
    incidents: tuple[Incident, ...] | None = None
    diagnostics: DiagnosticsEndpoint | None = None


class Board(board.Board[Parts]):
    """The node agent's board: its parts of a Hypervisor's status."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, Parts())
