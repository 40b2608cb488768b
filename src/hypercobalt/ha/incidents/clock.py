"""Corrects the record of an instance after the host's clock was set back. Pure.

A time in the future would make comparisons wrong until it has come: a reboot "within 2 s of the
last one", a recovery "10 s after the last one". Such times are replaced by the present.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from hypercobalt.ha.incidents.cases import Case, DiskErrors, InstanceRecord


def set_back(instance: InstanceRecord, by: timedelta, now: datetime) -> InstanceRecord:
    """Return the instance after the clock was set back; steps that were due later keep their delay.

    Args:
        instance: its record by the clock before.
        by: how far it was set back.
        now: by the clock as it is.
    """
    cases = tuple(replace(case, due=case.due - by) if case.due else case for case in instance.cases)
    return _until_now(replace(instance, cases=cases), now)


def by_this_clock(instance: InstanceRecord, now: datetime) -> InstanceRecord:
    """Correct the record of an earlier process, whose clock may have been ahead of the present one.

    Since then the host may have booted with another time.
    """
    none = timedelta(0)
    cases = tuple(
        replace(case, due=case.due - max(case.last_seen - now, none)) if case.due else case
        for case in instance.cases
    )
    return _until_now(replace(instance, cases=cases), now)


def _until_now(instance: InstanceRecord, now: datetime) -> InstanceRecord:
    def past(times: tuple[datetime, ...]) -> tuple[datetime, ...]:
        return tuple(min(time, now) for time in times)

    return replace(
        instance,
        resumed_at=_past(instance.resumed_at, now),
        paused_since=_past(instance.paused_since, now),
        crashes=past(instance.crashes),
        reboots=past(instance.reboots),
        watchdogs=past(instance.watchdogs),
        memory_failures=past(instance.memory_failures),
        memory_warnings=past(instance.memory_warnings),
        recoveries=past(instance.recoveries),
        incidents=past(instance.incidents),
        evictions=tuple(replace(one, at=min(one.at, now)) for one in instance.evictions),
        disks=tuple(_disk(one, now) for one in instance.disks),
        cases=tuple(_case(one, now) for one in instance.cases),
    )


def _past(time: datetime | None, now: datetime) -> datetime | None:
    return min(time, now) if time else None


def _disk(disk: DiskErrors, now: datetime) -> DiskErrors:
    return replace(disk, since=min(disk.since, now), suspect=_past(disk.suspect, now))


def _case(case: Case, now: datetime) -> Case:
    seen = min(case.last_seen, now)
    return replace(case, first_seen=min(case.first_seen, now), last_seen=seen)
