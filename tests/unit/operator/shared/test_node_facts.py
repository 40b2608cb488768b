"""Which labels a Hypervisor has from its Node: those that choose its shard, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.errors import ConfigurationError
from hypercobalt.operator.shared.node_facts import COPIED_LABELS, copied_labels


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
def test_text_that_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ConfigurationError, match="--label-selector"):
        copied_labels(selector)


@given(st.text(alphabet="ab=!,() in.*/\u00e9", max_size=30))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    try:
        keys = copied_labels(text)
    except ConfigurationError:
        return
    assert all(key and not set(key) & set("=!,() ") for key in keys)
