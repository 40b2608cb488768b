"""Which page a request is for, and what a page does not take."""

from __future__ import annotations

import pytest

from hypercobalt.runtime.routes import TEXT, Answer, Request, Route, read_head, route_of, text


async def _answers(request: Request) -> Answer:
    return text(200, request.path)


METRICS, TRACE, SWITCH = (
    Route("/metrics", _answers),
    Route("/trace", _answers, method="POST"),
    Route("/api/hypervisors/", _answers, method="POST"),
)
ROUTES = (METRICS, TRACE, SWITCH)


def request(head: str) -> Request:
    return read_head(f"{head}\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("GET /metrics HTTP/1.1", METRICS),
        ("HEAD /metrics HTTP/1.1", METRICS),
        ("GET /metrics?x=1 HTTP/1.1", METRICS),
        ("POST /api/hypervisors/kvm-a HTTP/1.1", SWITCH),
        ("POST /metrics HTTP/1.1", 405),
        ("GET /api/hypervisors/kvm-a HTTP/1.1", 405),
        ("GET /metrics/ HTTP/1.1", 404),
        ("POST /api/hypervisors/ HTTP/1.1", 404),
        ("POST /api/hypervisors HTTP/1.1", 404),
        ("POST /api/hypervisors/kvm-a/more HTTP/1.1", 404),
        ("nonsense", 404),
    ],
)
def test_route_of_a_request_is_found_or_refused(line: str, found: Route | int) -> None:
    page = route_of(request(line), ROUTES)
    assert (page.status if isinstance(page, Answer) else page) == found


@pytest.mark.parametrize(
    ("path", "allow"), [("/metrics", "GET, HEAD"), ("/trace", "POST"), ("/both", "GET, HEAD, POST")]
)
def test_other_methods_are_refused_with_those_that_are_taken(path: str, allow: str) -> None:
    both = (Route("/both", _answers), Route("/both", _answers, method="POST"))
    page = route_of(request(f"DELETE {path} HTTP/1.1"), (*ROUTES, *both))
    assert isinstance(page, Answer)
    assert f"\r\nAllow: {allow}\r\n".encode() in page.encoded(head=False)


def test_head_has_what_a_page_needs() -> None:
    found = request(
        "POST /trace?port=tap1&x HTTP/1.1\r\nAuthorization: bearer  abc \r\nHost: a:1\r\nhost: b"
    )
    assert (found.method, found.path, found.query) == ("POST", "/trace", "port=tap1&x")
    assert (found.headers["host"], found.token, found.verb) == ("a:1", "abc", "post")
    assert request("HEAD /metrics HTTP/1.1").verb == "get"
    assert request("GET / HTTP/1.1\r\nAuthorization: Basic abc").token == ""


@pytest.mark.parametrize(
    ("header", "length"),
    [
        ("Host: a", 0),
        ("Content-Length: 12", 12),
        ("Transfer-Encoding: chunked", None),
        ("Content-Length: 12\r\nTransfer-Encoding: chunked", None),
    ],
)
def test_length_of_a_body_is_read_from_its_header(header: str, length: int | None) -> None:
    assert request(f"POST /trace HTTP/1.1\r\n{header}").length == length


@pytest.mark.parametrize("value", ["-1", "1e3", "twelve", "\uff11", ""])
def test_length_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="Content-Length"):
        _ = request(f"POST /trace HTTP/1.1\r\nContent-Length: {value}").length


def test_answer_is_encoded_as_http() -> None:
    whole = text(404, "no such host").encoded(head=False)
    assert whole == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: " + TEXT.encode() + b"\r\n"
        b"Content-Length: 13\r\nConnection: close\r\n\r\nno such host\n"
    )
    assert text(404, "no such host").encoded(head=True) == whole.removesuffix(b"no such host\n")
    assert Answer(401).encoded(head=False).endswith(b"\r\n\r\nUnauthorized\n")


CONSOLE = Route("/namespaces/{namespace}/vmis/{name}/console", _answers)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/namespaces/a/vmis/b.c/console", {"namespace": "a", "name": "b.c"}),
        ("/namespaces/a/vmis/b/vnc", None),
        ("/namespaces/a/vmis/b/console/", None),
        ("/namespaces//vmis/b/console", None),
        ("/namespaces/a/vmis/../console", None),
        ("/namespaces/a/vmis/b%2fc/console", None),
        ("/namespaces/{namespace}/vmis/{name}/console", None),
        (f"/namespaces/a/vmis/{'b' * 254}/console", None),
    ],
)
def test_names_in_a_path_are_names_of_objects(path: str, named: dict[str, str] | None) -> None:
    assert CONSOLE.named(path) == named
    assert CONSOLE.matches(path) is (named is not None)
