"""One recorded domain scenario: what libvirt reported on its host, and the domain afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from hypercobalt.adapters.libvirt.events import EventKind
from hypercobalt.adapters.libvirt.vocabulary import ControlState, DiskFault
from tests.traces.trace import Recorded

FOLDER = Path(__file__).parent / "domains"

# How many of these come, and when, is a matter of the machine's speed. A monitor's error comes
# before the stop of a QEMU that ends with a question of libvirt unread: its socket is reset.
_UNEVEN = {
    EventKind.MIGRATION_STATUS,
    EventKind.MIGRATION_ITERATION,
    EventKind.DEVICE_CHANGED,
    EventKind.CONTROL_ERROR,
}
# libvirt's event loop and its worker report a panic side by side: the pause comes in one of five,
# and may come last, as it is queued after the domain is let go (qemuProcessHandleStop).
_PAUSED_BY_PANIC, _PANICKED = "lifecycle 3 0", "lifecycle 8 0"
_REPEATED = {EventKind.IO_ERROR, EventKind.REBOOT}


class Link(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the connection.

    Args:
        at: seconds since the record began.
        lost: why there is none; "" when it stands.
    """

    at: float
    lost: str = ""


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """The domain at the end.

    Args:
        state: virDomainState.
        reason: of the state.
        id: of its start; -1 while it is off.
        control: of the way to its emulator, after one call to it; None while it is off.
        errors: of its disks, by their targets.
    """

    state: int
    reason: int
    id: int = -1
    control: ControlState | None = None
    errors: dict[str, DiskFault] = {}


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one host reported.

    Args:
        events: of the domain, in their order.
        links: changes of the connection, the first one that it stands.
        after: None when the host had no such domain.
    """

    events: tuple[Recorded, ...]
    links: tuple[Link, ...]
    after: Found | None = None


class DomainTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record.

    Args:
        source: where it was made: the versions, and by what.
        scenario: what was done.
        host: where the domain was started.
        target: where it was migrated to, of a migration.
    """

    source: str
    scenario: str
    host: Side
    target: Side | None = None


def names() -> list[str]:
    """Names of all records."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def load(name: str) -> DomainTrace:
    """Load one record."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=DomainTrace)


def save(name: str, trace: DomainTrace) -> None:
    """Keep a record."""
    FOLDER.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(trace), indent=1)
    (FOLDER / f"{name}.json").write_bytes(text + b"\n")


def steps(events: Iterable[Recorded]) -> list[str]:
    """Events as every record of the scenario has them: order and meaning, without times."""
    found = [(one.kind in _REPEATED, _step(one)) for one in events if one.kind not in _UNEVEN]
    panicked = any(step == _PANICKED for _, step in found)
    found = [one for one in found if not (panicked and one[1] == _PAUSED_BY_PANIC)]
    return [
        step
        for before, (repeated, step) in zip([None, *found], found, strict=False)
        if not (repeated and (repeated, step) == before)
    ]


def _step(event: Recorded) -> str:
    operation = event.stats.values.get("operation") if event.stats else ""
    return f"{event.kind} {event.type} {event.detail} {event.reason} {operation}".rstrip()
