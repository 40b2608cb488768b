"""The content of a Migration: libvirt's statistics as text, names, labels, expiry. Pure.

Source: kvm-node-agent, api/v1alpha1/migration_types.go; libvirt-domain.h, VIR_DOMAIN_JOB_*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.model import JobStats, JobType
from hypercobalt.agent.text import clean
from hypercobalt.api.codec import to_builtins
from hypercobalt.api.duration import DurationError, format_nanoseconds, parse_duration
from hypercobalt.api.iec import format_iec, format_iec_rate
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import (
    MIGRATION_TYPES,
    ORIGIN,
    SERVER,
    Migration,
    MigrationOperation,
    MigrationSpec,
    MigrationStatus,
    MigrationType,
    label_value,
)
from hypercobalt.node_agent.settings import MigrationNames, Retention

GRACE: Final = timedelta(seconds=10)
"""What the destination leaves the source, after an arrival or a failed one, to end its object.

After that the destination ends it; a source that saw no end itself waits for that.
"""

_OPERATIONS: Final = tuple(MigrationOperation)
_MAX: Final = 2**63 - 1
_NANOSECONDS: Final = 10**6  # in a millisecond
_MAX_ERROR: Final = 4096
_RECENT: Final = timedelta(hours=1)
_CLOCKS: Final = timedelta(seconds=10)  # how far those of two hosts may be apart
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_SAME_START: Final = timedelta(seconds=3)
_START: Final = "%Y%m%d-%H%M%S"


def _duration(milliseconds: int) -> str:
    return format_nanoseconds(min(milliseconds * _NANOSECONDS, _MAX))


_TEXTS: Final[dict[str, tuple[str, Callable[[int], str]]]] = {
    "timeElapsed": ("time_elapsed", _duration),
    "timeRemaining": ("time_remaining", _duration),
    "downtime": ("downtime", _duration),
    "setupTime": ("setup_time", _duration),
    "dataTotal": ("data_total", format_iec),
    "dataProcessed": ("data_processed", format_iec),
    "dataRemaining": ("data_remaining", format_iec),
    "memTotal": ("memory_total", format_iec),
    "memProcessed": ("memory_processed", format_iec),
    "memRemaining": ("memory_remaining", format_iec),
    "memNormalBytes": ("memory_normal_bytes", format_iec),
    "memPageSize": ("memory_page_size", format_iec),
    "diskTotal": ("disk_total", format_iec),
    "diskProcessed": ("disk_processed", format_iec),
    "diskRemaining": ("disk_remaining", format_iec),
    "memBps": ("memory_bps", format_iec_rate),
    "diskBps": ("disk_bps", format_iec_rate),
    "memDirtyRate": ("memory_dirty_rate", "{}/s".format),
    "autoConvergeThrottle": ("auto_converge_throttle", "{}%".format),
}
"""Field to libvirt's parameter and the text form."""

_COUNTS: Final = {
    "memConstant": "memory_constant",
    "memNormal": "memory_normal",
    "memIteration": "memory_iteration",
    "memPostcopyRequests": "memory_postcopy_requests",
}


def is_outgoing(stats: JobStats | None) -> bool:
    """Whether the job moves its domain away from this host."""
    return stats is not None and stats.is_outgoing


def is_arrival(stats: JobStats | None) -> bool:
    """Whether a domain's last job has brought it to this host."""
    return stats is not None and stats.type is JobType.COMPLETED and stats.is_incoming


def is_finished(migration: Migration) -> bool:
    """Whether its end is written."""
    return migration.status.type in MIGRATION_TYPES.ends


def with_stats(status: MigrationStatus, stats: JobStats) -> MigrationStatus:
    """Return `status` with the statistics; fields that they lack stay."""
    fields: dict[str, object] = {
        field: write(value)
        for field, (name, write) in _TEXTS.items()
        if (value := _whole(stats, name)) is not None
    }
    fields |= {field: value for field, name in _COUNTS.items() if (value := _whole(stats, name))}
    if MIGRATION_TYPES.allow(status.type, stats.type.value):
        fields["type"] = stats.type.value
    operation = _whole(stats, "operation")
    if operation is not None and operation < len(_OPERATIONS):
        fields["operation"] = _OPERATIONS[operation].value
    if isinstance(error := stats.values.get("errmsg"), str) and error:
        fields["errMsg"] = clean(error)[:_MAX_ERROR]
    return replace(status, **fields)


def ended(
    status: MigrationStatus, type_: MigrationType, error: str | None = None
) -> MigrationStatus:
    """Return `status` as it is at the end; libvirt's own error goes first."""
    message = status.errMsg or (clean(error)[:_MAX_ERROR] if error else None)
    if type_ is MigrationType.COMPLETED:
        message = None
    end = type_.value if MIGRATION_TYPES.allow(status.type, type_) else status.type
    return replace(status, type=end, timeRemaining=None, errMsg=message)


def changed_fields(old: MigrationStatus, new: MigrationStatus) -> dict[str, object]:
    """The merge patch between two statuses, which are flat; it leaves the rest to its writers."""
    before, after = to_builtins(old), to_builtins(new)
    fields = {name: value for name, value in after.items() if before.get(name) != value}
    fields.update(dict.fromkeys(before.keys() - after.keys()))
    return fields


def started_at(stats: JobStats | None, now: datetime) -> datetime:
    """When a job that is seen at `now` began, to the second."""
    elapsed = (_whole(stats, "time_elapsed") or 0) if stats else 0
    begun = now - timedelta(milliseconds=min(elapsed, 10**12))
    return begun.astimezone(UTC).replace(microsecond=0)


def new_migration(
    server: str, started: datetime, host: str, *, namespace: str, names: MigrationNames
) -> Migration:
    """The object for a migration that starts on `host`; the status comes in a second write."""
    start = started.strftime(_START)
    return Migration(
        metadata=ObjectMeta(
            name=server if names is MigrationNames.SERVER else f"{server}-{start}",
            namespace=namespace,
            labels={SERVER: label_value(server), ORIGIN: label_value(host)},
        ),
        spec=MigrationSpec(),
    )


def drawn_name(server: str, started: datetime, digits: str) -> str:
    """A name for a migration whose own another host has taken; no host can reckon the digits."""
    return f"{server}-{digits}-{started.strftime(_START)}"


def is_of(migration: Migration, started: datetime) -> bool:
    """Whether an object is of the migration that began then, to a tolerance.

    One without a status has its start in the name, if anywhere.
    """
    began = migration.status.started or _start_in(migration.metadata.name)
    return began is not None and abs(began - started) <= _SAME_START


def _start_in(name: str) -> datetime | None:
    try:
        return datetime.strptime("-".join(name.rsplit("-", 2)[-2:]), _START).replace(tzinfo=UTC)
    except ValueError:
        return None


def to_claim(
    migrations: Iterable[Migration], host: str, began: datetime, now: datetime
) -> Migration | None:
    """The migration that a server comes to `host` by: the newest one that names no destination.

    Args:
        migrations: of that server.
        host: where it arrives.
        began: when the arrival did; one that had ended by then is another one.
        now: one that begins later is no migration yet.
    """
    open_ = [
        migration
        for migration in _coming(migrations, host, now)
        if _may_be_for(migration, host)
        and (not is_finished(migration) or _ended_at(migration) > began - _CLOCKS)
    ]
    return max(open_, key=_age_key, default=None)


def arrived_by(migrations: Iterable[Migration], host: str, now: datetime) -> Migration | None:
    """The migration that a server came to `host` by, at a time unknown: the newest one.

    None if that has its destination and its end, or if the server may have come by a later one of
    which there is no object.
    """
    newest = max(_coming(migrations, host, now), key=_age_key, default=None)
    if newest is None or not _may_be_for(newest, host):
        return None
    return None if is_finished(newest) and now - _since(newest, now) > _RECENT else newest


def _coming(migrations: Iterable[Migration], host: str, now: datetime) -> list[Migration]:
    return [
        migration
        for migration in migrations
        if migration.status.started is not None
        and migration.status.started - now <= _CLOCKS
        and migration.status.origin != host
        and migration.status.type not in {MigrationType.FAILED, MigrationType.CANCELLED}
    ]


def _may_be_for(migration: Migration, host: str) -> bool:
    """Whether it names no destination, or is under way and was claimed here before a restart."""
    if migration.status.destination == host:
        return not is_finished(migration)
    return not migration.status.destination


def _ended_at(migration: Migration) -> datetime:
    """When it ended by its own fields, on the clock of its origin."""
    began = migration.status.started or _NEVER
    try:
        return began + parse_duration(migration.status.timeElapsed or "0s")
    except (DurationError, OverflowError):
        return began


def expired(
    migrations: Iterable[Migration], now: datetime, retention: Retention
) -> tuple[Migration, ...]:
    """The finished migrations that have been kept for long enough, or are too many."""
    finished = sorted(filter(is_finished, migrations), key=_age_key, reverse=True)
    return tuple(
        migration
        for position, migration in enumerate(finished)
        if position >= retention.count or now - _since(migration, now) > retention.age
    )


def _age_key(migration: Migration) -> tuple[datetime, str]:
    return _since(migration, _NEVER), migration.metadata.name


def _since(migration: Migration, unknown: datetime) -> datetime:
    """When it began: under upstream's names the object may be much older than its migration."""
    known = (migration.metadata.creationTimestamp, migration.status.started)
    return max((time for time in known if time is not None), default=unknown)


def _whole(stats: JobStats, name: str) -> int | None:
    """A parameter as a number that a signed 64-bit field can hold; None when it is none."""
    value = stats.values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return min(value, _MAX)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a migration ended.

    Args:
        stats: of the ended job, where libvirt has them.
        error: for a person, when libvirt gives no reason.
    """

    type: MigrationType
    stats: JobStats | None = None
    error: str | None = None


def ending_of(stats: JobStats) -> Ending | None:
    """How the job of these statistics ended; None while it goes on."""
    if stats.values.get("success") is False and stats.type is JobType.COMPLETED:
        return Ending(MigrationType.FAILED, stats)
    match stats.type:
        case JobType.COMPLETED:
            return Ending(MigrationType.COMPLETED, stats)
        case JobType.FAILED:
            return Ending(MigrationType.FAILED, stats, "the migration failed")
        case JobType.CANCELLED:
            return Ending(MigrationType.CANCELLED, stats, "the migration was cancelled")
        case _:
            return None


def stayed(qemu_status: str) -> Ending:
    """How a migration ended whose job is gone while its instance still runs here.

    Args:
        qemu_status: QEMU's last one of it; "" when none was reported.
    """
    match qemu_status:
        case "failed":
            return Ending(MigrationType.FAILED, error="the migration failed")
        case "cancelling" | "cancelled":
            why = "on request, or because libvirt lost the other host"
            return Ending(MigrationType.CANCELLED, error=f"the migration was cancelled, {why}")
        case _:
            why = "the migration failed or was cancelled; the instance still runs at its origin"
            return Ending(MigrationType.FAILED, error=why)


def unseen(why: str) -> Ending:
    """An end without evidence counts as failed."""
    return Ending(MigrationType.FAILED, error=f"outcome not seen: {why}")


def finish(status: MigrationStatus, ending: Ending) -> MigrationStatus:
    """Return `status` with how the migration ended."""
    last = with_stats(status, ending.stats) if ending.stats is not None else status
    return ended(replace(last, type=status.type), ending.type, ending.error)
