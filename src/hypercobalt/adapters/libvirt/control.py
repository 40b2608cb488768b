"""Control: what changes a daemon's domains."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt import uri
from hypercobalt.adapters.libvirt.inventory import lookup
from hypercobalt.adapters.libvirt.links import within
from hypercobalt.adapters.libvirt.model import DomainDocument, MigrationOptions
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError
from hypercobalt.adapters.libvirt.refusals import OFF, unless
from hypercobalt.adapters.libvirt.rpc import numbers, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.numbers import (
    DestroyFlag,
    DocumentFlag,
    ErrorCode,
    MigrateFlag,
    StartFlag,
)
from hypercobalt.adapters.libvirt.rpc.protocol import DomainFlags, OneDomain, Procedure, Result
from hypercobalt.adapters.libvirt.rpc.transport import connect
from hypercobalt.adapters.libvirt.rpc.xdr import TypedParameter

_CONNECTING: Final = 60.0
_LONGEST_MIGRATION: Final = 24 * 3600.0
_MAX_DOWNTIME_MS: Final = 600_000
_WHOLE: Final = DocumentFlag.SECURE | DocumentFlag.INACTIVE
_CARRIED: Final = DocumentFlag.SECURE | DocumentFlag.MIGRATABLE
_FLAGS: Final = (
    MigrateFlag.LIVE
    | MigrateFlag.PEER2PEER
    | MigrateFlag.PERSIST_DEST
    | MigrateFlag.UNDEFINE_SOURCE
    | MigrateFlag.AUTO_CONVERGE
)


async def migrate(address: str, uuid: str, options: MigrationOptions) -> None:
    """Migrate a domain, on a connection of its own.

    It holds one of the few requests that a daemon answers at a time on one connection.
    """
    what = f"migration of {uuid} from {address}"
    try:
        client = await within(_CONNECTING, what, connect(uri.parse(address)))
    except LibvirtError as exc:
        raise LibvirtRefusedError(str(exc)) from exc  # nothing was begun
    try:
        await within(_LONGEST_MIGRATION, what, _migrate(client, uuid, options))
    finally:
        client.close()


async def abort(client: Client, uuid: str) -> None:
    """Abort the domain's job, if there is one."""
    # Refused so: no job is active.
    await unless({ErrorCode.OPERATION_INVALID}, _call(client, protocol.DOMAIN_ABORT_JOB, uuid))


async def force_complete(client: Client, uuid: str) -> None:
    """Allow a downtime that is long enough for any rest of memory."""
    arguments = protocol.Downtime(await lookup(client, uuid), _MAX_DOWNTIME_MS)
    await client.call(protocol.DOMAIN_SET_MAX_DOWNTIME, arguments)


async def resume(client: Client, uuid: str) -> None:
    """Resume the domain."""
    await _call(client, protocol.DOMAIN_RESUME, uuid)


async def destroy(client: Client, uuid: str, *, graceful: bool = False) -> None:
    """End the domain's process, if there is one."""
    if graceful:
        ended = _flagged(client, protocol.DOMAIN_DESTROY_FLAGS, uuid, DestroyFlag.GRACEFUL)
    else:
        ended = _call(client, protocol.DOMAIN_DESTROY, uuid)
    await unless(OFF, ended)


async def boot(client: Client, uuid: str, *, paused: bool = False) -> None:
    """Start the domain."""
    if paused:
        await _flagged(client, protocol.DOMAIN_CREATE_FLAGS, uuid, StartFlag.PAUSED)
    else:
        await _call(client, protocol.DOMAIN_CREATE, uuid)


async def pause(client: Client, uuid: str) -> None:
    """Pause the domain."""
    await _call(client, protocol.DOMAIN_SUSPEND, uuid)


async def reset(client: Client, uuid: str) -> None:
    """Reset the domain's machine, as by its button."""
    await _flagged(client, protocol.DOMAIN_RESET, uuid)


async def reboot(client: Client, uuid: str) -> None:
    """Have the guest reboot, by its agent or by ACPI."""
    await _flagged(client, protocol.DOMAIN_REBOOT, uuid)


async def shutdown(client: Client, uuid: str) -> None:
    """Have the guest shut down, by its agent or by ACPI; a domain that is off is no error."""
    await unless(OFF, _flagged(client, protocol.DOMAIN_SHUTDOWN, uuid))


async def metadata(client: Client, uuid: str, namespace: str) -> str | None:
    """The element of a namespace in the domain's metadata; None without one, or without domain."""
    ref = await unless({ErrorCode.NO_DOMAIN}, lookup(client, uuid))
    if ref is None:
        return None
    arguments = protocol.GetMetadata(ref, numbers.METADATA_ELEMENT, namespace)
    absent = {ErrorCode.NO_DOMAIN, ErrorCode.NO_DOMAIN_METADATA}
    found = await unless(absent, client.call(protocol.DOMAIN_GET_METADATA, arguments))
    return found.text if found else None


async def set_metadata(
    client: Client, uuid: str, namespace: str, prefix: str, element: str
) -> None:
    """Put an element into the domain's metadata, in place of that of the same namespace."""
    ref = await lookup(client, uuid)
    kind = numbers.METADATA_ELEMENT
    arguments = protocol.SetMetadata(ref, kind, element, prefix, namespace)
    await client.call(protocol.DOMAIN_SET_METADATA, arguments)


async def document(client: Client, uuid: str, *, running: bool = False) -> DomainDocument:
    """The document of the domain as it is defined, or as a migration would carry it."""
    ref = await lookup(client, uuid)
    flags = _CARRIED if running else _WHOLE
    xml = await client.call(protocol.DOMAIN_GET_XML_DESC, DomainFlags(ref, flags))
    autostart = await client.call(protocol.DOMAIN_GET_AUTOSTART, OneDomain(ref))
    return DomainDocument(xml.text, bool(autostart.number))


async def define(client: Client, document: DomainDocument) -> None:
    """Define the domain of the document."""
    flags = numbers.DEFINE_VALIDATE if document.validated else 0
    given = protocol.Document(document.xml, flags)
    defined = await client.call(protocol.DOMAIN_DEFINE_XML, given)
    arguments = protocol.Autostart(defined.domain, int(document.autostart))
    await client.call(protocol.DOMAIN_SET_AUTOSTART, arguments)


async def undefine(client: Client, uuid: str) -> None:
    """Undefine the domain, if there is one."""
    if ref := await unless({ErrorCode.NO_DOMAIN}, lookup(client, uuid)):
        arguments = DomainFlags(ref, numbers.KEEP_NVRAM)
        gone = client.call(protocol.DOMAIN_UNDEFINE_FLAGS, arguments)
        await unless({ErrorCode.NO_DOMAIN}, gone)


async def _call(client: Client, procedure: Procedure[OneDomain, Result], uuid: str) -> Result:
    """Call a procedure that takes nothing but the domain."""
    return await client.call(procedure, OneDomain(await lookup(client, uuid)))


async def _flagged(
    client: Client, procedure: Procedure[DomainFlags, Result], uuid: str, flags: int = 0
) -> Result:
    """Call a procedure that takes the domain and flags."""
    return await client.call(procedure, DomainFlags(await lookup(client, uuid), flags))


async def _migrate(client: Client, uuid: str, options: MigrationOptions) -> None:
    parameters = [TypedParameter("migrate_disks", target) for target in options.copies]
    if options.stream:
        parameters.append(TypedParameter("migrate_uri", options.stream))
    if options.running:
        parameters.append(TypedParameter("destination_xml", options.running))
    if options.defined:
        parameters.append(TypedParameter("persistent_xml", options.defined))
    flags = _FLAGS | (MigrateFlag.TLS if options.tls else 0)
    flags |= MigrateFlag.NON_SHARED_DISK if options.copies else 0
    ref = await lookup(client, uuid)
    arguments = protocol.Perform(ref, options.destination, tuple(parameters), b"", flags)
    await client.call(protocol.DOMAIN_MIGRATE_PERFORM, arguments)
