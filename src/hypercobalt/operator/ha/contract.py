"""The existing HA service's contract: other controllers switch high availability on and off.

`POST /api/hypervisors/HOST` with `{"enabled": true|false}`, where HOST is the hostname label. The
request is kept as an annotation of the Hypervisor, where the rules and a person find it. Every
process of the operator serves this, the leader or not: nothing else writes the annotation, and
writing it twice has the effect of writing it once.

Source: openstack-hypervisor-operator before commit a9e7332, internal/controller/utils.go,
updateInstanceHA; docs/decisions/0035-ha-switched-by-others.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from hypercobalt.api.address import Address
from hypercobalt.api.ha_switch import HA_ENABLED
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.shared.hypervisors import BY_HOST, short_name
from hypercobalt.operator.shared.node_facts import HOSTNAME_LABEL
from hypercobalt.runtime import (
    Informer,
    Kube,
    Manager,
    NotFoundError,
)
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.routes import Answer, Request, Route, text

log = get_logger(__name__)

PATH: Final = "/api/hypervisors/"
MANAGER: Final = "ha-service"
"""Field manager of the annotation."""
AUDIENCE: Final = "hypercobalt-ha-service"
"""Audience of the callers' tokens: whoever answers in the place of this page learns them."""

_MOST: Final = 1024
_NOT_JSON: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_SECONDS: Final = 20.0  # callers wait for 30 s


class HaSwitch(msgspec.Struct, frozen=True):
    """Body of a request; other fields count as none."""

    enabled: bool


class Contract:
    """Serves the contract.

    Args:
        kube: writes the annotation; not guarded by leadership.
        hypervisors: of the shard, with the index `BY_HOST`.
    """

    def __init__(self, kube: Kube, hypervisors: Informer[Hypervisor]) -> None:
        self._kube, self._hypervisors = kube.as_manager(MANAGER), hypervisors

    @property
    def route(self) -> Route:
        """Return the route of the page."""
        return Route(PATH, self._switch, method="POST", most=_MOST, seconds=_SECONDS)

    async def _switch(self, request: Request) -> Answer:
        host = request.path.removeprefix(PATH)
        try:
            wish = msgspec.json.decode(request.body, type=HaSwitch)
        except _NOT_JSON as error:
            return text(400, f'the body must be {{"enabled": true}} or false: {error}')
        if not self._hypervisors.has_synced:
            return text(503, "the Hypervisors are not read yet; try again")
        try:
            written = [
                await self._write(name, enabled=wish.enabled)
                for name in named(host, self._hypervisors.cache.find(BY_HOST, short_name(host)))
            ]
        except HypercobaltError as error:
            log.warning("ha_switch_refused", host=host, error=str(error))
            return text(503, f"the annotation of {host} is not written: {error}")
        if not any(written):
            return text(404, f"no Hypervisor has the label {HOSTNAME_LABEL}={host}")
        return Answer(200, b"{}\n", "application/json")

    async def _write(self, name: str, *, enabled: bool) -> bool:
        """Write the annotation, and return whether there is such a Hypervisor."""
        note = {HA_ENABLED: "true" if enabled else "false"}
        log.info("ha_switched", hypervisor=name, enabled=enabled)
        try:
            await self._kube.merge_patch(Hypervisor, name, {"metadata": {"annotations": note}})
        except NotFoundError:
            return False
        return True


def named(host: str, hypervisors: Iterable[Hypervisor]) -> tuple[str, ...]:
    """Return names of the Hypervisors with that hostname label.

    There are several where two Nodes claim one host: all are switched, as only one of them has it.
    """
    metas = (hypervisor.metadata for hypervisor in hypervisors)
    return tuple(meta.name for meta in metas if meta.labels.get(HOSTNAME_LABEL) == host)


def add_contract(
    manager: Manager,
    kube: Kube,
    hypervisors: Informer[Hypervisor],
    address: Address,
    guard: Guard | None,
) -> None:
    """Serve the contract for as long as the manager runs.

    Args:
        manager: runs it.
        kube: see `Contract`.
        hypervisors: see `Contract`.
        address: where it is served.
        guard: who may post; None accepts every client, without TLS.
    """
    pages = Endpoints(address, routes=(Contract(kube, hypervisors).route,), guard=guard)

    async def run(stop: asyncio.Event) -> None:
        await pages.start()
        try:
            await stop.wait()
        finally:
            await pages.stop()

    manager.add_service("ha-contract", run)
