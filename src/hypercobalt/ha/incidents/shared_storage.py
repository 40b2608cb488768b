"""Rules for storage that fails for several instances: no instance is moved for it. Pure.

An instance that I/O errors have paused waits for the storage, and is resumed when the storage is
back, however late.

Source: the HA reference, section 5, IO_ERROR_REASON.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.incident import IncidentType, Reaction, Severity
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, State, Step, key_of
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.pools import pool_of, site_pool_of
from hypercobalt.ha.incidents.signals import HOST
from hypercobalt.ha.incidents.verdict import PROBE_AGAIN

STALLED: Final = timedelta(seconds=60)
"""Time without an answer of a storage and without I/O of an instance until both are reported."""
_MINUTE: Final = timedelta(minutes=1)
_STILL: Final = timedelta(minutes=2)
"""Time after the last such report from which a storage counts as well again."""


def fails_elsewhere(case: Case, failing: Collection[str]) -> str:
    """Return why a case waits for a storage that also fails elsewhere; "" when it does not.

    Args:
        case: a case that is due for recovery.
        failing: storages that fail on this host and on others.
    """
    pool = site_pool_of(case.about)
    if case.type is not IncidentType.IO_ERROR or not pool or pool not in failing:
        return ""
    return f"the storage {pool} fails on other hosts, too"


def wait_for_storage(
    instance: InstanceRecord,
    case: Case,
    why: str,
    config: HaConfig,
    now: datetime,
    *,
    at_least: timedelta = timedelta(0),
) -> tuple[InstanceRecord, bool]:
    """Have a case wait for its storage, and return whether the storage still fails.

    An instance that runs, and has had no error for a while, has its storage back.

    Args:
        instance: that the case is about.
        case: of I/O errors, due for recovery.
        why: reason for the wait.
        config: when errors are over.
        now: time of this pass, UTC.
        at_least: time until the wait of a paused instance begins again.
    """
    waits = replace(case, eviction="", reaction=Reaction.WAIT).with_evidence(why)
    if instance.state is State.PAUSED:
        anew = replace(instance, resumes=0, paused_since=now + at_least)
        return anew.with_case(waits.then(Step.PROBE, now + PROBE_AGAIN)), True
    if now - case.last_seen >= config.thresholds.io_errors_over:
        return instance.with_case(case.then(Step.EXPIRE, now)), False
    return instance.with_case(waits.then(Step.RECOVER, now + _MINUTE)), True


def stalled(host: InstanceRecord, path: str, name: str, now: datetime) -> InstanceRecord:
    """Report a storage that answers no read of the agent's, while an instance on it does no I/O.

    libvirt sends no event, since there is no error. No instance is moved: each goes on when
    the storage does, and QEMU cannot close disks that do not answer.

    Args:
        host: its record.
        path: of the instance's disk.
        name: of the instance.
        now: time of this probe, UTC.
    """
    key = key_of(HOST, host.start, IncidentType.STORAGE_DEGRADED)
    old = next((one for one in host.cases if one.id == key), None)
    text = f"the storage {pool_of(path)} does not answer, and {name} has no I/O"
    case = old or Case(
        id=key,
        type=IncidentType.STORAGE_DEGRADED,
        severity=Severity.CRITICAL,
        start=host.start,
        first_seen=now,
        last_seen=now,
        reaction=Reaction.WAIT,
        about=path,
    )
    due = max(now + _STILL, case.due or now)
    return host.with_case(replace(case, last_seen=now).with_evidence(text).then(Step.EXPIRE, due))
