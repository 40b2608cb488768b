"""The process that runs the pods of one host: a kubelet's identity, its watch and its reports."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.transient import SystemdTransientUnits
from hypercobalt.adapters.network.addressing import PodRange
from hypercobalt.adapters.network.pod_networks import KernelPodNetworks
from hypercobalt.api.workloads import Pod
from hypercobalt.kubeconfig import Identity, Pem
from hypercobalt.lab.heartbeat import CA, CERTIFICATE, KEY
from hypercobalt.lab.pods.running.account import check_account
from hypercobalt.lab.pods.running.directories import PodDirectories
from hypercobalt.lab.pods.running.host import PodHost
from hypercobalt.lab.pods.running.reconciler import BY_UID, MANAGER, NAME, PodReconciler
from hypercobalt.lab.pods.running.settings import RunningSettings
from hypercobalt.runtime import Connection, Controller, Kube, Manager, Metrics, Source, mapped
from hypercobalt.runtime.write_cache import WriteCache

REPORTER: Final = "kubelet"
"""Reporter of the Events."""


def connection(settings: RunningSettings) -> Connection:
    """The API server, for the user `system:node:NAME`."""
    folder = Path(settings.credentials)
    certificate, key = Pem(path=folder / CERTIFICATE), Pem(path=folder / KEY)
    user = Identity(certificate=certificate, key=key)
    return Connection(settings.server, authority=Pem(path=folder / CA), user=user)


def uids(pod: Pod) -> tuple[str, ...]:
    """The key of a pod: its UID, for one of the same name is another pod."""
    return (pod.metadata.uid,)


def add_pods(manager: Manager, host: PodHost, changes: Source, settings: RunningSettings) -> None:
    """Put the pods of a host under a manager.

    Args:
        manager: runs it.
        host: what there is of them here.
        changes: of that.
        settings: of the host.
    """
    mine = f"spec.nodeName={settings.node}"
    pods = manager.informer(Pod, fields=mine, indexes={BY_UID: uids})
    kube = manager.kube.as_manager(MANAGER)
    written = WriteCache(pods)
    events = manager.recorder(REPORTER)
    reconciler = PodReconciler(
        kube,
        pods.cache,
        written,
        host,
        address=settings.address,
        events=events,
        clock=manager.clock,
    )
    manager.add_service("units", host.follow)
    manager.add(Controller(NAME, reconciler, watches=(mapped(pods, uids), changes.watch)))


async def run(settings: RunningSettings) -> None:
    """Run pods until the process has to stop; the pods go on.

    Raises:
        ConfigurationError: the host has an account with the launchers' user ID, or the credentials
            cannot be used.
    """
    check_account()
    metrics = Metrics()
    async with Kube(connection(settings), field_manager=MANAGER, metrics=metrics) as kube:
        manager = Manager(kube, metrics=metrics)
        changes = Source()
        directories = PodDirectories(Path(settings.kubelet), Path(settings.images))
        units, networks = (
            SystemdTransientUnits(),
            KernelPodNetworks(PodRange(IPv4Network(settings.network))),
        )
        host = PodHost(units, networks, directories, settings, changes.enqueue)
        add_pods(manager, host, changes, settings)
        await manager.run()
