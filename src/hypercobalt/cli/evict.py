"""`cobalt evict`: move instances away from a host."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from msgspec.structs import replace

from hypercobalt.api.eviction import (
    Eviction,
    EvictionReason,
    Trigger,
    empties,
    evicting,
    has_ended,
    whole_host,
)
from hypercobalt.api.hypervisor import UUID_PATTERN, Hypervisor, Maintenance
from hypercobalt.api.meta import owner_reference
from hypercobalt.cli import api_command
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.cli.evict_watch import watch as watch_it
from hypercobalt.errors import InvalidRequestError
from hypercobalt.runtime import AlreadyExistsError, Deletion, Kube
from hypercobalt.views.eviction_progress import outcome

REASON: Final = "cobalt evict"


def evict(
    node: Node,
    /,
    *,
    watch: bool = False,
    reason: str = REASON,
    instances: Annotated[
        str, Parameter(help="UUIDs, with commas: only these leave, the host stays in service.")
    ] = "",
    parallelism: int | None = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Move all instances, or some, away from a host.

    Parameters
    ----------
    watch
        Show progress until the Eviction ends. Ctrl-C leaves it running.
    reason
        Reason, for people; also written to the Hypervisor's maintenanceReason.
    parallelism
        Most instances that move at once; else the operator's --max-parallel-per-source.
    """
    left = f"the Eviction of {node} continues; `cobalt evict {node} --watch` shows it, "
    left += f"`cobalt resume {node}` ends it"
    work = _evict(node, reason, instances, parallelism, kubeconfig, watch=watch)
    return api_command.run("evict", work, interrupted=left)


async def _evict(
    node: str,
    reason: str,
    instances: str,
    parallelism: int | None,
    kubeconfig: Path | None,
    *,
    watch: bool,
) -> int:
    only = _uuids(instances)
    if parallelism is not None and parallelism < 1:
        raise InvalidRequestError(f"--parallelism {parallelism}: must be 1 or more")
    if not reason.strip():
        raise InvalidRequestError("--reason must not be empty")
    async with api_command.client(kubeconfig) as kube:
        host = await api_command.hypervisor(kube, node)
        owner = owner_reference(host, controller=True, blocks=True)
        wanted = whole_host(host, reason, Trigger.MANUAL, owner=owner, parallelism=parallelism)
        if only:
            eviction = await kube.create(_partial(wanted, only))
        else:
            await _refuse_others(kube, host)
            await _take_out(kube, host, reason)
            eviction = await _whole(kube, host, wanted)
        if watch:
            return await watch_it(kube, eviction)
        print(outcome(eviction) or _begun(eviction))
        return 0


def _begun(eviction: Eviction) -> str:
    name, host = eviction.metadata.name, eviction.spec.hypervisor
    return (
        f"eviction/{name} moves instances away from {host}\n"
        f"  cobalt explain eviction/{name}\n  kubectl get eviction {name} --watch"
    )


def _uuids(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for one in found:
        if not re.fullmatch(UUID_PATTERN, one):
            raise InvalidRequestError(f"--instances: {one!r} is not an instance UUID")
    return found


async def _take_out(kube: Kube, host: Hypervisor, reason: str) -> None:
    """Put the host into maintenance, if it is not.

    Raises:
        InvalidRequestError: the high-availability service has it.
    """
    name, mode = host.metadata.name, host.spec.maintenance
    if mode == Maintenance.HA:
        raise InvalidRequestError(
            f"{name} is in maintenance `ha`: the high-availability service fences and empties it"
        )
    if not mode:
        patch = {"spec": {"maintenance": Maintenance.MANUAL, "maintenanceReason": reason}}
        await kube.merge_patch(Hypervisor, name, patch)


async def _whole(kube: Kube, host: Hypervisor, new: Eviction) -> Eviction:
    """The Eviction of the whole host: the existing one, or a new one.

    Args:
        kube: of the person.
        host: as it was before this command.
        new: created if there is none.

    Raises:
        InvalidRequestError: an old one is not gone yet.
    """
    name = host.metadata.name
    while True:
        known = await kube.get(Eviction, name)
        if known is not None and has_ended(known.status) and not _is_its_end(known, host):
            gone = await kube.delete(Eviction, name, uid=known.metadata.uid)
            if gone is Deletion.TERMINATING:
                raise InvalidRequestError(
                    f"{outcome(known)}. The Eviction is being deleted, which waits for its moves; "
                    "after that the operator creates a new one"
                )
            known = None
        if known is None:
            try:
                return await kube.create(new)
            except AlreadyExistsError:  # the operator was faster
                continue
        parallelism = new.spec.parallelism
        if parallelism is not None and known.spec.parallelism != parallelism:
            wanted = replace(known, spec=replace(known.spec, parallelism=parallelism))
            return await kube.patch(known, wanted)
        return known


async def _refuse_others(kube: Kube, host: Hypervisor) -> None:
    """Leave one alone that has the host's name and moves something else.

    Raises:
        InvalidRequestError: it is under way.
    """
    name = host.metadata.name
    known = await kube.get(Eviction, name)
    if known is not None and not has_ended(known.status) and not empties(known, name):
        what = "some instances of " if known.spec.instances else ""
        raise InvalidRequestError(
            f"eviction/{name} is under way and moves only {what}{known.spec.hypervisor}: wait for "
            f"its end, or `kubectl delete eviction {name}`"
        )


def _is_its_end(eviction: Eviction, host: Hypervisor) -> bool:
    """Whether an Eviction that has ended is proof that the host is empty now."""
    found = evicting(eviction.status)
    succeeded = found is not None and found.reason == EvictionReason.SUCCEEDED
    whole = empties(eviction, host.metadata.name)
    return whole and succeeded and bool(host.spec.maintenance and host.status.evicted)


def _partial(whole: Eviction, instances: tuple[str, ...]) -> Eviction:
    """The same of some instances, under a name of its own: there may be several."""
    meta = replace(whole.metadata, name="", generateName=f"{whole.metadata.name}-")
    return replace(whole, metadata=meta, spec=replace(whole.spec, instances=instances))
