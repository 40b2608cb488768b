"""Puts what the host's operating system is on the board, now and after each change."""

from __future__ import annotations

from contextlib import aclosing

from hypercobalt.adapters.host.model import OperatingSystem
from hypercobalt.adapters.host.port import System
from hypercobalt.api.hypervisor_status import OperatingSystemStatus
from hypercobalt.node_agent.status.board import Board
from hypercobalt.node_agent.status.text import clean


def status_of(found: OperatingSystem) -> OperatingSystemStatus:
    """Give the fields of the status; what the host does not say is absent."""

    def said(text: str) -> str | None:
        return clean(text) or None

    return OperatingSystemStatus(
        version=said(found.version),
        variantID=said(found.variant_id),
        prettyVersion=said(found.pretty_version),
        kernelName=said(found.kernel_name),
        kernelRelease=said(found.kernel_release),
        kernelVersion=said(found.kernel_version),
        kernelCommandLine=said(found.kernel_command_line),
        hardwareVendor=said(found.hardware_vendor),
        hardwareModel=said(found.hardware_model),
        hardwareSerial=said(found.hardware_serial),
        firmwareVersion=said(found.firmware_version),
        firmwareVendor=said(found.firmware_vendor),
        firmwareDate=found.firmware_date and found.firmware_date.replace(microsecond=0),
        gardenLinuxCommitID=said(found.commit_id),
        gardenLinuxFeatures=tuple(clean(feature) for feature in found.features),
    )


async def follow(system: System, board: Board) -> None:
    """Follow the operating system until cancelled."""
    async with aclosing(system.watch()) as found:
        async for now in found:
            board.put_operating_system(status_of(now))
