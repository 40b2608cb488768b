"""Shards and their leases."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.errors import ConfigurationError
from hypercobalt.operator.assembly import copied_labels, lease_name
from hypercobalt.operator.node_facts import COPIED_LABELS


def test_lease_of_everything_has_the_known_name() -> None:
    assert lease_name("") == "4c28796a.cloud.sap"


def test_lease_of_a_shard_is_its_own() -> None:
    whole = b"4c28796a.cloud.sapzone=a"
    assert lease_name("zone=a") == f"{hashlib.sha256(whole).hexdigest()}.cloud.sap"


@pytest.mark.parametrize(
    ("selector", "keys"),
    [
        ("", ()),
        ("a=b", ("a",)),
        ("a==b, c!=d", ("a", "c")),
        ("x.y/e in (f,g),!h,i notin (j)", ("x.y/e", "h", "i")),
        ("topology.kubernetes.io/zone=a", ()),
    ],
)
def test_labels_that_choose_a_shard_are_copied_too(selector: str, keys: tuple[str, ...]) -> None:
    assert copied_labels(selector) == (*COPIED_LABELS, *keys)


@pytest.mark.parametrize("selector", ["a=b=c", "=b", "a in b", "a,,b", "a;b", "a in (b", "a&b"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ConfigurationError, match="--label-selector"):
        copied_labels(selector)


@given(st.text(alphabet="ab=!,() in.*/\u00e9", max_size=30))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    try:
        keys = copied_labels(text)
    except ConfigurationError:
        return
    assert all(key and not set(key) & set("=!,() ") for key in keys)
