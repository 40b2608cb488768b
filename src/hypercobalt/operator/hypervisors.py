"""Hypervisors as the operator's controllers see and write them.

A controller's part of the status is applied under the controller's own field manager: conditions
are merged by type on the server, so controllers never conflict with each other, with the node agent
or with other services.

The answer to a write is known before the watch tells of it. Until the cache has caught up, what was
written is what everybody sees: nobody decides on a state that this process knows to be old, so
nothing is written twice.

Source: Kubernetes API concepts, "Server-Side Apply" and resource versions (comparable as numbers).
"""

from __future__ import annotations

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.runtime import Informer, Kube, NotFoundError


class Hypervisors:
    """The newest known state of every Hypervisor; one for a process.

    Args:
        informer: of Hypervisors; its cache is what there is, but for what was just written.
    """

    def __init__(self, informer: Informer[Hypervisor]) -> None:
        self._cache = informer.cache
        self._written: dict[str, Hypervisor] = {}
        informer.add_handler(self)

    def get(self, name: str) -> Hypervisor | None:
        """The newest known state, None if there is no such object."""
        return self._written.get(name) or self._cache.get(name)

    def wrote(self, obj: Hypervisor) -> None:
        """Take in what the server answered to a write."""
        cached, newest = self._cache.get(obj.metadata.name), self.get(obj.metadata.name)
        if cached is not None and _version(obj) <= _version(cached):
            return
        if newest is None or _version(obj) > _version(newest):
            self._written[obj.metadata.name] = obj

    async def apply_status(
        self, kube: Kube, stored: Hypervisor, part: HypervisorStatus
    ) -> Hypervisor:
        """Make `part` the part of the status that `kube`'s field manager owns, if it is not.

        Args:
            kube: writes as the controller; see `Kube.as_manager`.
            stored: the newest known state.
            part: every field and condition that is the controller's, and no others.

        Returns:
            The object as it is then.
        """
        if holds(stored.status, part):
            return stored
        mine = Hypervisor(metadata=ObjectMeta(name=stored.metadata.name), status=part)
        try:
            result = await kube.apply(mine, force=True, subresource="status")
        except NotFoundError:
            self._written.pop(stored.metadata.name, None)
            raise
        self.wrote(result)
        return result

    def on_add(self, obj: Hypervisor) -> None:
        self._seen(obj)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        self._seen(new)

    def on_delete(self, obj: Hypervisor) -> None:
        self._written.pop(obj.metadata.name, None)

    def _seen(self, obj: Hypervisor) -> None:
        written = self._written.get(obj.metadata.name)
        if written is not None and _version(obj) >= _version(written):
            del self._written[obj.metadata.name]


def holds(stored: HypervisorStatus, part: HypervisorStatus) -> bool:
    """Whether the status has the given address and every one of the given conditions."""
    address_held = part.internalIp is None or part.internalIp == stored.internalIp
    return address_held and all(condition in stored.conditions for condition in part.conditions)


def _version(obj: Hypervisor) -> int:
    version = obj.metadata.resourceVersion
    return int(version) if version.isascii() and version.isdigit() else 0
