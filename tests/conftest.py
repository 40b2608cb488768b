"""Fixtures of all tests."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from hypercobalt import logs
from tests import first, rings
from tests.cost import spare_the_collector

# A shell makes its background jobs ignore Ctrl-C, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


# An example may take long beside other work; a test that hangs meets the deadline of every test.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    rings.add_options(parser)
    parser.addoption(
        "--soak", type=float, default=25.0, help="seconds of random failures, in tests of those"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    rings.configure(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before pytest selects some of them by their markers."""
    first.mark(items)


def pytest_collection_finish() -> None:
    """Spare the collector all modules and tests: a tenth of a second each time that it runs."""
    spare_the_collector()


@pytest.fixture(scope="session")
def spare_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def no_stray_loop(request: pytest.FixtureRequest, spare_loop: asyncio.AbstractEventLoop) -> None:
    """Have a current loop in tests that are not async.

    looptime gets it there too, and Python 3.11 then makes one that is never closed: a warning,
    and so an error, in whichever test the garbage is collected.
    """
    if not inspect.iscoroutinefunction(request.function):
        asyncio.set_event_loop(spare_loop)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Put back what a command that a test has run makes of the root logger."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def written_logs() -> io.StringIO:
    """Record the log lines of a service from here on."""
    stream = io.StringIO()
    logs.configure(stream=stream)
    return stream
