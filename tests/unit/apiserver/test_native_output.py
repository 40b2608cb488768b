"""What the libraries in C++ print: nothing, whatever a definition holds."""

from __future__ import annotations

import pytest

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.rules import check_rules
from hypercobalt.apiserver.schema.node import compile_schema

FIELDS = [
    pytest.param(["foo_bar", "fooBar"], id="differ-in-underscores"),
    pytest.param(["a", "A"], id="differ-in-case"),
    pytest.param(["fooBar", "foobar", "foo_bar"], id="three-of-them"),
    pytest.param(["a-b", "a.b", "__a__"], id="no-identifiers"),
]


@pytest.mark.parametrize("names", FIELDS)
def test_checking_rules_prints_nothing(names: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    text: JSONObject = {"type": "string", "maxLength": 5}
    below: JSONObject = {"type": "object", "properties": dict.fromkeys(names, text)}
    raw: JSONObject = {
        "type": "object",
        "properties": {**dict.fromkeys(names, text), "below": below},
        "x-kubernetes-validations": [{"rule": "self.a.matches('[')"}, {"rule": "self == self"}],
    }
    list(check_rules(compile_schema(raw), "spec"))
    assert capfd.readouterr() == ("", "")
