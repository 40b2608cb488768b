"""Assembles the fence devices of a site, and the controller that checks their owners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypercobalt.adapters.fencing.devices import DeviceTemplate
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.ha.devices.check import (
    NAME,
    FenceDevicesReconciler,
    host_changed,
    node_changed,
)
from hypercobalt.operator.ha.devices.template_fences import BY_DEVICE, Open, TemplateFences
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.runtime import Controller, Manager, mapped, primary

WORKERS = 8
"""Passes at once: each waits for a device, a few seconds at most."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The Hypervisors that the controllers share."""

    shared: Shared

    def get(self, name: str) -> Hypervisor | None:
        return self.shared.hypervisors.get(name)

    def at(self, connection: str) -> Iterable[Hypervisor]:
        return self.shared.informer.cache.find(BY_DEVICE, connection)

    def all(self) -> Iterable[Hypervisor]:
        return self.shared.hypervisors.all()


def add_fence_devices(
    manager: Manager,
    shared: Shared,
    templates: tuple[DeviceTemplate, ...],
    namespace: str,
    open_: Open,
    *,
    checked: bool,
) -> TemplateFences:
    """Add the controller, and return the devices.

    Args:
        manager: runs it.
        shared: with the other controllers; its informer has the index `BY_DEVICE`.
        templates: of the site.
        namespace: of the Secrets.
        open_: makes the client of a device.
        checked: the owner of each device is read; else the devices are not used.
    """
    fences = TemplateFences(templates, manager.kube, namespace, open_, _Known(shared))
    if checked and templates:
        reconciler = FenceDevicesReconciler(
            fences,
            shared.nodes.cache,
            shared.hypervisors,
            shared.statuses,
            clock=manager.clock,
            events=shared.events,
        )
        watches = (
            primary(shared.nodes, when=node_changed),
            mapped(shared.informer, fences.sharers, when=host_changed),
        )
        manager.add(Controller(NAME, reconciler, watches=watches, concurrency=WORKERS))
    return fences
