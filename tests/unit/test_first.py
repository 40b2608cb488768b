"""What `make test` plays is there: a name that is gone would leave its test out, unseen."""

from __future__ import annotations

import re

import pytest
from tests.first import FIRST
from tests.pages import ROOT


@pytest.mark.parametrize("listed", FIRST)
def test_each_listed_test_exists(listed: str) -> None:
    path, _, test = listed.partition("::")
    source = (ROOT / path).read_text()
    name = test.partition("[")[0]
    pattern = rf"\bdef {name}\b" if name else r"\b(def test_|class Test)"
    assert re.search(pattern, source)
