"""Label and field selectors: what parses, what it selects, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.requests.selectors import Requirement, parse_fields, parse_labels

Labels = dict[str, str]
TEXT = st.text(st.sampled_from("ab=!<>(), in\\\t.x-1_"), max_size=20)


def selects(selector: str, labels: Labels) -> bool:
    return parse_labels(selector).matches(labels)


@pytest.mark.parametrize(
    ("selector", "matching", "others"),
    [
        pytest.param("", [{}, {"a": "b"}], [], id="empty-selects-all"),
        pytest.param("a", [{"a": ""}, {"a": "x"}], [{}, {"b": "a"}], id="exists"),
        pytest.param("!a", [{}, {"b": "x"}], [{"a": ""}], id="is-absent"),
        pytest.param("a=b", [{"a": "b"}], [{}, {"a": "c"}], id="equals"),
        pytest.param("a==b", [{"a": "b"}], [{"a": "c"}], id="equals-twice"),
        pytest.param("a!=b", [{}, {"a": "c"}], [{"a": "b"}], id="differs-or-is-absent"),
        pytest.param("a=", [{"a": ""}], [{}, {"a": "b"}], id="is-empty"),
        pytest.param("a!=", [{}, {"a": "b"}], [{"a": ""}], id="is-not-empty"),
        pytest.param("a in (b, c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": "d"}], id="in"),
        pytest.param("a in (b,)", [{"a": "b"}, {"a": ""}], [{"a": "d"}], id="in-with-empty"),
        pytest.param("a in (,)", [{"a": ""}], [{}, {"a": "d"}], id="in-empties"),
        pytest.param("a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}, {"a": "c"}], id="not-in"),
        pytest.param("a>5", [{"a": "6"}, {"a": "10"}], [{}, {"a": "5"}, {"a": "x"}], id="more"),
        pytest.param("a<5", [{"a": "4"}], [{}, {"a": "5"}, {"a": "1_0"}], id="less"),
        pytest.param("a=b,c", [{"a": "b", "c": ""}], [{"a": "b"}, {"c": ""}], id="both"),
        pytest.param(" a = b , !c ", [{"a": "b"}], [{"a": "b", "c": ""}], id="with-spaces"),
        pytest.param("x.io/a=b", [{"x.io/a": "b"}], [{"a": "b"}], id="with-a-prefix"),
        pytest.param("in in (in)", [{"in": "in"}], [{"in": "x"}], id="words-as-keys-and-values"),
    ],
)
def test_label_selector_chooses_objects_by_labels(
    selector: str, matching: list[Labels], others: list[Labels]
) -> None:
    assert all(selects(selector, labels) for labels in matching)
    assert not any(selects(selector, labels) for labels in others)


@pytest.mark.parametrize(
    "selector",
    [
        "a=b,",
        ",a=b",
        "a=b=c",
        "!a=b",
        "!",
        "!!a",
        "a b",
        "a in",
        "a in (",
        "a in (b",
        "a in b",
        "a in (b c)",
        "a in (b))",
        "a=(b)",
        "a>x",
        "a>1_0",
        "a>",
        "a>=5",
        "a>99999999999999999999",
        "-a",
        "a/b/c=d",
        "/a=b",
        "a=-b",
        "a=" + "b" * 64,
        "a" * 64,
        "()",
        "=b",
        pytest.param("a" * 8000 + "," + "b" * 8400, id="too-long"),
        pytest.param(",".join(f"a!={n}" for n in range(17)), id="too-many-terms-of-one-key"),
    ],
)
def test_bad_label_selectors_are_refused(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(selector)
    assert refused.value.code == 400


@given(TEXT)
def test_any_text_parses_or_is_refused(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            parse(text)
        except StatusError as error:
            refusal = error.code
            assert refusal == 400  # either way is fine


def test_a_long_selector_costs_no_more_than_the_labels_it_is_held_against(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cost is counted in checked terms: time would depend on the machine."""
    checked: list[Requirement] = []
    allows = Requirement.allows

    def counted(self: Requirement, value: str) -> bool:
        checked.append(self)
        return allows(self, value)

    monkeypatch.setattr(Requirement, "allows", counted)
    selector = parse_labels(",".join(f"k{number}!=v" for number in range(1500)))
    assert selector.matches({"a": "b", "k1": "x"})
    assert not selector.matches({"a": "b", "k1": "v"})
    assert len(checked) == 2


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from("abcd"), max_size=2),
)
def test_in_and_not_in_are_opposites(values: list[str], labels: Labels) -> None:
    listed = ",".join(values)
    assert selects(f"k in ({listed})", labels) != selects(f"k notin ({listed})", labels)


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("a=b", [("a", "b", True)], id="equals"),
        pytest.param("a==b", [("a", "b", True)], id="equals-twice"),
        pytest.param("a!=b", [("a", "b", False)], id="differs"),
        pytest.param("a=", [("a", "", True)], id="is-empty"),
        pytest.param("a=b,c!=d", [("a", "b", True), ("c", "d", False)], id="both"),
        pytest.param(",a=b,", [("a", "b", True)], id="empty-terms-are-none"),
        pytest.param(r"a=b\,c", [("a", "b,c", True)], id="a-comma-in-a-value"),
        pytest.param(r"a=b\=c", [("a", "b=c", True)], id="an-equals-sign-in-a-value"),
        pytest.param(r"a=b\\,c=d", [("a", "b\\", True), ("c", "d", True)], id="a-backslash-in-it"),
    ],
)
def test_field_selector_is_parsed_into_terms(
    selector: str, terms: list[tuple[str, str, bool]]
) -> None:
    found = [(term.field, term.value, term.equal) for term in parse_fields(selector)]
    assert found == terms


@pytest.mark.parametrize(
    "selector",
    [
        "a",
        "a=b=c",
        r"a=b\c",
        "a=b\\",
        "a!=b!=c",
        pytest.param(",".join(f"a!={n}" for n in range(33)), id="too-many-terms"),
        pytest.param("a=" + "b" * 17_000, id="too-long"),
    ],
)
def test_bad_field_selectors_are_refused(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_fields(selector)
    assert refused.value.code == 400


@given(st.text(st.sampled_from("ab,=\\!")))
def test_an_escaped_value_is_read_back(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
    (term,) = parse_fields(f"a={escaped}")
    assert term.value == value
