"""The lab's processes have just the rights that their charts give."""

from __future__ import annotations

from importlib import resources

import pytest
from tests.conformance.charts import lab_rights

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time


def test_the_lab_installs_the_rights_of_the_charts() -> None:
    folder = resources.files("hypercobalt.lab")
    for name, text in lab_rights().items():
        held = (folder / name).read_text(encoding="utf-8")
        assert held == text, "run .venv/bin/python scripts/extract-rights"
