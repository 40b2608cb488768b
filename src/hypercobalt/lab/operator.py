"""The Hypervisor Operator of a lab: it makes Hypervisors of Nodes, onboards them and empties them.

It runs as any site would run it, with OpenStack where the lab has one. Only root reaches the hosts,
so it is root's.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt import pki
from hypercobalt.api.core import Secret
from hypercobalt.api.hypervisor import CPU, Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab import agents, processes, rights, tokens
from hypercobalt.lab.bmc.boards import Boards
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.control import ControlPlane, becomes
from hypercobalt.lab.disk import CONSOLES, LOCAL
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import GUESTS, SHARED
from hypercobalt.lab.ovn import Central
from hypercobalt.lab.state import LabState, Layout
from hypercobalt.runtime import Kube

ROLE: Final = "operator"
DEFINITIONS_SECRET: Final = "hypercobalt-operator-definitions-key"  # noqa: S105 - the chart's name
"""Name of the Secret with the key that the agents seal definitions for, in `rights.NAMESPACE`."""
_LIBVIRT: Final = "qemu+tcp://{ip}/system"
_START: Final = timedelta(seconds=60)  # two seconds on an idle machine
_LOOK_SECONDS: Final = 1.0
"""Between two looks whether the operator still runs."""

# The lab stands for a site in service, whose hosts have more cores: a shutdown waits until the host
# is empty, and guests that sleep share the machine's few cores.
_SPEC: Final = HypervisorSpec(evacuateOnReboot=True, overcommit={CPU: 64.0})


CLOUD: Final = "admin"
"""Account of the operator in the lab's clouds.yaml."""
_NOVA: Final = (
    "--compute=nova",
    "--evacuate-local-disks",  # they are in `SHARED`, where every host sees them
    "--test-aggregate=",  # hosts are onboarded without a smoke test
)

# In a lab whose Nodes are soon Unknown, the other waits are short as well.
_QUICK: Final = (
    "--ha-timeout=5s",
    "--ha-reboot-grace=30s",
    "--ha-peer-timeout=5s",
    "--ha-healthy-delay=5s",
    "--ha-cool-down=10s",
)
# A host counts as living while its agent's Lease lasts, and for one call to its libvirtd more, of
# up to 10 s: a dead host must not count as living.
_LIVE: Final = "--ha-live-timeout=45s"
_LIVE_BY_SHORT_LEASE: Final = "--ha-live-timeout=30s"


class Operator:
    """The operator's process."""

    def __init__(
        self, layout: Layout, state: LabState, oldest: processes.Oldest, control: ControlPlane
    ) -> None:
        self._layout, self._state, self._control = layout, state, control
        self._oldest = oldest

    @property
    def is_running(self) -> bool:
        return self._oldest.find(ROLE) is not None

    async def start(self) -> None:
        """Start it where it does not run.

        Raises:
            LabError: it ends at once.
            HypercobaltError: the API server gives no token.
        """
        layout = self._layout
        pki.write_secret(
            layout.operator_kubeconfig, self._control.kubeconfig_with(layout.operator_token.name)
        )
        async with self._control.client() as kube:
            await tokens.give_operator(kube, layout)
            await self._prepare_fencing(kube)
        if not self.is_running:
            await processes.spawn(
                self._command(),
                lab_id=self._state.id,
                role=ROLE,
                log=self._layout.log / "operator.log",
                env=os.environ | self._account,
            )

    async def bind(self) -> None:
        """Give it the fence devices of hosts that were added: it reads the document once.

        Raises:
            LabError: it does not end, or ends at once after its start.
            HypercobaltError: the API server refuses.
        """
        if self._devices.read_text(encoding="utf-8") == self._boards.devices():
            return
        for process in processes.find(self._state.id, ROLE):
            processes.send(process, self._state.id, signal.SIGTERM)  # it gives its Lease back
            if not await processes.ended(process.pid, _START):
                raise LabError(f"the operator ({process.pid}) does not end")
        await self.start()

    async def _prepare_fencing(self, kube: Kube) -> None:
        """Give it the document of the BMCs, and the password of each in a Secret."""
        for name, credentials in self._boards.secrets().items():
            meta = ObjectMeta(name=name, namespace=agents.NAMESPACE)
            data = {key: value.encode() for key, value in credentials.items()}
            await kube.apply(Secret(metadata=meta, data=data), force=True)
        self._devices.write_text(self._boards.devices(), encoding="utf-8")

    @property
    def _boards(self) -> Boards:
        return Boards(self._layout, self._state, self._oldest)

    def _command(self) -> tuple[str, ...]:
        return (
            str(cobalt_command()),
            "operator",
            f"--kubeconfig={self._layout.operator_kubeconfig}",
            f"--agent-namespaces={agents.NAMESPACE}",
            f"--ovs-agent-namespace={rights.OVS_NAMESPACE}",
            "--certificate-source=request",  # as the chart whose rights it has
            f"--certificate-namespace={agents.NAMESPACE}",  # it has no rights in the default one
            "--leader-elect",  # by its Lease people see when the operator reported last
            *(_NOVA if self._state.openstack else self._direct),
            "--health-probe-bind-address=0",
            "--zap-encoder=console",
            "--ha=internal",
            f"--fence-devices={self._devices}",
            f"--fence-namespace={agents.NAMESPACE}",
            *(self._quick if self._state.is_quick else ()),
        )

    @property
    def _quick(self) -> tuple[str, ...]:
        is_short = agents.lease_of(self._state) == agents.SHORT_LEASE
        return (*_QUICK, _LIVE_BY_SHORT_LEASE if is_short else _LIVE)

    @property
    def _direct(self) -> tuple[str, ...]:
        central = Central(self._layout, self._state, self._oldest)
        return (
            "--compute=direct",
            f"--definitions-secret={DEFINITIONS_SECRET}",
            f"--direct-libvirt-uri={_LIBVIRT}",
            f"--direct-migration-uri={_LIBVIRT}",
            f"--direct-shared-roots={SHARED}",
            f"--direct-local-roots={LOCAL}",
            f"--direct-console-roots={CONSOLES}",
            f"--direct-kernel-roots={GUESTS}",
            f"--ovn-northbound={central.northbound_remote}",
        )

    @property
    def _account(self) -> dict[str, str]:
        """How it finds the lab's OpenStack."""
        if not self._state.openstack:
            return {}
        return {"OS_CLIENT_CONFIG_FILE": str(self._layout.clouds), "OS_CLOUD": CLOUD}

    @property
    def _devices(self) -> Path:
        return self._layout.data / "bmc" / "devices.yaml"

    async def take(self, name: str) -> None:
        """Wait until a registered Node has its Hypervisor, and set the lab's spec in it.

        Raises:
            LabError: there is none in time.
            HypercobaltError: the API server refuses.
        """
        async with self._control.client() as kube:
            try:
                async with asyncio.timeout(_START.total_seconds()):
                    await self._makes(kube, name)
            except TimeoutError:
                text = f"the operator makes no Hypervisor of Node {name}: {self._tail()}"
                raise LabError(text) from None
            wanted = Hypervisor(metadata=ObjectMeta(name=name), spec=_SPEC)
            await kube.apply(wanted, force=True)

    async def _makes(self, kube: Kube, name: str) -> None:
        """Wait until the operator has made the Hypervisor of a Node, while it runs.

        Raises:
            LabError: it ended.
        """
        while self.is_running:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    return await becomes(kube, Hypervisor, name, _is_made)
        raise LabError(f"the operator ended: {self._tail()}")

    def _tail(self) -> str:
        return processes.tail(self._layout.log / "operator.log")


def _is_made(hypervisor: Hypervisor) -> bool:
    return hypervisor.status.internalIp is not None
