"""The rings' budgets and second tries, on a small suite in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages import ROOT
from tests.rings import BUDGETS

CONFTEST = """
import pytest
from tests import rings

def pytest_addoption(parser):
    rings.add_options(parser)

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    rings.BUDGETS["unit"] = {budget}
    rings.configure(config)
"""
SUITE = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("number", range({tests}))
def test_that_passes_the_second_time(number):
    seen = Path(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        pytest.fail("not yet")
"""
AGAIN = ("--again", "--last-failed", "--last-failed-no-failures", "none")


def run(folder: Path, *arguments: str, ci: str = "true") -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_randomly", "--ring", "unit", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CI": ci,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def suite(folder: Path, *, tests: int = 1, budget: float = 60) -> Path:
    (folder / "conftest.py").write_text(CONFTEST.format(budget=budget))
    (folder / "test_it.py").write_text(SUITE.format(tests=tests))
    return folder


def test_what_needs_a_second_try_is_named_with_its_seed_in_each_later_run(tmp_path: Path) -> None:
    suite(tmp_path)
    assert run(tmp_path, "--randomly-seed=42")[0] == pytest.ExitCode.TESTS_FAILED
    named = "needed a second try: test_it.py::test_that_passes_the_second_time[0] (seed 42)"
    for arguments in (AGAIN, ()):
        code, output = run(tmp_path, *arguments)
        assert (code, named in output) == (0, True)


def test_more_than_four_second_tries_are_refused_by_name(tmp_path: Path) -> None:
    suite(tmp_path, tests=5)
    run(tmp_path)
    code, output = run(tmp_path, *AGAIN)
    assert (code, "more than 4 tests need a second try" in output) == (4, True)
    assert output.count("test_it.py::test_that_passes_the_second_time[") >= 5


@pytest.mark.parametrize(("ci", "code"), [("true", 4), ("", 0)])
def test_a_ring_over_its_budget_fails_in_ci_only(tmp_path: Path, ci: str, code: int) -> None:
    (suite(tmp_path, budget=0) / "seen-0").touch()
    found, output = run(tmp_path, ci=ci)
    assert (found, "which is too long" in output) == (code, True)


def test_every_ring_of_the_makefile_has_a_budget() -> None:
    named = {
        line.split("scripts/ring", 1)[1].split()[0]
        for path in ("scripts/conformance", "scripts/unit-pythons")
        for line in (ROOT / path).read_text().splitlines()
        if "scripts/ring" in line
    } | {
        line.split()[1]
        for line in (ROOT / "Makefile").read_text().splitlines()
        if line.startswith("\t$(RING)")
    }
    assert named == set(BUDGETS)


def test_the_dearest_files_are_named_with_the_sum_of_all(tmp_path: Path) -> None:
    (suite(tmp_path, tests=2) / "seen-0").touch()
    (tmp_path / "seen-1").touch()
    _, output = run(tmp_path)
    (line,) = [line for line in output.splitlines() if line.endswith(" test_it.py")]
    tests, cpu, _ = line.split()
    assert 0 <= float(tests) < 60
    assert cpu == "-" or 0 <= float(cpu) < 60
    assert f"{tests:>8} {cpu:>8}   all files" in output
