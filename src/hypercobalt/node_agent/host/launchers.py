"""The launcher pods that run on the host, as the host itself shows them.

They are read from systemd, and not from the API: a pod that was deleted there by force runs on, and
an API that is away hides nothing. What a launcher's processes show of themselves is theirs
to choose, but for the UID of the pod: a guest that has broken out may look like any other program.
So a pod whose launcher and guest were seen counts until it has no process left, also by an agent
that was restarted: the own Hypervisor's status has the UID.
"""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import msgspec

from hypercobalt.adapters.host.pod_model import PodInterest, PodProcesses
from hypercobalt.adapters.host.port import HostError, Pods
from hypercobalt.agent.text import clean
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board, RunningLauncher

log = get_logger(__name__)

INTEREST: Final = PodInterest(LAUNCHER_MODULE, "qemu-")
_LONGEST_NAMESPACE: Final = 63  # characters, as Kubernetes has it
_LONGEST_NAME: Final = 253
_SIZE: Final = re.compile(r"(?:size=)?(\d{1,15})([kKmMgG]?)\b")
_UNITS: Final = {"k": 1 << 10, "": 1 << 20, "m": 1 << 20, "g": 1 << 30}
"""Bytes of QEMU's units; MiB without one."""
_CPUS: Final = re.compile(r"(?:.*,)?(?:cpus=)?(\d{1,6})\b")


class _Named(msgspec.Struct, frozen=True):
    """What the launcher's argument has of the VirtualMachineInstance."""

    namespace: str = ""
    name: str = ""


async def follow(pods: Pods, board: Board) -> None:
    """Keep the board's launchers equal to what systemd shows; the last ones while it is away."""
    async with aclosing(pods.watch(INTEREST)) as seen:
        async for now in seen:
            if isinstance(now, HostError):
                log.warning("launcher_pods_not_read", error=str(now))
                continue
            board.put(replace(board.parts, launchers=launchers_of(now)))


class StoredLaunchers:
    """Has launcher pods known that the own Hypervisor's status has; a handler of its informer.

    The informer calls it before the status is replaced: what acts sees the object later.
    """

    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    def on_add(self, obj: Hypervisor) -> None:
        shown = {
            one.id: (_shown(one.namespace, one.name),)
            for one in obj.status.instances
            if one.namespace is not None
        }
        self._pods.remember(INTEREST, shown)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        """Pass: what the status gains, this agent has seen itself."""

    def on_delete(self, obj: Hypervisor) -> None:
        """Pass: the pods run on."""


def _shown(namespace: str, name: str) -> tuple[str, ...]:
    """Return a launcher's command line, as far as an instance of the status has it."""
    named = _Named(namespace, name.removeprefix(f"{namespace}_"))
    return (LAUNCHER_MODULE, msgspec.json.encode(named).decode())


class PodLaunchers:
    """The launcher pods that run, read at each call, and how they are ended.

    Args:
        pods: of the host.
    """

    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    async def running(self) -> tuple[RunningLauncher, ...]:
        """Read them now.

        Raises:
            HostError: systemd does not show every pod.
        """
        return launchers_of(await self._pods.running(INTEREST))

    async def kill(self, pod: str) -> None:
        """Kill a pod's processes, by its UID; no kubelet starts a launcher again.

        Raises:
            HostError: systemd refuses, or does not answer.
        """
        await self._pods.kill(pod)


def launchers_of(pods: tuple[PodProcesses, ...]) -> tuple[RunningLauncher, ...]:
    """Return the launcher among the processes of each pod."""
    return tuple(_launcher(pod) for pod in pods)


def _launcher(pod: PodProcesses) -> RunningLauncher:
    named = next((found for one in pod.commands if (found := _named(one))), _Named())
    guest = next((one for one in pod.commands if LAUNCHER_MODULE not in one), ())
    return RunningLauncher(
        pod=pod.uid,
        namespace=clean(named.namespace)[:_LONGEST_NAMESPACE],
        name=clean(named.name)[:_LONGEST_NAME] or pod.uid,
        memory_bytes=_memory(_option(guest, "-m")),
        vcpus=_vcpus(_option(guest, "-smp")),
    )


def _named(command: tuple[str, ...]) -> _Named | None:
    if LAUNCHER_MODULE not in command:
        return None
    try:
        return msgspec.json.decode(_option(command, LAUNCHER_MODULE), type=_Named)
    except msgspec.DecodeError:
        return None


def _option(command: tuple[str, ...], name: str) -> str:
    """Return the word after another one; "" without it."""
    at = command.index(name) + 1 if name in command else len(command)
    return command[at] if at < len(command) else ""


def _memory(option: str) -> int:
    """Bytes by QEMU's `-m`, such as `size=32768k` or `32`."""
    found = _SIZE.match(option)
    return int(found[1]) * _UNITS[found[2].lower()] if found else 0


def _vcpus(option: str) -> int:
    """CPUs by QEMU's `-smp`, such as `1,sockets=1` or `cpus=1`."""
    found = _CPUS.match(option.partition(",")[0])
    return int(found[1]) if found else 0
