"""The control plane of a lab: the embedded API server, and the hosts' Nodes.

A Node is what a kubelet would register; the operator makes a Hypervisor of it.
"""

from __future__ import annotations

import asyncio
import base64
import platform
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.api.core import Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.access import kubeconfig, pki
from hypercobalt.lab import processes
from hypercobalt.lab.disk import Identity
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.state import Layout, State
from hypercobalt.runtime import Kube, load_connection

ROLE: Final = "apiserver"
_START = timedelta(seconds=60)  # under a second on an idle machine
_RETRY_SECONDS = 0.05

HYPERVISOR_LABEL: Final = "nova.openstack.cloud.sap/virt-driver"
"""A Node that has it is a hypervisor."""
LIFECYCLE_LABEL: Final = "cobaltcore.cloud.sap/node-hypervisor-lifecycle"
"""The operator takes the host into service."""


def node_labels(name: str, index: int) -> dict[str, str]:
    """What a Node of the lab carries: hosts take turns in two zones."""
    return {
        HYPERVISOR_LABEL: "libvirt",
        LIFECYCLE_LABEL: "true",
        "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), ""),
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.metal.cloud.sap/bb": "lab",
        "kubernetes.metal.cloud.sap/name": name,
        "topology.kubernetes.io/region": "lab",
        "topology.kubernetes.io/zone": f"lab-{'ab'[(index - 1) % 2]}",
        "worker.garden.sapcloud.io/group": "lab",
    }


def node(identity: Identity, index: int, now: datetime) -> Node:
    """The Node of a host, as its kubelet would report it."""
    ready = NodeCondition(
        type="Ready",
        status="True",
        reason="RegisteredByLab",
        message="cobalt lab has booted this host; it runs no kubelet",
        lastHeartbeatTime=now,
        lastTransitionTime=now,
    )
    status = NodeStatus(
        addresses=(
            NodeAddress(type="Hostname", address=identity.name),
            NodeAddress(type="InternalIP", address=identity.address),
        ),
        conditions=(ready,),
        nodeInfo=NodeSystemInfo(
            machineID=identity.machine_id,
            systemUUID=str(identity.uuid),
            kernelVersion=platform.release(),
            architecture=node_labels(identity.name, index)["kubernetes.io/arch"],
        ),
    )
    meta = ObjectMeta(name=identity.name, labels=node_labels(identity.name, index))
    return Node(metadata=meta, status=status)


class ControlPlane:
    """The API server of a lab, and who may talk to it."""

    def __init__(self, layout: Layout, state: State) -> None:
        self._layout = layout
        self._state = state

    @property
    def url(self) -> str:
        return f"https://{self._state.address}:{self._state.api_port}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self._layout.kubeconfig

    @property
    def is_running(self) -> bool:
        return bool(processes.find(self._state.id, ROLE))

    def client(self) -> Kube:
        """A client with an administrator's rights; close it after use.

        Raises:
            ConfigurationError: the server has never run.
        """
        return Kube(load_connection(self.kubeconfig), field_manager="cobalt-lab")

    async def start(self) -> None:
        """Start the server where it does not run, and wait until it answers.

        Raises:
            LabError: it ends, or does not answer in time.
        """
        log = self._layout.log / "apiserver.log"
        if not self.is_running:
            self._layout.api.mkdir(parents=True, exist_ok=True, mode=0o700)
            command = str(Path(sys.executable).parent / "cobalt")
            place = ("--address", self._state.address, "--port", str(self._state.api_port))
            await processes.spawn(
                (command, "apiserver", "--data", str(self._layout.api), *place),
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
        # It listens before it serves: only a TLS answer says that its files are written.
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

    def leads_here(self, kubeconfig: bytes) -> bool:
        """Whether a kubeconfig of `node_kubeconfig` is for this server as it is now.

        Raises:
            LabError: the server has never run.
        """
        authority = base64.b64encode(self._authority().certificate)
        return self.url.encode() in kubeconfig and authority in kubeconfig

    def _authority(self) -> pki.Pair:
        try:
            return pki.load(self._layout.api / "pki", "ca")
        except FileNotFoundError as error:
            text = f"the API server of {self._layout.data} has no certificates yet"
            raise LabError(text) from error

    def node_kubeconfig(self, name: str) -> bytes:
        """A kubeconfig for the processes of one host: user `system:node:NAME`, as a kubelet's.

        Raises:
            LabError: the server has never run.
        """
        authority = self._authority()
        from hypercobalt.apiserver.access.certificates import (  # noqa: PLC0415 - slow, seldom needed
            make_client,
        )

        client = make_client(authority, f"system:node:{name}", ("system:nodes",))
        return kubeconfig.render(self.url, authority.certificate, client)

    async def register(self, identity: Identity, index: int) -> None:
        """Create the Node of a host, or say of it what holds now.

        Raises:
            HypercobaltError: the server refuses.
        """
        async with self.client() as kube:
            wanted = node(identity, index, datetime.now(UTC))
            await kube.apply(Node(metadata=wanted.metadata), force=True)
            await kube.apply(
                Node(metadata=ObjectMeta(name=identity.name), status=wanted.status),
                force=True,
                subresource="status",
            )

    async def unregister(self, name: str) -> None:
        """Delete the Node of a host; its Hypervisor goes with it.

        Raises:
            HypercobaltError: the server refuses.
        """
        async with self.client() as kube:
            await kube.delete(Hypervisor, name)
            await kube.delete(Node, name)
