"""Questions that show whether a domain's emulator, disks and guest agent are well."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from hypercobalt.adapters.libvirt import monitor, statistics
from hypercobalt.adapters.libvirt.inventory import lookup
from hypercobalt.adapters.libvirt.model import ControlInfo, DiskError
from hypercobalt.adapters.libvirt.port import DomainHungError
from hypercobalt.adapters.libvirt.refusals import NOT_RUNNING, unless
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import RemoteError
from hypercobalt.adapters.libvirt.rpc.numbers import DomainStat, ErrorCode, StatsFlag
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.statistics import BlockStats
from hypercobalt.adapters.libvirt.vocabulary import ControlState, DiskFault

_MOST_ERRORS: Final = 256  # REMOTE_DOMAIN_DISK_ERRORS_MAX
_AGENT_SECONDS: Final = 3  # an agent that is well answers in milliseconds
_PING: Final = '{"execute":"guest-ping"}'


async def control_info(client: Client, uuid: str) -> ControlInfo | None:
    """How the way to the domain's emulator is; never waits for it."""
    ref = await unless(NOT_RUNNING, lookup(client, uuid))
    return ref and await monitor.control_info(client, ref)


async def disk_errors(client: Client, uuid: str) -> tuple[DiskError, ...]:
    """The disks whose errors have paused the domain."""
    ref = await _reachable(client, uuid)
    if ref is None:
        return ()
    arguments = protocol.GetDiskErrors(ref, _MOST_ERRORS)
    found = await unless(NOT_RUNNING, client.call(protocol.DOMAIN_GET_DISK_ERRORS, arguments))
    return tuple(DiskError(one.disk, _fault(one.error)) for one in found.errors) if found else ()


async def block_stats(client: Client, uuid: str) -> tuple[BlockStats, ...] | None:
    """Counters of the domain's disks, by its emulator."""
    if await _reachable(client, uuid) is None:
        return None
    return (await block_stats_of(client, (uuid,))).get(uuid)


async def block_stats_of(
    client: Client, uuids: Collection[str]
) -> dict[str, tuple[BlockStats, ...]]:
    """Counters of the disks of domains, each by its emulator; without those that are off."""
    refs = tuple(DomainRef("", UUID(uuid).bytes) for uuid in uuids)
    arguments = protocol.AllStats(refs, DomainStat.BLOCK, StatsFlag.ACTIVE)
    found = await unless(NOT_RUNNING, client.call(protocol.GET_ALL_DOMAIN_STATS, arguments))
    records = found.records if found else ()
    return {ref.uuid_text: statistics.block_stats(dict(values)) for ref, values in records}


async def agent_answers(client: Client, uuid: str) -> bool | None:
    """Whether the guest's agent answers a ping; None when the domain has none, or is off."""
    try:
        arguments = protocol.AgentCommand(await lookup(client, uuid), _PING, _AGENT_SECONDS)
        await client.call(protocol.QEMU_AGENT_COMMAND, arguments)
    except RemoteError as exc:
        if exc.code == ErrorCode.AGENT_UNRESPONSIVE:
            return False
        if exc.code not in NOT_RUNNING:
            raise
        return None
    return True


async def _reachable(client: Client, uuid: str) -> DomainRef | None:
    """Return the domain whose emulator may be called; None while it is off.

    Each call to a silent emulator holds up a worker of the daemon, so at most one is made.

    Raises:
        DomainHungError: its emulator owes an answer already.
    """
    ref = await unless(NOT_RUNNING, lookup(client, uuid))
    if ref is None or ref.id < 0:
        return None
    found = await monitor.control_info(client, ref)
    if found is not None and found.state is ControlState.OCCUPIED:
        raise DomainHungError(f"{uuid}: its emulator has been silent for {found.seconds:g} s")
    return ref


def _fault(number: int) -> DiskFault:
    return DiskFault(number) if 0 <= number < len(DiskFault) else DiskFault.UNSPECIFIED
