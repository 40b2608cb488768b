"""What connects a guest to the networks of its pod: the port, and a node without networks."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.virt.wire.messages import TapDevice


class PodTaps(Protocol):
    """Makes the taps of pods; each call is safe to repeat, and may be cut at any point."""

    async def prepare(
        self, vmi: VirtualMachineInstance, pod: Pod | None, process: Path
    ) -> dict[str, TapDevice]:
        """Have a tap in the pod for each NIC of the VMI, and return them by network.

        Args:
            vmi: with the NICs.
            pod: of the VMI, with its addresses; None: not seen now.
            process: directory in /proc of the pod's launcher, in whose network namespace they are.

        Raises:
            TerminalError: it can never be done for this VMI, which fails then.
            TransientError: not now.
        """
        ...


class NoTaps:
    """A node that gives guests no network."""

    async def prepare(
        self, vmi: VirtualMachineInstance, pod: Pod | None, process: Path
    ) -> dict[str, TapDevice]:
        """Return no taps."""
        del vmi, pod, process
        return {}
