"""KubeVirt's own launcher pods and domain documents, and which of them ours are compared with.

Recorded with KubeVirt's main branch at d923fdb815cd (after v1.8.0) and a default configuration:
its pod template and its converter, fed with VMIs that its admission had defaulted. Image names are
`virt-launcher`, and what is random upstream reads `random`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypercobalt.api.codec import decode
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance

Json = Any
_FILE: Final = Path(__file__).parent / "recorded" / "launchers.json.gz"

_FIELDS: Final = """
architecture evictionStrategy hostname subdomain priorityClassName schedulerName startStrategy
terminationGracePeriodSeconds nodeSelector.* affinity.* tolerations.* networks.name networks.pod.*
volumes.name volumes.containerDisk.* volumes.emptyDisk.*
domain.chassis.* domain.clock.* domain.resources.* domain.machine.type domain.memory.guest
domain.memory.maxGuest domain.ioThreadsPolicy domain.ioThreads.* domain.features.acpi.*
domain.features.apic.* domain.firmware.uuid domain.firmware.serial domain.firmware.kernelBoot.*
domain.firmware.bootloader.bios.* domain.cpu.sockets domain.cpu.cores domain.cpu.threads
domain.cpu.maxSockets domain.cpu.model domain.cpu.features.*
domain.devices.autoattach* domain.devices.logSerialConsole domain.devices.disableHotplug
domain.devices.blockMultiQueue domain.devices.networkInterfaceMultiqueue
domain.devices.useVirtioTransitional domain.devices.rng domain.devices.sound.*
domain.devices.video.* domain.devices.inputs.* domain.devices.watchdog.*
domain.devices.panicDevices.* domain.devices.disks.name domain.devices.disks.disk.*
domain.devices.disks.cdrom.* domain.devices.disks.bootOrder domain.devices.disks.serial
domain.devices.disks.cache domain.devices.disks.io domain.devices.disks.tag
domain.devices.disks.shareable domain.devices.disks.errorPolicy
domain.devices.disks.dedicatedIOThread domain.devices.disks.blockSize.custom.*
domain.devices.interfaces.name domain.devices.interfaces.masquerade
domain.devices.interfaces.bridge domain.devices.interfaces.model
domain.devices.interfaces.macAddress domain.devices.interfaces.bootOrder
domain.devices.interfaces.pciAddress domain.devices.interfaces.acpiIndex
domain.devices.interfaces.tag domain.devices.interfaces.state domain.devices.interfaces.ports.*
domain.devices.interfaces.dhcpOptions.*
"""
HONOURED: Final = tuple(_FIELDS.split())
"""Fields below `spec` that the builders act on; a star stands for the rest, or for all below."""

_HONOURED: Final = re.compile(
    "|".join(
        re.escape(path).replace(r"\.\*", r"(\..*)?").replace(r"\*", r"[A-Za-z]*")
        for path in HONOURED
    )
)


@dataclass(frozen=True, slots=True)
class Recording:
    """One VMI with KubeVirt's answers.

    Attributes:
        id: of the recording.
        vmi: defaulted, as JSON.
        pod: its launcher pod; None: KubeVirt makes none.
        emulated_limits: limits of the pod's container where the cluster permits emulation, the
            only difference that this makes.
        xml: its domain document; None: KubeVirt makes none.
    """

    id: str
    vmi: Json
    pod: Json | None
    emulated_limits: dict[str, str] | None
    xml: str | None

    def __str__(self) -> str:
        return self.id

    @property
    def typed(self) -> VirtualMachineInstance:
        return decode(json.dumps(self.vmi).encode(), VirtualMachineInstance)


@cache
def recordings() -> tuple[Recording, ...]:
    """Every recording."""
    return tuple(Recording(**one) for one in json.loads(gzip.decompress(_FILE.read_bytes())))


@cache
def honoured() -> tuple[Recording, ...]:
    """Recordings of VMIs in which every field is honoured."""
    return tuple(one for one in recordings() if not unhonoured(one.vmi["spec"]))


def unhonoured(spec: Json) -> list[str]:
    """Paths below `spec` that are set and not honoured."""
    return sorted({path for path in _leaves(spec, ()) if _HONOURED.fullmatch(path) is None})


def _leaves(value: Json, path: tuple[str, ...]) -> Iterator[str]:
    children: Iterable[tuple[tuple[str, ...], Json]] = ()
    if isinstance(value, dict):
        children = (((*path, key), child) for key, child in value.items())
    elif isinstance(value, list):
        children = ((path, child) for child in value)
    found = [leaf for at, child in children for leaf in _leaves(child, at)]
    yield from found or [".".join(path)]
