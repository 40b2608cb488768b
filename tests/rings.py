"""A ring of tests keeps to its budget, and what needed a second try is named.

`--ring NAME` holds the time to `budgets.toml`: CI fails beyond it. `--again` names what failed in
the try before; the names stay in the ring's own cache (`scripts/ring`) with the seed of that try,
and each later ring of the run shows them.
"""

from __future__ import annotations

import os
import time
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.spent import Group, Meter, Spent

BUDGETS: Final[dict[str, float]] = tomllib.loads(
    Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8")
)
AT_MOST: Final = 4
"""Tests of all rings, some 3,500, that may need a second try; more of them hide a race."""
_FAILED, _SEED = "cache/lastfailed", "rings/seed"


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--ring", choices=sorted(BUDGETS), help="hold the time to this ring's budget")
    parser.addoption("--again", action="store_true", help="name what failed in the try before")


def configure(config: pytest.Config) -> None:
    """Begin a ring.

    Raises:
        pytest.UsageError: more tests need a second try than may.
    """
    ring, is_worker = config.getoption("--ring"), hasattr(config, "workerinput")
    if not ring:
        return
    if not is_worker:
        config.pluginmanager.register(Ring(config, ring, again=config.getoption("--again")))
    runs_tests = is_worker or not config.getoption("numprocesses", None)
    if runs_tests and (group := Group.join()):
        config.pluginmanager.register(Meter(group))


class Ring:
    """A plugin for the time and the second tries of one run."""

    def __init__(self, config: pytest.Config, name: str, *, again: bool) -> None:
        self._name, self._budget, self._began = name, BUDGETS[name], time.monotonic()
        self._cache, self._spent = config.cache, Spent()
        own = self._cache.mkdir("rings") / "tried"
        self._caches = own.parents[3]
        if again:
            seed = self._cache.get(_SEED, "unknown")
            failed = [f"{test} (seed {seed})\n" for test in self._cache.get(_FAILED, {})]
            with own.open("a", encoding="utf-8") as file:
                file.writelines(failed)
            if len(self._tried()) > AT_MOST:
                named = "\n  ".join(self._tried())
                raise pytest.UsageError(f"more than {AT_MOST} tests need a second try:\n  {named}")

    def _tried(self) -> list[str]:
        """Tests of all rings that needed a second try, by name and seed."""
        files = sorted(self._caches.glob("*/d/rings/tried"))
        return [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    @property
    def _took(self) -> float:
        return time.monotonic() - self._began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent.add(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run in CI that is over its budget although all of its tests have passed."""
        self._cache.set(_SEED, session.config.getoption("randomly_seed"))
        passed = session.exitstatus == pytest.ExitCode.OK
        if self._took > self._budget and passed and os.environ.get("CI") == "true":
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show them before pytest's own summary."""
        terminalreporter.write_sep("=", f"ring {self._name}")
        over = ", which is too long" if self._took > self._budget else ""
        terminalreporter.write_line(f"{self._took:.0f} s of at most {self._budget:.0f} s{over}")
        for line in self._spent.lines():
            terminalreporter.write_line(line)
        for one in self._tried():
            terminalreporter.write_line(f"needed a second try: {one}")
