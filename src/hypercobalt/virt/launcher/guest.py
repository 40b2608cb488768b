"""The pod's one domain: what calls do to it, and how it is reported.

libvirt's state is read for every decision; what this process remembers of the domain only saves
reading a document again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hypercobalt.adapters.disks.port import Disks
from hypercobalt.adapters.libvirt.model import Domain, DomainDocument
from hypercobalt.adapters.libvirt.port import (
    LibvirtError,
    LibvirtRefusedError,
    LibvirtSession,
    UnknownFieldError,
)
from hypercobalt.api import codec
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.virt.launcher import marks, states
from hypercobalt.virt.launcher.devices import RunningDevices, running_devices
from hypercobalt.virt.launcher.dhcp import DhcpServers
from hypercobalt.virt.launcher.libvirtd import has_kvm, socket_directory
from hypercobalt.virt.launcher.marks import DomainMarks
from hypercobalt.virt.launcher.settings import LauncherSettings
from hypercobalt.virt.launcher.syncing import SyncFacts, SyncPlan, sync_plan
from hypercobalt.virt.launcher.volumes import prepare_volumes, takes_direct_io
from hypercobalt.virt.wire.messages import DomainReport, Sync
from hypercobalt.vmi.domain import DomainContext, Tap, document
from hypercobalt.vmi.phases import DomainView, LifeCycle, LifeReason
from hypercobalt.vmi.unfit import UnfitVMIError

log = get_logger(__name__)

_PAUSED: Final = "Paused"  # spec.startStrategy


class NoDomainError(TransientError):
    """There is no domain to do this to."""


class Guest:
    """The domain, and the disks it is made of.

    Args:
        settings: of the launcher.
        session: the pod's libvirtd.
        disks: makes disks.

    Attributes:
        name: of the domain that was read last.
        has_run: it was started, or perhaps.
        recorded: virt-handler has recorded how the domain ended.
        signalled: when the pod was told to end.
        panicked: libvirt has reported a panic of the guest's kernel.
    """

    def __init__(self, settings: LauncherSettings, session: LibvirtSession, disks: Disks) -> None:
        self._settings, self._session, self._disks = settings, session, disks
        self._syncing, self._dhcp = asyncio.Lock(), DhcpServers()
        self._devices = (-1, RunningDevices())
        self._marks = DomainMarks()
        self.has_run, self._starting = False, False
        self._ended: LifeReason | None = None
        self.name, self.recorded, self.panicked = "", False, False
        self.signalled: datetime | None = None

    async def domain(self) -> Domain | None:
        """The domain as it is now; None while there is none."""
        found = await self._session.domains()
        if not found:
            return None
        self.name, self.has_run = found[0].name, self.has_run or found[0].active
        return found[0]

    async def report(self) -> DomainReport:
        """The domain as virt-handler gets it."""
        domain = await self.domain()
        if domain is None:
            return DomainReport(marked_since=self.signalled)
        seen, devices = self._seen(domain), await self._running_devices(domain)
        if domain.active:
            await self._read_marks(domain)
            if self.signalled and self._marks.signalled is None:
                await self._mark(domain, replace(self._marks, signalled=self.signalled))
        return DomainReport(
            state=seen.state,
            reason=seen.reason,
            paused_by=states.paused_by(domain),
            shutdown_since=self._marks.shutdown,
            marked_since=self._marks.signalled or self.signalled,
            machine=devices.machine,
            emulated=devices.emulated,
            interfaces=devices.interfaces,
        )

    async def sync(self, call: Sync) -> None:
        """Make the domain what the VMI asks for; see `syncing` for the rule.

        Raises:
            UnfitVMIError: no domain can be made of it.
            TransientError: libvirt refuses or is away, or a disk cannot be made now.
        """
        vmi = self._read(call)
        async with self._syncing:
            domain = await self.domain()
            ending = self.recorded or self.signalled is not None
            plan = sync_plan(SyncFacts(_phase(vmi), domain, self.has_run, ending))
            if plan != SyncPlan():
                await self._dhcp.serve(call.taps)
            if plan.define:
                await self._define(vmi, call)
                domain = await self.domain()
            if domain is None:
                return
            if plan.start:
                await self._start(domain, paused=vmi.spec.startStrategy == _PAUSED)
            elif plan.resume:
                log.info("resuming_domain", domain=domain.name, reason=domain.reason)
                await self._session.resume(domain.uuid)

    async def to_domain(self, act: Callable[[str], Awaitable[None]]) -> None:
        """Do something to the domain that needs it.

        Raises:
            NoDomainError: there is none.
        """
        domain = await self.domain()
        if domain is None:
            raise NoDomainError("there is no domain")
        await act(domain.uuid)

    async def shut_down(self) -> None:
        """Have the guest shut down, and note when that was first asked for."""
        domain = await self.domain()
        if domain is None or not domain.active:
            return
        await self._read_marks(domain)
        if self._marks.shutdown is None:
            await self._mark(domain, replace(self._marks, shutdown=datetime.now(UTC)))
        await self._session.shutdown(domain.uuid)

    async def kill(self) -> None:
        """End QEMU by SIGTERM; no domain is no error."""
        domain = await self.domain()
        if domain is not None:
            await self._session.destroy(domain.uuid, graceful=True)

    async def delete(self) -> None:
        """Undefine the domain, whose end is recorded.

        Raises:
            TransientError: it is alive.
        """
        domain = await self.domain()
        if domain is not None and domain.active:
            raise TransientError(f"domain {domain.name} is alive; shut it down or kill it first")
        if domain is not None:
            await self._session.undefine(domain.uuid)
        self.recorded = True

    async def _start(self, domain: Domain, *, paused: bool) -> None:
        if self.signalled is not None:
            return  # the signal came while the disks were made
        log.info("starting_domain", domain=domain.name)
        self.has_run = self._starting = True  # before it is known: in doubt not started twice
        try:
            await self._session.boot(domain.uuid, paused=paused)
        except LibvirtRefusedError:
            self.has_run = False
            raise
        finally:
            self._starting = False

    def _seen(self, domain: Domain) -> DomainView:
        has_run = self.has_run and not self._starting  # off until then, and not for good
        found = states.settled(
            states.view(domain), has_run=has_run, ended=self._ended, panicked=self.panicked
        )
        if found.state is LifeCycle.SHUTOFF and has_run:
            self._ended = found.reason
        return found

    def close(self) -> None:
        """Answer the guest no longer."""
        self._dhcp.close()

    def _read(self, call: Sync) -> VirtualMachineInstance:
        try:
            vmi = codec.decode(call.vmi, VirtualMachineInstance)
        except codec.DecodeError as exc:
            raise UnfitVMIError("spec", str(exc)) from exc
        if vmi.metadata.uid != self._settings.uid:
            raise UnfitVMIError("metadata.uid", f"this launcher is of {self._settings.uid}")
        if not call.emulation and not has_kvm():
            raise UnfitVMIError("spec.domain", "the pod has no /dev/kvm, and emulation is off")
        return vmi

    async def _define(self, vmi: VirtualMachineInstance, call: Sync) -> None:
        paths = self._settings.paths
        formats = await prepare_volumes(vmi, paths, self._disks)
        socket_directory(paths, self._settings.uid)
        context = DomainContext(
            emulation=call.emulation,
            taps={
                name: Tap(device=tap.device, mac=tap.mac, mtu=tap.mtu)
                for name, tap in call.taps.items()
            },
            formats=formats,
            direct_io=all(map(takes_direct_io, map(Path, (paths.ephemeral, paths.runtime)))),
            vhost_net=Path("/dev/vhost-net").exists(),  # noqa: ASYNC240  a name in a tmpfs
            paths=paths,
        )
        given = DomainDocument(document(vmi, context), autostart=False, validated=True)
        try:
            await self._session.define(given)
        except UnknownFieldError as exc:
            what = "asks for something that libvirt in the pod does not know"
            raise UnfitVMIError("spec.domain", f"{what}: {exc}") from exc

    async def _running_devices(self, domain: Domain) -> RunningDevices:
        """What it has since its start; a document that is not given now is read the next time."""
        known, devices = self._devices
        if not domain.active or domain.id == known:
            return devices
        try:
            found = await self._session.document(domain.uuid, running=True)
        except LibvirtError:
            return RunningDevices()
        self._devices = (domain.id, running_devices(found.xml))
        return self._devices[1]

    async def _read_marks(self, domain: Domain) -> None:
        element = await self._session.metadata(domain.uuid, marks.MARKS_NAMESPACE)
        self._marks = marks.marks_of(element)

    async def _mark(self, domain: Domain, changed: DomainMarks) -> None:
        element = marks.element_of(changed)
        await self._session.set_metadata(
            domain.uuid, marks.MARKS_NAMESPACE, marks.MARKS_PREFIX, element
        )
        self._marks = changed


def _phase(vmi: VirtualMachineInstance) -> VMIPhase:
    try:
        return VMIPhase(vmi.status.phase)
    except ValueError as exc:
        raise UnfitVMIError("status.phase", f"{vmi.status.phase[:64]!r} is unknown") from exc
