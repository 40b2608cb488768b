"""The HA agent's configuration: one document, valid as a whole or not at all. Pure.

It stands under the key `config.yaml` of a ConfigMap; a key that is absent has its default, an
unknown one is an error. The thresholds are those of the HA reference, sections 4, 5 and 10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Annotated, Final

import msgspec
import yaml

from hypercobalt.api.duration import DurationError, parse_duration
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.incidents.cases import MOST_TIMES
from hypercobalt.ha.incidents.signals import EventType

KEY: Final = "config.yaml"

_LONGEST: Final = timedelta(days=7)
_MOST: Final = 64 * 1024
"""Most characters of the document: reading a longer one would hold up everything else."""
_MOST_TEXT: Final = 500  # characters of an error
_DEEPEST: Final = 8

Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Rare = Annotated[int, msgspec.Meta(ge=1, le=MOST_TIMES)]
"""Number of moments that are remembered one by one; a greater limit would never be reached."""
Percent = Annotated[int, msgspec.Meta(ge=1, le=100)]


class InvalidConfigError(HypercobaltError):
    """A ConfigMap that is not a valid configuration of the HA agent."""


class Span(timedelta):
    """A length of time, written as `10s` or `1h30m`."""


class Document(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Base of the configuration's parts."""


class EventConfig(Document, frozen=True):
    """Settings for the events of one type.

    Args:
        monitored: they are judged; otherwise they do nothing but count.
        reported: the status lists incidents of this type, and each gets an Event; reactions do not
            depend on it.
    """

    monitored: bool = True
    reported: bool = True


class Often(Document, frozen=True):
    """A number of times within a span of time."""

    count: Rare
    within: Span


class Errors(Document, frozen=True):
    """A number of disk errors within a span of time: they are counted, not remembered."""

    count: Count
    within: Span


class ManyCrashes(Document, frozen=True):
    """When crashes count as the host's: both the share and the number have to be reached.

    Args:
        percent: of the host's instances.
        count: at least so many.
        within: the span of time.
    """

    percent: Percent = 30
    count: Count = 3
    within: Span = Span(seconds=60)


class RecoveryLimits(Document, frozen=True):
    """Upper limits of what is done.

    Args:
        recoveries_per_hour: of one instance; starts after reboots of its host do not count.
        recoveries_per_day: of one instance, counted in the same way.
        incidents_per_minute: of the host; beyond it events only count.
        backoff: waits before the second, third, … recovery of an instance within an hour, and
            before its second, third, … resume after I/O errors.
        resumes: of one start of an instance after I/O errors.
        cool_down: before an Eviction that has ended is made again for the same incident.
    """

    recoveries_per_hour: Rare = 3
    recoveries_per_day: Rare = 5
    incidents_per_minute: Count = 10
    backoff: Annotated[tuple[Span, ...], msgspec.Meta(min_length=1, max_length=8)] = (
        Span(seconds=10),
        Span(seconds=30),
        Span(seconds=120),
    )
    resumes: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    cool_down: Span = Span(minutes=10)


class Thresholds(Document, frozen=True):
    """When something counts as an incident, or as worse than before.

    Args:
        crashes: so often, and an instance moves instead of being restarted in place.
        many_crashes: so many, and they are one incident of the host.
        reboot_deadline: within which an instance has to be back after a reboot, a watchdog or a
            panic whose memory its crash kernel saves.
        reboot_loop: so many reboots are a loop.
        watchdog_again: a watchdog that fires again within it moves the instance.
        io_errors: so many of one disk, again after that time, and they persist.
        io_error_wait: how long an instance that I/O errors pause waits for its storage.
        io_errors_over: without a further error, the incident is closed.
        control_error_wait: how long an error of the monitor may last.
        monitor_occupied: a monitor that owes an answer for so long is reported.
        monitor_hung: and for so long, the instance is recovered.
        paused: how long an instance may be paused before it is reported.
        memory_failures: so many grave ones, and the host is emptied.
        corrected_memory_failures: so many reported to guests are an incident of the host.
    """

    crashes: Often = Often(count=3, within=Span(minutes=10))
    many_crashes: ManyCrashes = ManyCrashes()
    reboot_deadline: Span = Span(seconds=120)
    reboot_loop: Often = Often(count=5, within=Span(minutes=10))
    watchdog_again: Span = Span(minutes=10)
    io_errors: Errors = Errors(count=5, within=Span(seconds=60))
    io_error_wait: Span = Span(minutes=5)
    io_errors_over: Span = Span(minutes=10)
    control_error_wait: Span = Span(seconds=60)
    monitor_occupied: Span = Span(seconds=60)
    monitor_hung: Span = Span(minutes=5)
    paused: Span = Span(minutes=10)
    memory_failures: Often = Often(count=2, within=Span(hours=24))
    corrected_memory_failures: Often = Often(count=3, within=Span(hours=1))


class HaConfig(Document, frozen=True):
    """The whole document.

    Args:
        dry_run: only record which actions would be taken.
        restart_on_guest_shutdown: start instances again that their own guests have shut down.
        events: by type.
        limits: upper limits of what is done.
        thresholds: when something counts.
    """

    dry_run: bool = False
    restart_on_guest_shutdown: bool = False
    events: dict[EventType, EventConfig] = {}
    limits: RecoveryLimits = RecoveryLimits()
    thresholds: Thresholds = Thresholds()

    def event(self, type_: EventType) -> EventConfig:
        """Return the settings for the events of a type."""
        return self.events.get(type_, _DEFAULT_EVENT)


_DEFAULT_EVENT: Final = EventConfig()


def parse(data: Mapping[str, str], binary: Collection[str] = ()) -> HaConfig:
    """Read a ConfigMap's `data`.

    Args:
        data: of the ConfigMap.
        binary: keys of the ConfigMap's `binaryData`.

    Raises:
        InvalidConfigError: a key, a value or the YAML is wrong; the message names it.
    """
    if binary:
        key = sorted(binary)[0][:64]
        raise InvalidConfigError(f"binaryData has {key!r}: the document has to be UTF-8 text")
    if odd := sorted(set(data) - {KEY}):
        raise InvalidConfigError(f"unknown key {odd[0][:64]!r}: the document belongs under {KEY}")
    found = _load(data.get(KEY, ""))
    try:
        return msgspec.convert({} if found is None else found, HaConfig, dec_hook=_decode)
    except (msgspec.ValidationError, DurationError) as exc:
        raise InvalidConfigError(f"{KEY}: {str(exc)[:_MOST_TEXT]}") from exc


def _load(text: str) -> object:
    """Return the YAML of a document, decoded.

    Raises:
        InvalidConfigError: the document cannot be read.
    """
    if len(text) > _MOST:
        raise InvalidConfigError(f"{KEY}: has {len(text)} characters, at most {_MOST} are allowed")
    try:
        _refuse_bombs(text)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as exc:
        raise InvalidConfigError(f"{KEY}: {str(exc)[:_MOST_TEXT]}") from exc
    except (ArithmeticError, AttributeError, LookupError, RecursionError, ValueError) as exc:
        # PyYAML lets them through: of a day 2026-02-30, of an empty !!int, of 1,000 brackets.
        text = str(exc)[:_MOST_TEXT]
        raise InvalidConfigError(f"{KEY}: a value cannot be read: {text}") from exc


def _refuse_bombs(text: str) -> None:
    """Refuse aliases, which expand to any size, and deep nesting, which costs stack.

    Raises:
        YAMLError: the document has an alias, or is nested too deep.
    """
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported: write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(f"nested more than {_DEEPEST} levels deep")


def hash_of(data: Mapping[str, str]) -> str:
    """Return a short name of a document, to see which one is active."""
    return hashlib.sha256(data.get(KEY, "").encode()).hexdigest()[:8]


def _decode(_: type, value: object) -> object:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:64]!r} is not a duration: write it as 10s or 1h30m")
    duration = parse_duration(value)
    if not timedelta(0) < duration <= _LONGEST:
        raise DurationError(f"duration {value!r}: must be more than 0s, and at most 168h")
    return Span(seconds=duration.total_seconds())
