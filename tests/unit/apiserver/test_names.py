"""Names, labels, annotations, finalizers and owners: what may stand in metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.kinds import names

Meta = dict[str, Any]
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        pytest.param(
            names.subdomain_errors,
            ["a", "a-b", "a.b", "1", "a" * 253],
            ["", "A", "a_b", "-a", "a-", ".a", "a..b", "ä", "a" * 254, "a\n"],
            id="subdomain",
        ),
        pytest.param(
            names.label_errors,
            ["a", "1a", "a" * 63],
            ["", "a.b", "A", "a" * 64, "a\n"],
            id="label",
        ),
        pytest.param(
            names.dns_1035_errors, ["a", "a1", "a-1"], ["", "1a", "a.b", "a-"], id="service"
        ),
        pytest.param(
            names.path_segment_errors,
            ["a", "A:b", "a b", "…"],
            [".", "..", "a/b", "a%b"],
            id="path-segment",
        ),
        pytest.param(
            names.label_key_errors,
            ["a", "A.b_c-d", "x.io/a", "a" * 63, "a" * 253 + "/b"],
            ["", "a/", "/a", "a/b/c", "-a", "a" * 64, "X.io/a", "a b", "ä", "a" * 254 + "/b"],
            id="label-key",
        ),
        pytest.param(
            names.label_value_errors,
            ["", "a", "A.b_c-d", "1", "a" * 63],
            ["-a", "a-", "a b", "a/b", "a" * 64, "ä"],
            id="label-value",
        ),
    ],
)
def test_name_rule_accepts_good_and_refuses_bad_names(
    rule: names.NameRule, good: list[str], bad: list[str]
) -> None:
    assert [text for text in good if rule(text)] == []
    assert [text for text in bad if not rule(text)] == []


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        pytest.param({"name": ""}, "metadata.name", id="no-name"),
        pytest.param({"name": "A"}, "metadata.name", id="bad-name"),
        pytest.param({"labels": {"-": "a"}}, "metadata.labels", id="bad-label-key"),
        pytest.param({"labels": {"a": "-"}}, "metadata.labels", id="bad-label-value"),
        pytest.param({"annotations": {"-": "a"}}, "metadata.annotations", id="bad-annotation"),
        pytest.param(
            {"annotations": {"a": "x" * 2**18}}, "metadata.annotations", id="too-long-annotations"
        ),
        pytest.param({"finalizers": ["a/b/c"]}, "metadata.finalizers", id="bad-finalizer"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences.uid", id="no-uid"
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "apiVersion": ""}]},
            "metadata.ownerReferences.apiVersion",
            id="no-version",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}] * 2},
            "metadata.ownerReferences",
            id="two-controllers",
        ),
    ],
)
def test_bad_metadata_is_reported_by_field(meta: Meta, field: str) -> None:
    causes = names.check_metadata({"name": "n", **meta}, names.subdomain_errors)
    assert {cause.field for cause in causes} == {field}


def test_good_metadata_passes() -> None:
    meta: Meta = {
        "name": "a.b",
        "labels": {"a": "", "x.io/b": "c"},
        "annotations": {"x.io/Any": "thing\n" * 100},
        "finalizers": ["x.io/a"],
        "ownerReferences": [{**OWNER, "controller": True}, OWNER],
    }
    assert names.check_metadata(meta, names.subdomain_errors) == []


@given(st.text(max_size=70))
def test_long_and_odd_texts_are_judged_at_once(text: str) -> None:
    for rule in (names.subdomain_errors, names.label_key_errors, names.label_value_errors):
        assert rule(text + "-" * 100_000)
