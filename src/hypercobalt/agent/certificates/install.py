"""Puts a host's certificate in place, has the services load it, and reports that in a condition.

A certificate that is not the host's changes no file, nor does a certificate of a CA that the host
does not trust (`trust`). The files in place are checked again at each pass: a certificate that has
expired since then shows in the condition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from hypercobalt.agent.certificates.check import CertificateFilesError, Validity
from hypercobalt.agent.certificates.files import CA, File, Layout
from hypercobalt.agent.certificates.trust import foreign
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.host_certificate import CertificateReason, HostNames
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)


class ConditionBoard(Protocol):
    """The part of a board that is used."""

    def put_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None: ...
    def drop_condition(self, type_: str) -> None: ...


class Installed(Enum):
    """Result of an installation of files."""

    IN_USE = auto()
    UNFIT = auto()  # nothing was changed
    NOT_LOADED = auto()  # in place, but the services have not loaded them


class Installer:
    """The files, the services that read them, and the condition.

    Args:
        layout: where the files go.
        load: has the services load them; raises TransientError when they have not.
        board: takes the condition.
        condition: its type.
        ca: the administrator's file with the CA, if there is one.
    """

    def __init__(
        self,
        layout: Layout,
        load: Callable[[], Awaitable[None]],
        board: ConditionBoard,
        condition: str,
        ca: Path | None = None,
    ) -> None:
        self.layout, self._load_files = layout, load
        self._board, self._condition, self._ca = board, condition, ca

    async def put(self, files: tuple[File, ...], names: HostNames, source: str) -> Installed:
        """Install files and have them loaded.

        Args:
            files: the whole set.
            names: that the certificate has to be good for.
            source: where the files are from, for the condition: `Secret tls-kvm-1`.
        """
        try:
            if not await asyncio.to_thread(self.layout.is_loaded, files):
                log.info("certificate_install_started", source=source)
                self.report(CertificateReason.INSTALLING, f"{source} is being installed")
                await asyncio.to_thread(self._check_ca, files)
                await asyncio.to_thread(self.layout.install, files, names.all)
                if not await self._load(files):
                    return Installed.NOT_LOADED
            await asyncio.to_thread(self.layout.check_installed, names.all)
        except (CertificateFilesError, OSError) as error:
            # The text has names and paths, never content.
            self.fail(CertificateReason.FAILED_TO_UPDATE, f"{source}: {error}")
            return Installed.UNFIT
        self.report(CertificateReason.READY, f"{source} is installed")
        return Installed.IN_USE

    def _check_ca(self, files: tuple[File, ...]) -> None:
        """Compare the CA with those that the host may trust.

        Raises:
            CertificateFilesError: it is none of them.
            OSError: the administrator's file cannot be read.
        """
        path = self.layout.files[CA][0]
        offered = next(file.content for file in files if file.path == path)
        configured = self._ca.read_bytes() if self._ca is not None else None
        if why := foreign(offered, self.layout.installed_ca(), configured):
            raise CertificateFilesError(why)

    async def validity(self, names: HostNames) -> Validity | None:
        """Return how long the installed certificate is good for the names; None if it is not."""
        try:
            return await asyncio.to_thread(self.layout.check_installed, names.all)
        except (CertificateFilesError, OSError):
            return None

    def report(self, reason: CertificateReason, message: str) -> None:
        """Set the condition; True for `Ready` alone."""
        ready = reason is CertificateReason.READY
        status = ConditionStatus.TRUE if ready else ConditionStatus.FALSE
        self._board.put_condition(self._condition, status, reason, message)

    def fail(self, reason: CertificateReason, message: str) -> None:
        """Set the condition False, and log it."""
        log.warning("certificate_not_installed", reason=reason, error=message)
        self.report(reason, message)

    def drop(self) -> None:
        """Remove the condition from the object."""
        self._board.drop_condition(self._condition)

    async def _load(self, files: tuple[File, ...]) -> bool:
        """Have the services load the files, and return whether they have."""
        try:
            await self._load_files()
        except TransientError as error:
            self.fail(CertificateReason.FAILED_TO_START_UPDATE, str(error))
            return False
        await asyncio.to_thread(self.layout.mark_loaded, files)
        return True
