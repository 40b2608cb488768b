"""What acts on VirtualMachineInstances beside the hosts: virt-controller and the scheduler.

Their admission is in the API server; what runs on hosts is installed in them.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from hypercobalt import pki
from hypercobalt.apiserver.access import kubeconfig
from hypercobalt.lab import processes, tokens
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.pods import rights
from hypercobalt.lab.pods.rights import VIRT_NAMESPACE
from hypercobalt.lab.state import LabState, Layout

CONTROLLER: Final = "virt-controller"
SCHEDULER: Final = "scheduler"


class VirtActors:
    """The two processes of a lab."""

    def __init__(
        self, layout: Layout, state: LabState, oldest: processes.Oldest, control: ControlPlane
    ) -> None:
        self._layout, self._state, self._control = layout, state, control
        self._oldest = oldest

    async def start(self) -> None:
        """Start what does not run, with its rights.

        Raises:
            HypercobaltError: the API server refuses, or has never run.
        """
        layout = self._layout
        async with self._control.client() as kube:
            for obj in rights.of_actors():
                await kube.apply(obj, force=True)
            await tokens.give_virt_controller(kube, layout)
        controller = self._control.kubeconfig_with(layout.controller_token.name, VIRT_NAMESPACE)
        pki.write_secret(layout.controller_kubeconfig, controller)
        if not layout.scheduler_kubeconfig.exists():
            pki.write_secret(layout.scheduler_kubeconfig, await self._scheduler_kubeconfig())
        await self._start(CONTROLLER, self._controller())
        await self._start(SCHEDULER, self._scheduler())

    async def _start(self, role: str, command: tuple[str, ...]) -> None:
        if not self._oldest.find(role):
            log = self._layout.log / f"{role}.log"
            await processes.spawn(command, lab_id=self._state.id, role=role, log=log)

    async def _scheduler_kubeconfig(self) -> bytes:
        authority = self._control.authority
        client = await asyncio.to_thread(self._control.user_certificate, rights.SCHEDULER)
        return kubeconfig.render(self._control.url, authority.certificate, client)

    def _controller(self) -> tuple[str, ...]:
        return (
            str(cobalt_command()),
            "virt-controller",
            f"--kubeconfig={self._layout.controller_kubeconfig}",
            f"--virt-namespace={VIRT_NAMESPACE}",
            "--use-emulation",
            "--health-probe-bind-address=0",
        )

    def _scheduler(self) -> tuple[str, ...]:
        module = "hypercobalt.lab.pods.placing"
        return (sys.executable, "-m", module, str(self._layout.scheduler_kubeconfig))
