"""`cobalt crds`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from hypercobalt.api import crd
from hypercobalt.cli.crds import crds


def test_all_definitions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds() == 0
    assert tuple(yaml.safe_load_all(capsys.readouterr().out)) == crd.manifests()


def test_one_definition_is_printed_by_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds(kind="mig") == 0
    assert yaml.safe_load(capsys.readouterr().out)["spec"]["names"]["kind"] == "Migration"


def test_unknown_kind_is_refused_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert crds(kind="Pod") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cobalt crds: kind 'Pod' is unknown: must be one of ")


def test_listing_the_commands_loads_none_of_them() -> None:
    program = (
        "import sys; from hypercobalt.cli import app; app('--help', result_action='return_value');"
        "sys.exit('hypercobalt.cli.crds' in sys.modules or 'msgspec' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "crds" in done.stdout
