"""`cobalt maintain` and `cobalt resume`: take a host out of service, and put it back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypercobalt.api.conditions import Condition, get_condition
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, SyncReason
from hypercobalt.cli import api_command, exit_codes
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.following import follow
from hypercobalt.errors import InvalidRequestError
from hypercobalt.runtime import Kube
from hypercobalt.text import printable


def maintain(
    node: Node, /, *, reason: str, wait: bool = False, kubeconfig: Kubeconfig = None
) -> int:
    """Take a host out of service: no new instances are placed there, and those there leave.

    Parameters
    ----------
    reason
        Reason, for people.
    wait
        Wait until all instances have left.
    """
    left = f"{node} stays in maintenance; `cobalt resume {node}` ends it"
    work = _maintain(node, reason, kubeconfig, wait=wait)
    return api_command.run("maintain", work, interrupted=left)


def resume(node: Node, /, *, kubeconfig: Kubeconfig = None) -> int:
    """Put a host back into service; an Eviction that is under way is cancelled."""
    return api_command.run("resume", _resume(node, kubeconfig))


async def _maintain(node: str, reason: str, kubeconfig: Path | None, *, wait: bool) -> int:
    if not reason.strip():
        raise InvalidRequestError("--reason must not be empty: state why")
    async with api_command.client(kubeconfig) as kube:
        host = await api_command.hypervisor(kube, node)
        mode = host.spec.maintenance or Maintenance.NONE
        if mode not in {Maintenance.NONE, Maintenance.MANUAL}:
            raise InvalidRequestError(f"{node} is in maintenance `{mode}` already: {_whose(mode)}")
        patch = {"spec": {"maintenance": Maintenance.MANUAL, "maintenanceReason": reason}}
        host = await kube.merge_patch(Hypervisor, node, patch)
        if not wait:
            print(f"{node} is being taken out of service: cobalt explain eviction/{node}")
            return 0
        return await _until_empty(kube, host)


async def _resume(node: str, kubeconfig: Path | None) -> int:
    async with api_command.client(kubeconfig) as kube:
        host = await api_command.hypervisor(kube, node)
        mode = host.spec.maintenance or Maintenance.NONE
        if mode in {Maintenance.TERMINATION, Maintenance.HA}:
            raise InvalidRequestError(f"{node} is in maintenance `{mode}`: {_whose(mode)}")
        if mode is Maintenance.NONE or mode == "":
            print(f"{node} is not in maintenance")
            return 0
        patch = {"spec": {"maintenance": None, "maintenanceReason": None}}
        await kube.merge_patch(Hypervisor, node, patch)
        print(f"{node} goes back into service")
        return 0


def _whose(mode: str) -> str:
    return {
        Maintenance.TERMINATION: "the Node is being deleted, and the spec is frozen; if the host "
        "stays after all, delete the Hypervisor: the operator creates it again from its Node",
        Maintenance.HA: "the high-availability service fences, empties and releases it; "
        "`cobalt explain` shows its next step",
        Maintenance.AUTO: "an automation has set it; `cobalt resume` ends that",
    }.get(Maintenance(mode), "")


async def _until_empty(kube: Kube, host: Hypervisor) -> int:
    """Follow the condition `Evicting` of the Hypervisor: it counts for the host as a whole.

    Raises:
        InvalidRequestError: the host is gone, or was put back into service meanwhile.
    """
    newest = _Newest(host)
    await follow(kube, Hypervisor, host.metadata.name, newest, _shown(newest))
    name = host.metadata.name
    if newest.gone:
        raise InvalidRequestError(f"Hypervisor {name} was deleted")
    if not newest.host.spec.maintenance:
        raise InvalidRequestError(f"{name} was put back into service meanwhile")
    evicting = _evicting(newest.host)
    if evicting is None or evicting.reason != SyncReason.SUCCEEDED:
        return exit_codes.FAILED
    print(f"{name} is empty", flush=True)
    return 0


async def _shown(newest: _Newest) -> None:
    """Print the message of `Evicting` whenever it changes, until the Eviction has ended."""
    shown = ""
    while True:
        evicting = _evicting(newest.host)
        text = printable(evicting.message) if evicting else "waiting for the operator"
        if text != shown:
            print(text, flush=True)
            shown = text
        if newest.gone or not newest.host.spec.maintenance:
            return
        if evicting is not None and evicting.status == "False":
            return
        newest.changed.clear()
        await newest.changed.wait()


def _evicting(host: Hypervisor) -> Condition | None:
    return get_condition(host.conditions, HypervisorConditionType.EVICTING)


class _Newest:
    """The newest version of a Hypervisor, never older than the one given at the start."""

    def __init__(self, host: Hypervisor) -> None:
        self.host, self.gone = host, False
        self.changed = asyncio.Event()

    def on_add(self, obj: Hypervisor) -> None:
        self._take(obj)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        self._take(new)

    def on_delete(self, obj: Hypervisor) -> None:
        self.lost()

    def lost(self) -> None:
        """The object was deleted."""
        self.gone = True
        self.changed.set()

    def _take(self, host: Hypervisor) -> None:
        if host.metadata.generation >= self.host.metadata.generation:
            self.host = host
            self.changed.set()
