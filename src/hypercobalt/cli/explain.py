"""`cobalt explain`: state of an object, what it waits for, who reported that, what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from cyclopts import Parameter

from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import Object
from hypercobalt.api.migration import SERVER, Migration, label_value
from hypercobalt.cli import api_command
from hypercobalt.cli.api_command import Kubeconfig
from hypercobalt.cli.explain_vmi import explained
from hypercobalt.cli.tables import Output, print_json
from hypercobalt.errors import InvalidRequestError
from hypercobalt.operator.election import COMPONENT, COMPONENT_LABEL, LEASE, selector_of
from hypercobalt.operator.ha.planning.evictions import succeeded
from hypercobalt.operator.shared.evictions import is_recovery
from hypercobalt.runtime import ForbiddenError, Kube, NotFoundError
from hypercobalt.runtime.client.errors import TerminalApiError
from hypercobalt.views.explain import eviction as evictions
from hypercobalt.views.explain import hypervisor as hypervisors
from hypercobalt.views.explain import migration as migrations
from hypercobalt.views.explain.model import Explanation
from hypercobalt.views.explain.reporters import KUBELET_NAMESPACE, Reporters

_KINDS: Final = {
    **dict.fromkeys(("hypervisor", "hypervisors", "hv", "node", "nodes"), "hypervisor"),
    **dict.fromkeys(("eviction", "evictions", "evi"), "eviction"),
    **dict.fromkeys(("migration", "migrations", "mig"), "migration"),
    **dict.fromkeys(("vmi", "vmis", "virtualmachineinstance"), "vmi"),
}
_TYPES: Final[dict[str, type[Object]]] = {
    "hypervisor": Hypervisor,
    "eviction": Eviction,
    "migration": Migration,
    "vmi": VirtualMachineInstance,
}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

T = TypeVar("T")


def explain(
    what: Annotated[
        str,
        Parameter(
            help="NAME of a host: its Hypervisor and the Eviction of that name; or node/NAME, "
            "hv/NAME, eviction/NAME, mig/NAME or mig/UUID of the server; vmi/NAME or "
            "vmi/NAMESPACE/NAME."
        ),
    ],
    /,
    *,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Explain the state of a Hypervisor, an Eviction, a Migration or a VMI, and what to do.

    Parameters
    ----------
    output
        text, or json: a list with one item for each object.
    """
    return api_command.run("explain", _explain(what, output, kubeconfig))


async def _explain(what: str, output: str, kubeconfig: Path | None) -> int:
    kind, slash, name = what.partition("/")
    if not slash:
        kind, name = "", what
    if (kind and kind.lower() not in _KINDS) or not name or (slash and not kind):
        raise InvalidRequestError(
            f"{what!r}: must be NAME, node/NAME, hypervisor/NAME, eviction/NAME, migration/NAME or "
            "vmi/NAME"
        )
    async with api_command.client(kubeconfig) as kube:
        found = await _found(kube, _KINDS.get(kind.lower(), ""), name)
        if not found:
            raise InvalidRequestError(await _missing(kube, kind, name))
    if output == "json":
        print_json(found)
    else:
        print(_text(found))
    return 0


async def _found(kube: Kube, kind: str, name: str) -> list[Explanation]:
    if kind == "migration":
        return await _migration(kube, name)
    if kind == "vmi":
        return await explained(kube, name)
    found: list[Explanation] = []
    host = await kube.get(Hypervisor, name)
    eviction = await kube.get(Eviction, name) if kind != "hypervisor" else None
    reporters = await _reporters(kube, name) if host is not None else Reporters()
    if kind != "eviction" and host is not None:
        found.append(hypervisors.explain(hypervisors.ExplainedHypervisor(host, _now(), reporters)))
        found += [
            evictions.explain(evictions.ExplainedEviction(other, host, _now(), reporters))
            for other in await _recoveries(kube, host)
        ]
    if eviction is not None:
        of, theirs = eviction.spec.hypervisor, host
        if of != name or host is None:
            theirs, reporters = await kube.get(Hypervisor, of), await _reporters(kube, of)
        found.append(
            evictions.explain(evictions.ExplainedEviction(eviction, theirs, _now(), reporters))
        )
    return found


async def _recoveries(kube: Kube, host: Hypervisor) -> list[Eviction]:
    """The Evictions of a host that are not named after it: those that run or have failed."""
    listed, name = await _readable(kube.list(Eviction)), host.metadata.name
    others = [
        one
        for one in (listed.items if listed else ())
        if one.spec.hypervisor == name != one.metadata.name
    ]
    held = host.spec.maintenance == Maintenance.HA
    return [
        one
        for one in others
        if not has_ended(one.status) or (held and is_recovery(one) and not succeeded(one))
    ]


def _text(found: Sequence[Explanation]) -> str:
    """Join the explanations; the reporters of a host appear once, at the end."""
    shown = [
        replace(one, seen=()) if after is not None and after.seen == one.seen else one
        for one, after in zip_longest(found, found[1:])
    ]
    return "\n\n".join("\n".join(one.lines) for one in shown)


async def _migration(kube: Kube, name: str) -> list[Explanation]:
    """The one of that name, else the newest of the server of that UUID."""
    namespace, slash, bare = name.rpartition("/")
    where = namespace if slash else None
    named = await kube.list(Migration, where, fields=f"metadata.name={bare}")
    items = named.items
    if not items:
        items = (await kube.list(Migration, where, labels=f"{SERVER}={label_value(bare)}")).items
    if not items:
        return []
    newest = max(items, key=lambda one: one.status.started or _NEVER)
    origin = newest.status.origin or ""
    listed = await _readable(kube.list(Eviction))
    reporters = await _reporters(kube, origin) if origin else Reporters()
    all_of = tuple(listed.items) if listed else ()
    return [migrations.explain(migrations.ExplainedMigration(newest, _now(), all_of, reporters))]


async def _reporters(kube: Kube, node: str) -> Reporters:
    """The Leases and the Node that show which components are alive, if the person may read them."""
    agent, kubelet, operator, found = await asyncio.gather(
        _readable(_newest(kube, f"node-agent-{node}")),
        _readable(kube.get(Lease, node, KUBELET_NAMESPACE)),
        _readable(_election(kube, node)),
        _readable(kube.get(Node, node)),
    )
    denied = (("Lease", agent), ("Node", found))
    return Reporters(
        agent=agent or None,
        kubelet=kubelet or None,
        operator=operator or None,
        node=found or None,
        unreadable=tuple(kind for kind, one in denied if one is False),
    )


async def _newest(kube: Kube, name: str) -> Lease | None:
    """The Lease of that name, in whatever namespace, that was renewed last."""
    return _last((await kube.list(Lease, fields=f"metadata.name={name}")).items)


async def _election(kube: Kube, node: str) -> Lease | None:
    """The Lease of the operator whose shard has a host; of several the one renewed last."""
    labelled = (await kube.list(Lease, labels=f"{COMPONENT_LABEL}={COMPONENT}")).items
    chosen = [await _has_host(kube, selector_of(one), node) for one in labelled]
    found = [one for one, is_chosen in zip(labelled, chosen, strict=True) if is_chosen]
    return _last(found) or await _newest(kube, LEASE)  # an earlier version puts no label on it


async def _has_host(kube: Kube, selector: str | None, node: str) -> bool:
    if not selector:
        return selector is not None
    try:
        listed = await kube.list(Hypervisor, labels=selector, fields=f"metadata.name={node}")
    except TerminalApiError:  # the selector on the Lease is invalid
        return False
    return bool(listed.items)


def _last(leases: Iterable[Lease]) -> Lease | None:
    return max(leases, key=lambda one: one.spec.renewTime or _NEVER, default=None)


async def _readable(reading: Coroutine[object, object, T]) -> T | Literal[False]:
    """The object that was read; False without the right to read it."""
    try:
        return await reading
    except ForbiddenError:
        return False


async def _missing(kube: Kube, kind: str, name: str) -> str:
    """List the existing objects, for a message about one that does not exist."""
    wanted = _TYPES[_KINDS.get(kind.lower(), "hypervisor")]
    try:
        known = [one.metadata.name for one in (await kube.list(wanted)).items]
    except NotFoundError:
        return f"this API serves no {wanted.resource.plural}; check --kubeconfig"
    there_are = api_command.there_are(known)
    if kind:
        return f"there is no {wanted.resource.kind} {name}; {there_are}"
    return f"there is no Hypervisor or Eviction {name}; of Hypervisors {there_are}"


def _now() -> datetime:
    return datetime.now(UTC)
