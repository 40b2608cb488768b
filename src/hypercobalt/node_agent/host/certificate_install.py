"""Puts a host's certificate in place, has libvirt load it, and writes `TLSCertificateInstalled`.

A certificate that is not the host's changes no file, and what is in place is checked again at each
pass: one that has expired since shows in the condition.

Source: kvm-node-agent, internal/controller/secret_controller.go.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.port import HostError, Units
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.host_certificate import HostNames
from hypercobalt.api.hypervisor_conditions import CertificateReason, HypervisorConditionType
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host.certificate_check import CertificateFilesError, Validity
from hypercobalt.node_agent.host.certificate_files import (
    File,
    check_installed,
    install,
    is_loaded,
    mark_loaded,
)
from hypercobalt.node_agent.status.board import Board

log = get_logger(__name__)

UPDATE_UNIT: Final = "virt-admin-server-update-tls.service"
LIBVIRT_UNIT: Final = "libvirtd.service"
_CONDITION: Final = HypervisorConditionType.TLS_CERTIFICATE_INSTALLED


class Installed(Enum):
    """What became of files that were to be installed."""

    IN_USE = auto()
    UNFIT = auto()  # nothing was changed
    NOT_LOADED = auto()  # in place, but the services have not loaded them


class Installer:
    """The files, the services that read them, and the condition.

    Args:
        root: directory for certificates.
        units: the host's.
        board: takes the condition.
    """

    def __init__(self, root: Path, units: Units, board: Board) -> None:
        self._root, self._units, self._board = root, units, board

    async def put(self, files: tuple[File, ...], names: HostNames, source: str) -> Installed:
        """Install files and have them loaded.

        Args:
            files: the whole set.
            names: that the certificate has to be good for.
            source: where the files are from, for the condition: `Secret tls-libvirt-kvm-1`.
        """
        try:
            if not await asyncio.to_thread(is_loaded, self._root, files):
                log.info("installing_certificate", source=source)
                self.report(CertificateReason.INSTALLING, f"{source} is being installed")
                await asyncio.to_thread(install, self._root, files, names.all)
                if not await self._load(files):
                    return Installed.NOT_LOADED
            await asyncio.to_thread(check_installed, self._root, names.all)
        except (CertificateFilesError, OSError) as error:
            # The text has names and paths, never content.
            self.fail(CertificateReason.FAILED_TO_UPDATE, f"{source}: {error}")
            return Installed.UNFIT
        self.report(CertificateReason.READY, f"{source} is installed")
        return Installed.IN_USE

    async def validity(self, names: HostNames) -> Validity | None:
        """For how long the installed certificate is good for the names; None if it is not."""
        try:
            return await asyncio.to_thread(check_installed, self._root, names.all)
        except (CertificateFilesError, OSError):
            return None

    def report(self, reason: CertificateReason, message: str) -> None:
        """Set the condition; True for `Ready` alone."""
        ready = reason is CertificateReason.READY
        status = ConditionStatus.TRUE if ready else ConditionStatus.FALSE
        self._board.put_condition(_CONDITION, status, reason, message)

    def fail(self, reason: CertificateReason, message: str) -> None:
        """Set the condition False, and log it."""
        log.warning("certificate_not_installed", reason=reason, error=message)
        self.report(reason, message)

    def drop(self) -> None:
        """Have the object without the condition."""
        self._board.drop_condition(_CONDITION)

    async def _load(self, files: tuple[File, ...]) -> bool:
        """Have libvirt load the files; gives whether it has."""
        try:
            await self._units.start(UPDATE_UNIT)
        except HostError as error:
            self.fail(CertificateReason.FAILED_TO_START_UPDATE, str(error))
            try:
                await self._units.restart(LIBVIRT_UNIT)
            except HostError as worse:
                self.fail(CertificateReason.FAILED_TO_START_UPDATE, f"{error}; {worse}")
                return False
        await asyncio.to_thread(mark_loaded, self._root, files)
        return True
