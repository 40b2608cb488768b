"""Taking requests apart: paths, queries, bodies, what a client accepts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.errors import StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.bodies import decode
from hypercobalt.apiserver.requests.request import (
    Call,
    DeleteOptions,
    Request,
    Target,
    User,
    delete_options,
    parse_path,
)

Object = dict[str, Any]
PODS = Registry.load().find("", "v1", "pods")


def delete(body: bytes = b"", **query: str) -> DeleteOptions:
    assert PODS is not None
    request = Request("DELETE", "/", query, {}, User("u"), body)
    return delete_options(Call(request, PODS, body=decode("", body or b"null")))


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
def test_path_gives_its_target(path: str, target: Target | None) -> None:
    assert parse_path(path) == target


@given(st.text(st.sampled_from("/apis.v1n%\x00é"), max_size=40))
def test_every_path_is_parsed_or_refused(path: str) -> None:
    target = parse_path(path)
    assert target is None or target.resource


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("5", 5), ("-5", -5), ("+5", 5), (str(2**63 - 1), 2**63 - 1)]
)
def test_number_of_a_query_is_parsed(text: str, number: int) -> None:
    assert Request("GET", "/", {"n": text}, {}, User("u")).number("n") == number


@pytest.mark.parametrize("text", ["x", "1_0", " 5", "5 ", "1.0", "٣", str(2**63), "9" * 5000])
def test_bad_numbers_are_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        Request("GET", "/", {"n": text}, {}, User("u")).number("n")
    assert refused.value.code == 400


def test_delete_options_come_from_the_body_or_the_query() -> None:
    body = b'{"gracePeriodSeconds":5,"propagationPolicy":"Orphan","preconditions":{"uid":"u"}}'
    options = delete(body)
    assert (options.gracePeriodSeconds, options.propagationPolicy) == (5, "Orphan")
    assert options.preconditions is not None
    assert options.preconditions.uid == "u"
    options = delete(gracePeriodSeconds="7", propagationPolicy="Foreground", dryRun="All")
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
def test_field_manager_comes_from_query_or_user_agent(
    agent: str, query: Object, manager: str
) -> None:
    assert Request("GET", "/", query, {"user-agent": agent}, User("u")).manager == manager
