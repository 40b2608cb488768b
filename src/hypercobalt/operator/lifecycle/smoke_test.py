"""The smoke test: one server is booted on the new host, and prints its name on the console. Pure.

A server counts only if this operator booted it for this host and noted its UUID; any other server
of that name is deleted first. Waits and tries are limited.

Source: openstack-hypervisor-operator, internal/controller/onboarding_controller.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Final

from hypercobalt.api.duration import short_duration
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import SmokeTest
from hypercobalt.compute.model import ServerStatus, TestServer
from hypercobalt.operator.lifecycle.settings import LifecycleSettings

CONSOLE_LINES: Final = 11
_LONGEST_FAULT: Final = 500  # characters


class SmokeTestAction(Enum):
    """Next action of the smoke test."""

    CREATE = auto()
    WAIT = auto()
    DELETE = auto()
    PASSED = auto()
    """Delete the server, and go on."""
    GIVEN_UP = auto()


@dataclass(frozen=True, slots=True)
class SmokePlan:
    """Actions of one pass.

    Args:
        next: see `SmokeTestAction`.
        message: for a person.
        test: how far it is then.
        delete: servers to delete; some are left when it is given up because of them.
    """

    next: SmokeTestAction
    message: str
    test: SmokeTest
    delete: tuple[TestServer, ...] = ()


def server_name(hypervisor: Hypervisor, host: str) -> str:
    """Return the name of the test server; no other host's name begins with it."""
    return f"ohooc--{host}-{hypervisor.metadata.uid}"


def wants_console(found: Sequence[TestServer], test: SmokeTest) -> TestServer | None:
    """Return the server with the console that decides, if it runs."""
    mine = next((server for server in found if server.id == test.server), None)
    return mine if mine is not None and mine.status == ServerStatus.ACTIVE else None


def decide(
    found: Sequence[TestServer],
    test: SmokeTest,
    console: str | None,
    settings: LifecycleSettings,
    now: datetime,
) -> SmokePlan:
    """Decide how the test goes on.

    Args:
        found: servers of the test's name.
        test: how far it is.
        console: last lines of the running server's console; None when it does not run, or the
            console cannot be read yet.
        settings: limits.
        now: the only clock that this function sees.
    """
    attempts = test.attempts or 0
    count = f"try {max(attempts, 1)} of {settings.test_tries}"
    mine = next((server for server in found if server.id == test.server), None)
    others = tuple(server for server in found if server is not mine)
    if mine is None and others:
        return _deleting(test, others, settings, now)
    if mine is None and test.server is not None:
        return _failed(test, "it was deleted outside hypercobalt", settings, now)
    if mine is None and attempts >= settings.test_tries:
        text = f"Smoke test failed {attempts} times, at last: {test.lastFailure}"
        return SmokePlan(SmokeTestAction.GIVEN_UP, text, test)
    if mine is None:
        why = f"; the one before: {test.lastFailure}" if test.lastFailure else ""
        text = f"Smoke test, try {attempts + 1} of {settings.test_tries}: booting a server{why}"
        return SmokePlan(
            SmokeTestAction.CREATE, text, SmokeTest(attempts + 1, None, test.lastFailure)
        )
    if mine.status == ServerStatus.ERROR:
        return _failed(
            test, mine.fault[:_LONGEST_FAULT] or "it went into ERROR", settings, now, found
        )
    if mine.status != ServerStatus.ACTIVE:
        if now - mine.created >= settings.build_limit:
            why = f"still {mine.status} after {short_duration(settings.build_limit)}"
            return _failed(test, why, settings, now, found)
        since = f"{mine.created:%H:%M:%SZ}"
        text = f"Smoke test, {count}: server {mine.id} is {mine.status} since {since}"
        return SmokePlan(SmokeTestAction.WAIT, text, test, others)
    if console is not None and mine.name in console:
        text = f"Smoke test, {count}: server {mine.id} has booted"
        return SmokePlan(SmokeTestAction.PASSED, text, test, tuple(found))
    if mine.launched is not None and now - mine.launched >= settings.console_limit:
        why = (
            f"timeout: no output on its console {short_duration(settings.console_limit)} "
            f"after its launch at {mine.launched:%H:%M:%SZ}"
        )
        return _failed(test, why, settings, now, found)
    text = f"Smoke test, {count}: server {mine.id} runs, its console does not show its name yet"
    return SmokePlan(SmokeTestAction.WAIT, text, test, others)


def _deleting(
    test: SmokeTest, others: tuple[TestServer, ...], settings: LifecycleSettings, now: datetime
) -> SmokePlan:
    since = test.deletingSince or now.replace(microsecond=0)
    after = SmokeTest(test.attempts or 0, None, test.lastFailure, since)
    if now - since >= settings.build_limit:
        text = (
            "Test servers of earlier tries are still there "
            f"{short_duration(settings.build_limit)} after they were to be deleted, at "
            f"{since:%H:%M:%SZ}: {_ids(others)}"
        )
        return SmokePlan(SmokeTestAction.GIVEN_UP, text, after, others)
    text = (
        f"Waiting until test servers of earlier tries are deleted, since {since:%H:%M:%SZ}: "
        f"{_ids(others)}"
    )
    return SmokePlan(SmokeTestAction.DELETE, text, after, others)


def _failed(
    test: SmokeTest,
    why: str,
    settings: LifecycleSettings,
    now: datetime,
    found: Sequence[TestServer] = (),
) -> SmokePlan:
    attempts, wrong = test.attempts or 1, f"server {test.server}: {why}"
    text = f"Smoke test, try {attempts} of {settings.test_tries} failed: {wrong}"
    after = SmokeTest(attempts, None, wrong, now.replace(microsecond=0) if found else None)
    return SmokePlan(SmokeTestAction.DELETE, text, after, tuple(found))


def _ids(servers: Sequence[TestServer]) -> str:
    return ", ".join(server.id for server in servers)
