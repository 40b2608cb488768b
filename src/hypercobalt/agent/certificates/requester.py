"""Keeps a certificate installed whose key was made on this host: the shell around its decision.

Every pass reads the files, the pending key and its CertificateRequest, and takes one step; between
passes that one object is watched. So an agent that dies at any point goes on from there, and no key
is made while another one waits.

Source: cert-manager, "CertificateRequest".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from hypercobalt.agent.certificates import key_maker, pending
from hypercobalt.agent.certificates.check import CertificateFilesError
from hypercobalt.agent.certificates.files import CA, CERTIFICATE, KEY, File
from hypercobalt.agent.certificates.install import Installed, Installer
from hypercobalt.agent.certificates.key_maker import KeyOrder
from hypercobalt.agent.certificates.pending import Pending
from hypercobalt.agent.certificates.request import (
    CertificateFacts,
    CertificatePlan,
    CertificateStep,
    RequestSettings,
    Wanted,
    decide,
    is_old,
    request_of,
)
from hypercobalt.api.certificate import CertificateRequest
from hypercobalt.api.host_certificate import CertificateReason
from hypercobalt.api.meta import Object
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import AlreadyExistsError, Backoff, Change, Clock, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

T = TypeVar("T", bound=Object)

RESYNC: Final = timedelta(minutes=5)
"""Time between checks of the files; also the longest that a missed change goes unnoticed."""

_RETRY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=5))


class RequestedCertificate(Generic[T]):
    """Keeps a requested certificate installed.

    Args:
        installer: puts the certificate in place and reports on it.
        own: the object that decides what certificate the host must have.
        wanted: reads that off the object; None for no certificate.
    """

    def __init__(
        self,
        settings: RequestSettings,
        kube: Kube,
        installer: Installer,
        *,
        own: Latest[T],
        wanted: Callable[[T], Wanted | None],
        clock: Clock,
        resync: timedelta = RESYNC,
    ) -> None:
        self._settings, self._kube, self._clock = settings, kube, clock
        self._own, self._wanted, self._resync = own, wanted, resync
        self._installer, self._layout = installer, installer.layout
        self._pending = installer.layout.root / installer.layout.pending
        self._failures = 0
        self._good_until: datetime | None = None

    async def run(self) -> None:
        """Request, install and renew until cancelled."""
        while True:
            own = self._own.value
            try:
                wait, watched = await self._pass(own)
                self._failures = 0
            except (HypercobaltError, OSError) as error:
                log.warning("certificate_not_requested", error=str(error))
                self._report(str(error))
                wait, watched = _RETRY.wait(self._failures), None
                self._failures += 1
            if wait > 0:
                await self._wait(wait, own, watched)

    async def _pass(self, own: T | None) -> tuple[float, CertificateRequest | None]:
        """Take one step; return the seconds until the next, and the object to watch meanwhile."""
        if own is None:
            return self._resync.total_seconds(), None
        wanted = self._wanted(own)
        if wanted is None:
            self._installer.drop()
            return self._resync.total_seconds(), None
        facts = await self._observe(wanted)
        self._good_until = facts.installed.not_after if facts.installed else None
        step = decide(facts)
        if step.reason is not None:
            self._installer.report(step.reason, step.message)
        return await self._act(step, wanted, facts), facts.request

    def _report(self, error: str) -> None:
        """The installed certificate counts while it is good, whatever became of its renewal."""
        reason = CertificateReason.REQUEST_FAILED
        if self._good_until is not None and self._clock.now() < self._good_until:
            reason = CertificateReason.READY
            error = f"installed, good until {self._good_until:%Y-%m-%dT%H:%M:%SZ}; {error}"
        self._installer.report(reason, error)

    async def _observe(self, wanted: Wanted) -> CertificateFacts:
        waiting = await asyncio.to_thread(pending.load, self._pending)
        request = None
        if waiting is not None:
            name = waiting.name(self._settings.prefix)
            request = await self._kube.get(CertificateRequest, name, self._settings.namespace)
        files = await asyncio.to_thread(self._layout.in_place)
        intact = bool(files) and await asyncio.to_thread(self._layout.is_loaded, files)
        return CertificateFacts(
            wanted=wanted.digest,
            installed=await self._installer.validity(wanted.names),
            intact=intact,
            in_use=intact and waiting is not None and self._is_installed(waiting, request, files),
            pending=waiting,
            request=request,
            now=self._clock.now(),
        )

    def _is_installed(
        self, waiting: Pending, request: CertificateRequest | None, files: tuple[File, ...]
    ) -> bool:
        """Whether the pending key is in the files, and the certificate that was issued for it."""
        there = {file.path: file.content for file in files}
        key, certificate = (there.get(self._layout.files[one][0]) for one in (KEY, CERTIFICATE))
        return key == waiting.key and (request is None or request.status.certificate == certificate)

    async def _act(self, step: CertificatePlan, wanted: Wanted, facts: CertificateFacts) -> float:
        match step.step:
            case CertificateStep.MAKE:
                await self._make(wanted, await asyncio.to_thread(self._layout.installed_key))
            case CertificateStep.REQUEST if facts.pending is not None:
                made = request_of(wanted, facts.pending, self._settings)
                log.info("certificate_request_created", request=made.metadata.name)
                with suppress(AlreadyExistsError):  # by this agent, before it died
                    await self._kube.create(made)
            case CertificateStep.REMAKE if facts.pending is not None:
                await self._remake(facts.pending, wanted)
            case CertificateStep.CLEAN_UP if facts.pending is not None:
                await self._clean_up(facts.pending)
            case CertificateStep.MEND:
                await self._mend(wanted)
                return self._resync.total_seconds()
            case CertificateStep.INSTALL if facts.pending is not None and facts.request is not None:
                match await self._install(facts.request, facts.pending, wanted):
                    case Installed.NOT_LOADED:
                        return self._resync.total_seconds()
                    case Installed.UNFIT if is_old(facts):
                        await self._remake(facts.pending, wanted)
                    case Installed.UNFIT:
                        return self._resync.total_seconds()
                    case Installed.IN_USE:
                        pass
            case _:
                until = (step.until - facts.now).total_seconds() if step.until else None
                wait = self._resync.total_seconds()
                return wait if until is None else max(1.0, min(wait, until))
        return 0.0

    async def _make(self, wanted: Wanted, key: bytes) -> None:
        made = await key_maker.make(KeyOrder(wanted.names, key))
        new = Pending(wanted.digest, made.request, made.key)
        await asyncio.to_thread(pending.store, self._pending, new)

    async def _mend(self, wanted: Wanted) -> None:
        """Put the files beside the checked ones right: their content, their modes, their links."""
        files = await asyncio.to_thread(self._layout.in_place)
        wrong = await asyncio.to_thread(self._layout.strays, files)
        log.warning("certificate_files_changed", files=wrong)
        await self._installer.put(files, wanted.names, "the certificate of this host")

    async def _remake(self, waiting: Pending, wanted: Wanted) -> None:
        """Replace the request, the object first: its name is found by the pending one."""
        await self._delete(waiting)
        await self._make(wanted, waiting.key)

    async def _clean_up(self, waiting: Pending) -> None:
        """Delete the request, then the key: in this order both are found again after a crash."""
        await self._delete(waiting)
        await asyncio.to_thread(pending.discard, self._pending)

    async def _delete(self, waiting: Pending) -> None:
        name = waiting.name(self._settings.prefix)
        log.info("certificate_request_deleted", request=name)
        await self._kube.delete(CertificateRequest, name, self._settings.namespace)

    async def _install(
        self, request: CertificateRequest, waiting: Pending, wanted: Wanted
    ) -> Installed:
        status, source = request.status, f"CertificateRequest {request.metadata.name}"
        ca = status.ca
        if self._settings.ca is not None:
            ca = await asyncio.to_thread(self._settings.ca.read_bytes)
        try:
            files = self._layout.plan({CA: ca, CERTIFICATE: status.certificate, KEY: waiting.key})
        except CertificateFilesError as error:
            self._installer.fail(
                CertificateReason.FAILED_TO_UPDATE,
                f"{source}: {error}; an issuer that gives no CA needs --pki-ca-file",
            )
            return Installed.UNFIT
        return await self._installer.put(files, wanted.names, source)

    async def _wait(
        self, seconds: float, since: T | None, watched: CertificateRequest | None
    ) -> None:
        changes = [self._wish_changed(since)]
        if watched is not None:
            changes.append(self._request_changed(watched))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await first(*changes)

    async def _wish_changed(self, since: T | None) -> None:
        """Wait for a change that matters here; the status changes often."""

        def wish(own: T | None) -> tuple[bool, Wanted | None]:
            return own is None, None if own is None else self._wanted(own)

        known = since
        while wish(known) == wish(since):
            known = await self._own.changed(known)

    async def _request_changed(self, since: CertificateRequest) -> None:
        meta = since.metadata
        try:
            async with self._kube.watch(
                CertificateRequest,
                meta.namespace,
                fields=f"metadata.name={meta.name}",
                resource_version=meta.resourceVersion,
            ) as events:
                async for event in events:
                    if event.change is not Change.BOOKMARK:
                        return
        except HypercobaltError as error:
            log.warning("certificate_request_not_watched", error=str(error))
            await asyncio.sleep(_RETRY.base.total_seconds())
