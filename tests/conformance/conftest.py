"""Fixtures of the conformance suite, and its report of the accepted differences."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # the suite's modules import each other as tests.conformance.…
    sys.path.insert(0, str(ROOT))

from tests.conformance.differences import ACCEPTED  # noqa: E402
from tests.conformance.prepare import install_definitions, own_definitions  # noqa: E402
from tests.conformance.real import Server, StartError, real_server  # noqa: E402
from tests.conformance.samples import GADGETS, TRINKETS  # noqa: E402
from tests.conformance.script import Pair  # noqa: E402
from tests.conformance.targets import SUBJECT, client_of, subject_server  # noqa: E402


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Start the real server and the one under test, once; with the suite's CRDs installed."""
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(subject_server(tmp_path_factory.mktemp("ours")))
            real = stack.enter_context(real_server(tmp_path_factory.mktemp("real")))
        except StartError as error:
            pytest.exit(str(error), returncode=3)  # no scenario can run
        for server in (real, ours):
            install_definitions(server, [GADGETS, TRINKETS, *own_definitions()])
        yield real, ours


@pytest.fixture(scope="session")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Start a pair whose history can be thrown away (`compaction.compact`)."""
    with ExitStack() as stack:
        try:
            ours = stack.enter_context(subject_server(tmp_path_factory.mktemp("ours")))
            real = stack.enter_context(
                real_server(tmp_path_factory.mktemp("real"), watch_cache=False)
            )
        except StartError as error:
            pytest.exit(str(error), returncode=3)
        for server in (real, ours):
            install_definitions(server, [GADGETS])
        yield real, ours


@pytest.fixture
async def pair(servers: tuple[Server, Server], pytestconfig: pytest.Config) -> AsyncIterator[Pair]:
    transcripts = pytestconfig.getoption("transcripts")
    async with client_of(servers[0]) as real, client_of(servers[1]) as ours:
        yield Pair((servers[0], real), (servers[1], ours), transcripts)


@pytest.fixture
def embedded(servers: tuple[Server, Server]) -> Server:
    """The embedded server alone, for what a bare kube-apiserver leaves to its controllers."""
    if SUBJECT == "real":
        pytest.skip("needs the embedded server")
    return servers[1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a whole, successful run in which an accepted difference was not seen.

    It is no test that could be tried again, so the exit code is not the one of failed tests.
    """
    if session.exitstatus == pytest.ExitCode.OK and _not_seen(session.config):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if SUBJECT == "real" or config.getoption("again"):
        return
    terminalreporter.section("accepted differences")
    for entry in ACCEPTED:
        terminalreporter.line(f"{entry.used:4}x {entry.reason}")
    if not_seen := _not_seen(config):
        terminalreporter.section("no longer different: take these from differences.py")
        for reason in not_seen:
            terminalreporter.line(f"  {reason}")


def _not_seen(config: pytest.Config) -> list[str]:
    """Reasons of the accepted differences that a whole run has not met."""
    whole = config.args == [str(Path(__file__).parent)] or config.getoption("whole")
    if not whole or config.getoption("again") or SUBJECT == "real":
        return []
    return [entry.reason for entry in ACCEPTED if not entry.used]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="fail when an accepted difference is not seen"
    )
    parser.addoption("--transcripts", type=Path, help="write what both servers answered here")
