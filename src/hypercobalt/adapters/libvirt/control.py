"""Control: what changes a daemon's domains. Functions that block, but for `migrate`."""

from __future__ import annotations

from typing import Final

import libvirt

from hypercobalt.adapters.libvirt import links
from hypercobalt.adapters.libvirt.calls import Calls
from hypercobalt.adapters.libvirt.model import DomainDocument, MigrationOptions
from hypercobalt.adapters.libvirt.port import LibvirtRefusedError

_LONGEST_MIGRATION: Final = 24 * 3600.0
_MAX_DOWNTIME_MS: Final = 600_000
_WHOLE: Final = libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
_FLAGS: Final = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)


async def migrate(uri: str, uuid: str, options: MigrationOptions) -> None:
    """Migrate a domain, on a connection of its own.

    It holds one of the few requests that a daemon answers at a time on one connection.
    """
    what, calls = f"migration of {uuid} from {uri}", Calls()
    try:
        await calls.run(
            what, lambda: _migrate(what, uri, uuid, options), deadline=_LONGEST_MIGRATION
        )
    finally:
        calls.close()


def abort(connection: libvirt.virConnect, uuid: str) -> None:
    """Abort the domain's job, if there is one."""
    try:
        connection.lookupByUUIDString(uuid).abortJob()
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID:
            raise  # that one means that no job is active


def force_complete(connection: libvirt.virConnect, uuid: str) -> None:
    """Allow a downtime that is long enough for any rest of memory."""
    connection.lookupByUUIDString(uuid).migrateSetMaxDowntime(_MAX_DOWNTIME_MS)


def resume(connection: libvirt.virConnect, uuid: str) -> None:
    """Resume the domain."""
    connection.lookupByUUIDString(uuid).resume()


def document(connection: libvirt.virConnect, uuid: str) -> DomainDocument:
    """The document of the domain as it is defined."""
    domain = connection.lookupByUUIDString(uuid)
    return DomainDocument(domain.XMLDesc(_WHOLE), bool(domain.autostart()))


def define(connection: libvirt.virConnect, document: DomainDocument) -> None:
    """Define the domain of the document."""
    connection.defineXML(document.xml).setAutostart(int(document.autostart))


def undefine(connection: libvirt.virConnect, uuid: str) -> None:
    """Undefine the domain, if there is one."""
    try:
        domain = connection.lookupByUUIDString(uuid)
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise


def _migrate(what: str, uri: str, uuid: str, options: MigrationOptions) -> None:
    parameters: dict[str, int | str | list[str]] = {}
    flags = _FLAGS | (libvirt.VIR_MIGRATE_TLS if options.tls else 0)
    if options.stream:
        parameters[libvirt.VIR_MIGRATE_PARAM_URI] = options.stream
    if options.copies:
        flags |= libvirt.VIR_MIGRATE_NON_SHARED_DISK
        parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(options.copies)
    try:
        connection = links.connect(uri)
    except libvirt.libvirtError as exc:
        raise LibvirtRefusedError(f"{what}: {exc}") from exc
    try:
        with links.translated(what, connection):
            domain = connection.lookupByUUIDString(uuid)
            domain.migrateToURI3(options.destination, parameters, flags)
    finally:
        links.close(connection)
