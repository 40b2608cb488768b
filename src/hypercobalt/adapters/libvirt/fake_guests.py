"""What the owner of the daemon in memory does with its guests, and what these do then."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hypercobalt.adapters.libvirt.events import EventKind
from hypercobalt.adapters.libvirt.fake_domains import FakeDomains
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle, RunningReason, Shutdown, Stopped


class FakeGuests(FakeDomains, ABC):
    """See `hypercobalt.adapters.libvirt.port.GuestControl`.

    Attributes:
        deaf: UUIDs of domains whose guests do not follow ACPI.
        stubborn: UUIDs of domains whose emulators do not end by SIGTERM.
        elements: metadata by UUID and namespace.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deaf: set[str] = set()
        self.stubborn: set[str] = set()
        self.elements: dict[tuple[str, str], str] = {}

    async def pause(self, uuid: str) -> None:
        await self._answer("pause")
        self._running(uuid)
        self.suspend(uuid)

    async def resume(self, uuid: str) -> None:
        await self._answer("resume")
        self._domain(uuid)
        self._change(uuid, Lifecycle.RESUMED, DomainState.RUNNING, RunningReason.UNPAUSED)

    async def reset(self, uuid: str) -> None:
        await self._answer("reset")
        self._running(uuid)
        self.emit_of(uuid, EventKind.REBOOT)

    async def reboot(self, uuid: str) -> None:
        await self._answer("reboot")
        self._running(uuid)
        if uuid not in self.deaf:
            self.emit_of(uuid, EventKind.REBOOT)

    async def shutdown(self, uuid: str) -> None:
        await self._answer("shutdown")
        if self._runs(uuid) and uuid not in self.deaf:
            self.lifecycle(uuid, Lifecycle.SHUTDOWN, Shutdown.GUEST)
            self.stop(uuid, Stopped.SHUTDOWN)

    async def destroy(self, uuid: str, *, graceful: bool = False) -> None:
        await self._answer("destroy")
        if graceful and self._runs(uuid) and uuid in self.stubborn:
            raise LibvirtRefusedError("Failed to terminate process with SIGTERM: Device busy")
        if self._runs(uuid):
            self.lifecycle(uuid, Lifecycle.SHUTDOWN, Shutdown.HOST)
            self.stop(uuid, Stopped.DESTROYED)

    async def metadata(self, uuid: str, namespace: str) -> str | None:
        await self._answer("metadata")
        return self.elements.get((uuid, namespace))

    async def set_metadata(self, uuid: str, namespace: str, prefix: str, element: str) -> None:
        await self._answer("set_metadata")
        self._domain(uuid)
        self.elements[uuid, namespace] = element

    @abstractmethod
    async def _answer(self, method: str) -> None:
        """Answer a call as the test has set it."""

    def _domain(self, uuid: str) -> Domain:
        if uuid not in self.here:
            raise LibvirtRefusedError(f"Domain not found: no domain with matching uuid {uuid!r}")
        return self.here[uuid]

    def _runs(self, uuid: str) -> bool:
        return uuid in self.here and self.here[uuid].active

    def _running(self, uuid: str) -> None:
        if not self._domain(uuid).active:
            raise LibvirtRefusedError("Requested operation is not valid: domain is not running")
