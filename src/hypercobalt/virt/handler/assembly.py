"""Puts virt-handler's controllers and its server under a manager."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.agent.diagnostics.pinned_server import PinnedServer
from hypercobalt.agent.diagnostics.record import Records
from hypercobalt.api.core import Node
from hypercobalt.api.diagnostics import DiagnosticsEndpoint, audience
from hypercobalt.api.kubevirt.console import HANDLER
from hypercobalt.api.kubevirt.names import NODE_NAME
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Controller, Informer, Manager, Source, owned, primary
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.leader import process_identity
from hypercobalt.runtime.resource_guard import ResourceGuard
from hypercobalt.runtime.write_cache import Latest, WriteCache
from hypercobalt.virt.handler import node as labelling
from hypercobalt.virt.handler.act import HandlerActions
from hypercobalt.virt.handler.consoles import Consoles
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.links import Launchers
from hypercobalt.virt.handler.observe import (
    BY_KEY,
    BY_VMI,
    HandlerObserver,
    key_of_vmi,
    uid_of_vmi,
)
from hypercobalt.virt.handler.reconciler import NAME, HandlerReconciler
from hypercobalt.virt.handler.settings import VirtHandlerSettings
from hypercobalt.virt.handler.taps import PodTaps
from hypercobalt.vmi.accounts import Account

REPORTER: Final = "kubevirt.io/virt-handler"
"""Reporter of the Events."""


Concern = Callable[[], Coroutine[None, None, None]]


def guests(
    manager: Manager, node: str, places: LauncherPlaces, taps: PodTaps, *, emulation: bool
) -> Concern:
    """What follows the guests of a node until it is cancelled.

    Args:
        manager: runs the informers.
        node: of the handler.
        places: where launchers are.
        taps: makes the guests' networks.
        emulation: guests run without KVM.
    """
    vmis = manager.informer(VirtualMachineInstance, labels=f"{NODE_NAME}={node}")
    # All pods of the node: whoever may write pods can take off a label.
    pods = manager.informer(
        Pod, fields=f"spec.nodeName={node}", indexes={BY_VMI: uid_of_vmi, BY_KEY: key_of_vmi}
    )
    kube, source, known = manager.kube, Source(), WriteCache(vmis)
    launchers = Launchers(places, source.enqueue, manager.clock)
    observer = HandlerObserver(node, pods.cache, launchers, manager.clock)
    events = manager.recorder(REPORTER)
    actions = HandlerActions(kube, launchers, taps, events, emulation=emulation)
    reconciler = HandlerReconciler(kube, known, launchers, observer, actions)
    watches = (primary(vmis), owned(pods, VirtualMachineInstance), source.watch)
    controller = Controller(NAME, reconciler, watches=watches)

    async def run() -> None:
        try:
            await controller.run(asyncio.Event(), metrics=manager.metrics, clock=manager.clock)
        finally:
            await launchers.close()

    return run


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """What keeps labels and annotation of the node.

    Args:
        run: until it is cancelled.
        publish: is given where people reach the handler.
    """

    run: Concern
    publish: Callable[[DiagnosticsEndpoint], None]


def labels(
    manager: Manager,
    informer: Informer[Node],
    own: Latest[Node],
    capabilities: Path | None,
    *,
    emulation: bool,
) -> NodeLabels:
    """What keeps the labels of the node, and the address of the handler at it.

    Args:
        manager: gives the client.
        informer: of the node.
        own: the same node.
        capabilities: directory of libvirt's capability cache; None: not looked at.
        emulation: guests run without KVM.
    """
    reconciler = labelling.NodeReconciler(manager.kube, own, capabilities, emulation=emulation)
    source = Source()
    watches = (primary(informer), source.watch)
    controller = Controller(labelling.NAME, reconciler, watches=watches, concurrency=1)

    async def run() -> None:
        try:
            await controller.run(asyncio.Event(), metrics=manager.metrics, clock=manager.clock)
        finally:
            await reconciler.leave()

    def publish(endpoint: DiagnosticsEndpoint) -> None:
        reconciler.endpoint = endpoint
        if (node := own.value) is not None:  # else its first pass publishes
            source.enqueue(node.metadata.name)

    return NodeLabels(run, publish)


def consoles(
    manager: Manager,
    settings: VirtHandlerSettings,
    places: LauncherPlaces,
    publish: Callable[[DiagnosticsEndpoint], None],
) -> Concern | None:
    """What serves consoles until it is cancelled; None if the settings have it off.

    Args:
        manager: gives the client.
        settings: of the handler.
        places: where launchers are.
        publish: is given where it is served.
    """
    if settings.diagnostics is None:
        return None
    forwarder = f"system:serviceaccount:{settings.namespace}:{Account.API}"
    guard = ResourceGuard(manager.kube, audience(HANDLER, settings.node), forwarder)
    clock, metrics = manager.clock, manager.metrics
    # Sessions are stored at once: this recorder is never run.
    events = Recorder(manager.kube, REPORTER, process_identity(), clock=clock, metrics=metrics)
    served = Consoles(manager.kube, settings.node, places, guard, Records(events))
    server = PinnedServer(
        manager,
        settings,
        settings.diagnostics,
        routes=[served.route],
        admits=served.admits,
        publish=publish,
    )
    return server.run
