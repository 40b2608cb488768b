"""`cobalt maintain` and `cobalt resume`: take a host out of service, and put it back."""

from __future__ import annotations

from pathlib import Path

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, SyncReason
from hypercobalt.cli import asking
from hypercobalt.cli.asking import InvalidRequestError, Kubeconfig, Node
from hypercobalt.operator.wording import printable
from hypercobalt.runtime import Change, Kube


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
    return asking.run("maintain", work, interrupted=left)


def resume(node: Node, /, *, kubeconfig: Kubeconfig = None) -> int:
    """Put a host back into service; an Eviction that is under way is cancelled."""
    return asking.run("resume", _resume(node, kubeconfig))


async def _maintain(node: str, reason: str, kubeconfig: Path | None, *, wait: bool) -> int:
    if not reason.strip():
        raise InvalidRequestError("--reason must not be empty: state why")
    async with asking.client(kubeconfig) as kube:
        host = await asking.hypervisor(kube, node)
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
    async with asking.client(kubeconfig) as kube:
        host = await asking.hypervisor(kube, node)
        mode = host.spec.maintenance or Maintenance.NONE
        if mode in {Maintenance.TERMINATION, Maintenance.HA}:
            raise InvalidRequestError(f"{node} is in maintenance `{mode}`: {_whose(mode)}")
        if mode is Maintenance.NONE or mode == "":
            print(f"{node} is in service")
            return 0
        patch = {"spec": {"maintenance": None, "maintenanceReason": None}}
        await kube.merge_patch(Hypervisor, node, patch)
        print(f"{node} goes back into service")
        return 0


def _whose(mode: str) -> str:
    return {
        Maintenance.TERMINATION: "the Node is being deleted, and the spec is frozen",
        Maintenance.HA: "the high-availability service fences, empties and releases it",
        Maintenance.AUTO: "an automation has set it; `cobalt resume` ends that",
    }.get(Maintenance(mode), "")


async def _until_empty(kube: Kube, host: Hypervisor) -> int:
    """Follow the condition `Evicting` of the Hypervisor: it counts for the host as a whole."""
    name, shown, generation = host.metadata.name, "", host.metadata.generation
    while True:
        async with kube.watch(Hypervisor, fields=f"metadata.name={name}") as events:
            async for event in events:
                if event.change is Change.DELETED:
                    raise InvalidRequestError(f"Hypervisor {name} was deleted")
                found = event.object
                if found is None or found.metadata.generation < generation:
                    continue
                if not found.spec.maintenance:
                    raise InvalidRequestError(f"{name} was put back into service meanwhile")
                evicting = get_condition(found.conditions, HypervisorConditionType.EVICTING)
                text = printable(evicting.message) if evicting else "waiting for the operator"
                if text != shown:
                    print(text, flush=True)
                    shown = text
                if evicting is None or evicting.status != "False":
                    continue
                if evicting.reason == SyncReason.SUCCEEDED:
                    print(f"{name} is empty", flush=True)
                    return 0
                return asking.FAILED
