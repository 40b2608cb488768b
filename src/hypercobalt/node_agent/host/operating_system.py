"""Puts the host's operating system on the board, now and after each change."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from hypercobalt.adapters.host.model import OperatingSystem
from hypercobalt.adapters.host.port import System
from hypercobalt.agent.text import clean
from hypercobalt.api.hypervisor_host import OperatingSystemStatus
from hypercobalt.node_agent.status.parts import Board


def status_of(found: OperatingSystem) -> OperatingSystemStatus:
    """Return the fields of the status; what the host does not report is absent."""

    def known(text: str) -> str | None:
        return clean(text) or None

    return OperatingSystemStatus(
        version=known(found.version),
        variantID=known(found.variant_id),
        prettyVersion=known(found.pretty_version),
        kernelName=known(found.kernel_name),
        kernelRelease=known(found.kernel_release),
        kernelVersion=known(found.kernel_version),
        kernelCommandLine=known(found.kernel_command_line),
        hardwareVendor=known(found.hardware_vendor),
        hardwareModel=known(found.hardware_model),
        hardwareSerial=known(found.hardware_serial),
        firmwareVersion=known(found.firmware_version),
        firmwareVendor=known(found.firmware_vendor),
        firmwareDate=found.firmware_date and found.firmware_date.replace(microsecond=0),
        gardenLinuxCommitID=known(found.commit_id),
        gardenLinuxFeatures=tuple(clean(feature) for feature in found.features),
    )


async def follow(system: System, board: Board) -> None:
    """Follow the operating system until cancelled."""
    async with aclosing(system.watch()) as found:
        async for now in found:
            board.put(replace(board.parts, operating_system=status_of(now)))
