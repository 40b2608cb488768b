"""Taking requests apart: paths, queries, bodies, what a client accepts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.request import (
    MAX_DEPTH,
    Request,
    Target,
    User,
    accepted,
    check_depth,
    decode_body,
    decode_json,
    decode_yaml,
    delete_options,
    duplicate_fields,
    parse_path,
)
from hypercobalt.apiserver.status import StatusError

Object = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def request(method: str = "GET", body: bytes = b"", **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, "/", {}, named, User("u"), body)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/api/v1/pods", Target("", "v1", "pods")),
        ("/api/v1/namespaces/n/pods", Target("", "v1", "pods", "n")),
        ("/api/v1/namespaces/n/pods/p", Target("", "v1", "pods", "n", "p")),
        ("/api/v1/namespaces/n/pods/p/status", Target("", "v1", "pods", "n", "p", "status")),
        ("/api/v1/namespaces", Target("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", Target("", "v1", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/status", Target("", "v1", "namespaces", "", "n", "status")),
        ("/api/v1/namespaces/n/finalize", Target("", "v1", "namespaces", "", "n", "finalize")),
        ("/apis/g.io/v1/things", Target("g.io", "v1", "things")),
        ("/apis/g.io/v1/namespaces/n/things/t", Target("g.io", "v1", "things", "n", "t")),
        ("/apis/g.io/v1/things/a%41", Target("g.io", "v1", "things", "", "a%41")),
        ("/", None),
        ("/api", None),
        ("/api/v1", None),
        ("/apis/g.io/v1", None),
        ("/other/v1/pods", None),
        ("/api/v1/pods/a/b/c/d", None),
    ],
)
def test_paths(path: str, target: Target | None) -> None:
    assert parse_path(path) == target


@given(st.text(st.sampled_from("/apis.v1n%\x00é"), max_size=40))
def test_any_path_is_taken_apart_or_not(path: str) -> None:
    target = parse_path(path)
    assert target is None or target.resource


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: 2026-01-01T00:00:00Z", {"a": "2026-01-01T00:00:00Z"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 1:30:00.5", {"a": "1:30:00.5"}),
        ("a: 012", {"a": 10}),
        ("a: 0x10", {"a": 16}),
        ("a: 1.5", {"a": 1.5}),
        ("a: yes", {"a": True}),
        ("a: 'yes'", {"a": "yes"}),
        ("a: ~", {"a": None}),
        ("1: a", {"1": "a"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("{a: [1, {b: c}]}", {"a": [1, {"b": "c"}]}),
        ('{"a": "\\u00e9"}', {"a": "é"}),
        ("a: '*'", {"a": "*"}),
    ],
)
def test_yaml(text: str, value: object) -> None:
    assert decode_yaml(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "a: *x",
        "a: &x [*x]",
        "a: .nan",
        "a: .inf",
        "? [a]\n: b",
        "a: !!python/name:os.system ''",
        "a: 'b",
        "--- {}\n--- {}",
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    ],
)
def test_yaml_that_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode_yaml(text.encode())
    assert refused.value.code == 400


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_json_is_read_back(value: object) -> None:
    assert decode_json(msgspec.json.encode(value)) == value


@given(
    st.binary(max_size=30) | st.text(st.sampled_from("{}[]:,-? &*!|>\"'ab\n \t#%@`"), max_size=30)
)
def test_any_body_is_read_or_refused(body: bytes | str) -> None:
    data = body.encode() if isinstance(body, str) else body
    for decode in (decode_json, decode_yaml):
        try:
            msgspec.json.encode(decode(data))
        except StatusError as error:
            code = error.code
            assert code == 400  # either way is fine


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_is_bounded() -> None:
    check_depth(nested(MAX_DEPTH))
    with pytest.raises(StatusError):
        check_depth(nested(MAX_DEPTH + 1))


def test_fields_that_stand_twice_are_found() -> None:
    found = duplicate_fields(b'{"a":1,"b":{"c":1,"c":2},"a":2,"d":[{"e":1,"e":1}]}')
    assert [name.rpartition(".")[2] for name in found] == sorted(
        [name.rpartition(".")[2] for name in found], key="ace".index
    )
    assert len(found) == 3
    assert duplicate_fields(b"a: 1\na: 2\n") == []


@pytest.mark.parametrize("kind", ["text/plain", "application/merge-patch+json", "x"])
def test_unknown_bodies_are_refused(kind: str) -> None:
    with pytest.raises(StatusError) as refused:
        decode_body(request("POST", b"{}", content_type=kind))
    assert refused.value.code == 415


@pytest.mark.parametrize(
    ("header", "shown_as", "media"),
    [
        ("", "", "application/json"),
        ("*/*", "", "application/json"),
        ("application/json", "", "application/json"),
        ("application/yaml", "", "application/yaml"),
        (TABLE, "Table", "application/json"),
        (f"{TABLE},application/json", "Table", "application/json"),
        ("application/json;as=Dance;v=v1;g=meta.k8s.io,application/json", "", "application/json"),
        ("application/vnd.kubernetes.protobuf,application/json", "", "application/json"),
        ("text/html, application/json;q=0.5", "", "application/json"),
    ],
)
def test_the_first_form_that_can_be_given_is(header: str, shown_as: str, media: str) -> None:
    form = accepted(request(accept=header))
    assert (form.shown_as, form.media) == (shown_as, media)


@pytest.mark.parametrize("header", ["text/html", "application/vnd.kubernetes.protobuf", ";;,", ","])
def test_forms_that_cannot_be_given_are_refused(header: str) -> None:
    with pytest.raises(StatusError) as refused:
        accepted(request(accept=header))
    assert refused.value.code == 406


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("5", 5), ("-5", -5), ("+5", 5), (str(2**63 - 1), 2**63 - 1)]
)
def test_numbers(text: str, number: int) -> None:
    assert Request("GET", "/", {"n": text}, {}, User("u")).number("n") == number


@pytest.mark.parametrize("text", ["x", "1_0", " 5", "5 ", "1.0", "٣", str(2**63), "9" * 5000])
def test_bad_numbers_are_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        Request("GET", "/", {"n": text}, {}, User("u")).number("n")
    assert refused.value.code == 400


def test_delete_options_come_from_the_body_or_the_query() -> None:
    body = b'{"gracePeriodSeconds":5,"propagationPolicy":"Orphan","preconditions":{"uid":"u"}}'
    options = delete_options(request("DELETE", body))
    assert (options.gracePeriodSeconds, options.propagationPolicy) == (5, "Orphan")
    assert options.preconditions is not None
    assert options.preconditions.uid == "u"
    query = {"gracePeriodSeconds": "7", "propagationPolicy": "Foreground", "dryRun": "All"}
    options = delete_options(Request("DELETE", "/", query, {}, User("u")))
    assert (options.gracePeriodSeconds, options.propagationPolicy) == (7, "Foreground")
    assert options.dryRun == ["All"]


@pytest.mark.parametrize(
    ("agent", "query", "manager"),
    [
        ("kubectl/v1 (linux)", {}, "kubectl"),
        ("", {}, "unknown"),
        ("x/y", {"fieldManager": "me"}, "me"),
    ],
)
def test_the_field_manager(agent: str, query: Object, manager: str) -> None:
    assert Request("GET", "/", query, {"user-agent": agent}, User("u")).manager == manager
