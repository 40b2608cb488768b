"""One recorded migration: what the libvirt of each of its hosts reported, and when."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import JobStats

FOLDER = Path(__file__).parent


class Recorded(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event of the domain, with the fields of `DomainEvent`.

    Args:
        at: seconds since the record began.
    """

    at: float
    kind: EventKind
    type: int = 0
    detail: int = 0
    reason: str = ""
    stats: JobStats | None = None
    domain_id: int = -1
    path: str = ""
    alias: str = ""
    flags: int = 0

    @classmethod
    def of(cls, event: DomainEvent, at: float) -> Recorded:
        """What an event carried."""
        return cls(
            at=at,
            kind=event.kind,
            type=event.type,
            detail=event.detail,
            reason=event.reason,
            stats=event.stats,
            domain_id=event.domain_id,
            path=event.path,
            alias=event.alias,
            flags=event.flags,
        )


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """The domain's job, read at `at`; None when there was none."""

    at: float
    job: JobStats | None = None


class Side(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the two hosts.

    Args:
        events: in their order.
        samples: of the job.
        last: the completed job that libvirt kept.
        runs: whether the domain ran there at the end.
    """

    events: tuple[Recorded, ...]
    samples: tuple[Sample, ...]
    last: JobStats | None
    runs: bool

    def job_at(self, at: float) -> JobStats | None:
        """The job as it was last seen before a time."""
        seen = [one.job for one in self.samples if one.at <= at]
        return seen[-1] if seen else None


class Trace(msgspec.Struct, frozen=True):
    """A record.

    Args:
        source: where it was made: the versions, and by what.
        scenario: what was done.
    """

    source: str
    scenario: str
    origin: Side
    destination: Side


def names() -> list[str]:
    """Names of all records."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def load(name: str) -> Trace:
    """Load one record."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Trace)


def save(name: str, trace: Trace) -> None:
    """Keep a record."""
    text = msgspec.json.format(msgspec.json.encode(trace), indent=1)
    (FOLDER / f"{name}.json").write_bytes(text + b"\n")
