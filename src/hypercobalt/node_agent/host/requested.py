"""Keeps a certificate installed whose key was made on this host: the shell around its decision.

Every pass looks at the files, at the pending key and at its CertificateRequest, and takes one step;
between passes that one object is watched. So an agent that dies at any point goes on from there,
and no key is made while another one waits.

Source: cert-manager, "CertificateRequest".
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.port import Units
from hypercobalt.api.certificate import CertificateRequest, IssuerReference
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import CertificateReason
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host import key_maker, pending
from hypercobalt.node_agent.host.certificate_check import CertificateFilesError
from hypercobalt.node_agent.host.certificate_files import (
    CA,
    CERTIFICATE,
    FILES,
    KEY,
    in_place,
    is_loaded,
    plan,
    strays,
)
from hypercobalt.node_agent.host.certificate_install import Installed, Installer
from hypercobalt.node_agent.host.certificate_request import (
    Facts,
    Plan,
    Step,
    Wanted,
    decide,
    is_old,
    request_of,
)
from hypercobalt.node_agent.host.own_names import own_names
from hypercobalt.node_agent.host.pending import Pending
from hypercobalt.node_agent.status.board import Board
from hypercobalt.runtime import AlreadyExistsError, Backoff, Change, Clock, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""Files that somebody else changed are put right, and what was missed is seen, this often."""

_RETRY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=5))


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """Where certificates come from and go to.

    Args:
        host: name of the Node.
        namespace: of the requests.
        root: directory for certificates.
        issuer: of cert-manager.
        addresses: of the host, besides the Hypervisor's internal one.
        ca: file with the CA, for an issuer that does not give it.
    """

    host: str
    namespace: str
    root: Path
    issuer: IssuerReference
    addresses: tuple[str, ...] = ()
    ca: Path | None = None


class RequestedCertificate:
    """The concern.

    Args:
        hypervisor: the own one.
    """

    def __init__(
        self,
        settings: RequestSettings,
        units: Units,
        kube: Kube,
        *,
        hypervisor: Latest[Hypervisor],
        board: Board,
        clock: Clock,
        resync: timedelta = RESYNC,
    ) -> None:
        self._settings, self._kube, self._clock = settings, kube, clock
        self._hypervisor, self._resync = hypervisor, resync
        self._installer = Installer(settings.root, units, board)
        self._failures = 0
        self._good_until: datetime | None = None

    async def run(self) -> None:
        """Request, install and renew until cancelled."""
        while True:
            hypervisor = self._hypervisor.value
            try:
                wait, watched = await self._pass(hypervisor)
                self._failures = 0
            except (HypercobaltError, OSError) as error:
                log.warning("certificate_not_requested", error=str(error))
                self._report(str(error))
                wait, watched = _RETRY.wait(self._failures), None
                self._failures += 1
            if wait > 0:
                await self._wait(wait, hypervisor, watched)

    async def _pass(self, hypervisor: Hypervisor | None) -> tuple[float, CertificateRequest | None]:
        """Take one step; gives the seconds until the next, and the object to watch meanwhile."""
        if hypervisor is None:
            return self._resync.total_seconds(), None
        if hypervisor.spec.installCertificate is False:
            self._installer.drop()
            return self._resync.total_seconds(), None
        wanted = self._wanted(hypervisor)
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

    def _wanted(self, hypervisor: Hypervisor) -> Wanted:
        told = self._settings
        texts = (*told.addresses, hypervisor.status.internalIp or "")
        return Wanted(own_names(told.host, texts), told.issuer)

    async def _observe(self, wanted: Wanted) -> Facts:
        told = self._settings
        waiting = await asyncio.to_thread(pending.load, told.root)
        request = None
        if waiting is not None:
            name = waiting.name(told.host)
            request = await self._kube.get(CertificateRequest, name, told.namespace)
        files = await asyncio.to_thread(in_place, told.root)
        intact = bool(files) and await asyncio.to_thread(is_loaded, told.root, files)
        keys = (file.content for file in files if file.path in FILES[KEY])
        return Facts(
            wanted=wanted.digest,
            installed=await self._installer.validity(wanted.names),
            intact=intact,
            in_use=intact and waiting is not None and waiting.key in keys,
            pending=waiting,
            request=request,
            now=self._clock.now(),
        )

    async def _act(self, step: Plan, wanted: Wanted, facts: Facts) -> float:
        told = self._settings
        match step.step:
            case Step.MAKE:
                made = await key_maker.make(wanted.names)
                new = Pending(wanted.digest, made.request, made.key)
                await asyncio.to_thread(pending.store, told.root, new)
            case Step.ASK if facts.pending is not None:
                asked = request_of(wanted, facts.pending, told.namespace)
                log.info("creating_certificate_request", request=asked.metadata.name)
                with suppress(AlreadyExistsError):  # by this agent, before it died
                    await self._kube.create(asked)
            case Step.CLEAN_UP if facts.pending is not None:
                await self._clean_up(facts.pending)
            case Step.MEND:
                await self._mend(wanted)
                return self._resync.total_seconds()
            case Step.INSTALL if facts.pending is not None and facts.request is not None:
                match await self._install(facts.request, facts.pending, wanted):
                    case Installed.NOT_LOADED:
                        return self._resync.total_seconds()
                    case Installed.UNFIT if is_old(facts):
                        await self._clean_up(facts.pending)
                    case Installed.UNFIT:
                        return self._resync.total_seconds()
                    case Installed.IN_USE:
                        pass
            case _:
                until = (step.until - facts.now).total_seconds() if step.until else None
                wait = self._resync.total_seconds()
                return wait if until is None else max(1.0, min(wait, until))
        return 0.0

    async def _mend(self, wanted: Wanted) -> None:
        """Put the files beside libvirt's own right: their content, their modes, their links."""
        files = await asyncio.to_thread(in_place, self._settings.root)
        wrong = await asyncio.to_thread(strays, self._settings.root, files)
        log.warning("certificate_files_changed", files=wrong)
        await self._installer.put(files, wanted.names, "the certificate of this host")

    async def _clean_up(self, waiting: Pending) -> None:
        """Delete the request, then the key: in this order both are found again after a crash."""
        name = waiting.name(self._settings.host)
        log.info("deleting_certificate_request", request=name)
        await self._kube.delete(CertificateRequest, name, self._settings.namespace)
        await asyncio.to_thread(pending.discard, self._settings.root)

    async def _install(
        self, request: CertificateRequest, waiting: Pending, wanted: Wanted
    ) -> Installed:
        status, source = request.status, f"CertificateRequest {request.metadata.name}"
        ca = status.ca
        if self._settings.ca is not None:
            ca = await asyncio.to_thread(self._settings.ca.read_bytes)
        try:
            files = plan({CA: ca, CERTIFICATE: status.certificate, KEY: waiting.key})
        except CertificateFilesError as error:
            self._installer.fail(
                CertificateReason.FAILED_TO_UPDATE,
                f"{source}: {error}; an issuer that gives no CA needs --pki-ca-file",
            )
            return Installed.UNFIT
        return await self._installer.put(files, wanted.names, source)

    async def _wait(
        self, seconds: float, since: Hypervisor | None, watched: CertificateRequest | None
    ) -> None:
        changes = [self._host_changed(since)]
        if watched is not None:
            changes.append(self._request_changed(watched))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await first(*changes)

    async def _host_changed(self, since: Hypervisor | None) -> None:
        known = since
        while known is since or _inputs(known) == _inputs(since):
            known = await self._hypervisor.changed(known)

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
            log.warning("watching_certificate_request_failed", error=str(error))
            await asyncio.sleep(_RETRY.base.total_seconds())


def _inputs(hypervisor: Hypervisor | None) -> object:
    """What matters here; the status changes often."""
    if hypervisor is None:
        return None
    return hypervisor.metadata.uid, hypervisor.spec, hypervisor.status.internalIp
