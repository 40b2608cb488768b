"""The control plane of a lab: the embedded API server, and the hosts' Nodes.

A Node is what a kubelet would register; the operator makes a Hypervisor of it.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from hypercobalt import pki
from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import Object, ObjectMeta, owner_reference
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.apiserver.access import kubeconfig
from hypercobalt.errors import TransientError
from hypercobalt.lab import heartbeat, processes, rights
from hypercobalt.lab.bmc import boards
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.state import LabState, Layout
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    ZONE_LABEL,
)
from hypercobalt.runtime import Kube, load_connection

T = TypeVar("T", bound=Object)

ROLE: Final = "apiserver"
TOKENS: Final = "tokens"
ZONES: Final = ("lab-a", "lab-b")
"""Availability zones of the hosts, which take turns."""
_START = timedelta(seconds=60)  # under a second on an idle machine
_RETRY_SECONDS = 0.05


def node_labels(name: str, index: int, *, tested: bool = True) -> dict[str, str]:
    """The labels of a Node of the lab: hosts alternate in zone and kind of fence device.

    Args:
        name: of the host.
        index: its number.
        tested: whether its onboarding has a smoke test.
    """
    return {
        HYPERVISOR_LABEL: "libvirt",
        LIFECYCLE_LABEL: "true" if tested else "skip-tests",
        "kubernetes.io/arch": heartbeat.architecture(),
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": "linux",
        "kubernetes.metal.cloud.sap/bb": "lab",
        "kubernetes.metal.cloud.sap/name": name,
        **boards.labels(index),
        "topology.kubernetes.io/region": "lab",
        ZONE_LABEL: ZONES[(index - 1) % len(ZONES)],
        "worker.garden.sapcloud.io/group": "lab",
    }


def lease(node: Node) -> Lease:
    """The Lease that a Node's heartbeat renews; it goes with the Node."""
    name = node.metadata.name
    owner = owner_reference(node)
    meta = ObjectMeta(name=name, namespace=heartbeat.LEASE_NAMESPACE, ownerReferences=(owner,))
    return Lease(metadata=meta, spec=LeaseSpec(holderIdentity=name))


async def becomes(kube: Kube, kind: type[T], name: str, good: Callable[[T], object]) -> None:
    """Wait until an object is as wanted, through watches that break: a busy machine answers late.

    Requests, one after the other, would take as much CPU as what is waited for.
    """
    while True:
        with suppress(TransientError):
            async with kube.watch(kind, fields=f"metadata.name={name}") as events:
                async for event in events:
                    if event.object is not None and good(event.object):
                        return
        await asyncio.sleep(_RETRY_SECONDS)


def is_ready(node: Node) -> bool:
    """Whether the heartbeat has reported, and has not been silent for long."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


class ControlPlane:
    """The API server of a lab, and its clients' credentials."""

    def __init__(self, layout: Layout, state: LabState, oldest: processes.Oldest) -> None:
        self._layout, self._state, self._oldest = layout, state, oldest

    @property
    def url(self) -> str:
        return f"https://{self._state.address}:{self._state.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._layout.kubeconfig

    @property
    def is_running(self) -> bool:
        return self._oldest.find(ROLE) is not None

    def client(self) -> Kube:
        """A client with an administrator's rights; close it after use.

        Raises:
            ConfigurationError: the server has never run.
        """
        return Kube(load_connection(self.kubeconfig), field_manager="cobalt-lab")

    async def start(self) -> None:
        """Start the server where it does not run, and give the lab's processes their rights.

        Raises:
            LabError: it ends, or does not answer in time.
            HypercobaltError: it refuses.
        """
        await self._start_server()
        async with self.client() as kube:
            await rights.install(kube, "nova" if self._state.openstack else "direct")
        if not self._oldest.find(TOKENS):
            await processes.spawn(
                (sys.executable, "-m", "hypercobalt.lab.tokens", str(self._layout.data)),
                lab_id=self._state.id,
                role=TOKENS,
                log=self._layout.log / "tokens.log",
            )

    async def _start_server(self) -> None:
        log = self._layout.log / "apiserver.log"
        if not self.is_running:
            self._layout.api.mkdir(parents=True, exist_ok=True, mode=0o700)
            options = (
                f"--address={self._state.address}",
                f"--port={self._state.api_port}",
                f"--node-monitor-grace-period={self._state.node_grace}s",
                *(("--virt", "--use-emulation") if self._state.virt else ()),
            )
            await processes.spawn(
                (str(cobalt_command()), "apiserver", "--data", str(self._layout.api), *options),
                lab_id=self._state.id,
                role=ROLE,
                log=log,
            )
        try:
            async with asyncio.timeout(_START.total_seconds()):
                while not await self._answers():
                    if not self.is_running:
                        raise LabError(f"the API server ended: {processes.tail(log)}")
                    await asyncio.sleep(_RETRY_SECONDS)
        except TimeoutError:
            raise LabError(
                f"the API server does not answer on {self.url}: {processes.tail(log)}"
            ) from None

    async def _answers(self) -> bool:
        # It listens before it serves: only a TLS answer shows that its files are written.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            address, port = self._state.address, self._state.api_port
            _, writer = await asyncio.open_connection(address, port, ssl=context)
        except OSError:
            return False
        writer.transport.abort()
        return True

    @property
    def authority(self) -> pki.Pair:
        """The CA that signs the certificates of the server and its clients.

        Raises:
            LabError: the server has never run.
        """
        try:
            return pki.load(self._layout.api / "pki", "ca")
        except FileNotFoundError as error:
            text = f"the API server of {self._layout.data} has no certificates yet"
            raise LabError(text) from error

    def kubeconfig_with(self, token_file: str, namespace: str = "default") -> bytes:
        """A kubeconfig for a process with a token.

        Args:
            token_file: where its token is, from the kubeconfig's own folder.
            namespace: of the process.

        Raises:
            LabError: the server has never run.
        """
        authority = self.authority.certificate
        return kubeconfig.render_token(self.url, authority, token_file, namespace)

    def node_certificate(self, name: str) -> pki.Pair:
        """A client certificate for user `system:node:NAME`, as a kubelet's.

        Raises:
            LabError: the server has never run.
        """
        return self.user_certificate(rights.node_user(name), "system:nodes")

    def user_certificate(self, user: str, *groups: str) -> pki.Pair:
        """A client certificate for a user.

        Raises:
            LabError: the server has never run.
        """
        from hypercobalt.pki.certificates import (  # noqa: PLC0415 - slow, seldom needed
            make_client,
        )

        return make_client(self.authority, user, groups)

    async def register(self, name: str, index: int) -> None:
        """Create the Node of a host, with the Lease that its heartbeat renews.

        Raises:
            HypercobaltError: the server refuses.
        """
        in_nova = bool(self._state.openstack)
        labels = node_labels(name, index, tested=not in_nova)
        # Present: the host is in its zone's aggregate, and in those that are named here.
        annotations = {AGGREGATES_ANNOTATION: ""} if in_nova else {}
        meta = ObjectMeta(name=name, labels=labels, annotations=annotations)
        async with self.client() as kube:
            node = await kube.apply(Node(metadata=meta), force=True)
            for obj in (lease(node), *rights.of_heartbeat(node)):
                await kube.apply(obj, force=True)

    async def wait_for_node(self, name: str) -> None:
        """Wait until the heartbeat of a registered host has reported its Node ready.

        Raises:
            LabError: it has not in time.
            HypercobaltError: the server refuses.
        """
        try:
            async with asyncio.timeout(_START.total_seconds()), self.client() as kube:
                await becomes(kube, Node, name, is_ready)
        except TimeoutError:
            raise LabError(
                f"the heartbeat of host {name} does not report to {self.url}; "
                f"see `cobalt lab exec {name} journalctl -u hypercobalt-heartbeat`"
            ) from None

    async def unregister(self, name: str) -> None:
        """Delete the objects of a host: Hypervisor, OVSNode, Node, and what they own.

        Raises:
            HypercobaltError: the server refuses.
        """
        async with self.client() as kube:
            await kube.delete(Hypervisor, name)
            await kube.delete(OVSNode, name, rights.OVS_NAMESPACE)
            await kube.delete(Node, name)
