"""Makes what a pass decides: a call to the launcher, the object of the VMI, Events."""

from __future__ import annotations

from typing import Final

import msgspec

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube, Recorder, key_of
from hypercobalt.runtime.client.whole import Whole
from hypercobalt.virt.handler.links import Launchers
from hypercobalt.virt.handler.model import HandlerCall
from hypercobalt.virt.handler.taps import PodTaps
from hypercobalt.virt.wire.client import LauncherConnection
from hypercobalt.virt.wire.messages import Delete, Kill, LauncherCall, Shutdown, Sync
from hypercobalt.vmi.events import VMIEvent

log = get_logger(__name__)

SYNC_DEADLINE: Final = 20.0
"""Seconds, as upstream."""
SHORT_DEADLINE: Final = 5.0
"""Seconds for every other call."""
_SYNCING: Final = "Synchronizing"
_CALLS: Final[dict[HandlerCall, LauncherCall]] = {
    HandlerCall.SHUTDOWN: Shutdown(),
    HandlerCall.KILL: Kill(),
    HandlerCall.DELETE: Delete(),
}


class HandlerActions:
    """Makes the calls.

    Args:
        kube: writes as this handler.
        launchers: of the node.
        taps: makes the guests' networks.
        events: for people.
        emulation: guests run without KVM.
    """

    def __init__(
        self,
        kube: Kube,
        launchers: Launchers,
        taps: PodTaps,
        events: Recorder,
        *,
        emulation: bool,
    ) -> None:
        self._kube, self._launchers, self._taps = kube, launchers, taps
        self._events, self._emulation = events, emulation

    def call(
        self, key: str, vmi: VirtualMachineInstance, call: HandlerCall, event: VMIEvent | None
    ) -> None:
        """Have a call made to the launcher of a key, which needs no object."""
        self.record(vmi, () if event is None else (event,))

        async def work(connection: LauncherConnection) -> None:
            await connection.call(_CALLS[call], deadline=SHORT_DEADLINE)

        self._launchers.send(key, call, work)

    def sync(self, whole: Whole[VirtualMachineInstance], pod: Pod | None) -> None:
        """Have the domain made what the VMI asks for, with all of its fields."""
        vmi, document = whole.obj, msgspec.Raw(msgspec.json.encode(whole.fields))
        key = key_of(vmi)

        async def work(connection: LauncherConnection) -> None:
            with self._launchers.process_directory(key) as process:
                taps = await self._taps.prepare(vmi, pod, process)
            call = Sync(document, taps, emulation=self._emulation)
            await connection.call(call, deadline=SYNC_DEADLINE)

        self._launchers.send(key, HandlerCall.SYNC, work)

    async def write(
        self, whole: Whole[VirtualMachineInstance], wanted: VirtualMachineInstance
    ) -> VirtualMachineInstance:
        """Write what differs, with tests of what it replaces.

        Raises:
            ConflictError: another writer was first.
        """
        old = whole.obj
        if wanted == old:
            return old
        if wanted.status.phase != old.status.phase:
            before, after = old.status.phase, wanted.status.phase
            log.info("phase_changed", vmi=key_of(old), before=before, after=after)
        return await self._kube.patch_tested(whole, wanted)

    def record(self, vmi: VirtualMachineInstance, events: tuple[VMIEvent, ...]) -> None:
        """Record Events about a VMI."""
        for event in events:
            self._events.record(vmi, event.type, event.reason, event.note, action=_SYNCING)
