"""Which client counts as the API server, and which person its headers name."""

from __future__ import annotations

import pytest

from hypercobalt.runtime.routes import Request, Requester, read_head
from hypercobalt.virt.api.front_proxy import (
    FrontProxy,
    NotTheFrontProxyError,
    person,
    published,
)

DATA = {
    "client-ca-file": "of people",
    "requestheader-client-ca-file": "of the proxy",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
PROXY = published(DATA)


def sent(*headers: str, name: str = "front-proxy-client", shown: bool = True) -> Request:
    """A request as it arrives."""
    found = read_head("\r\n".join(("GET / HTTP/1.1", *headers, "", "")).encode())
    certificate = {"subject": ((("commonName", name),),)} if shown else {}
    return Request("GET", "/", "", found.headers, certificate=certificate, lines=found.lines)


def test_what_an_api_server_publishes_is_read() -> None:
    assert PROXY.authorities == "of the proxy"
    assert (PROXY.names, PROXY.user) == (("front-proxy-client",), ("x-remote-user",))
    assert published({}) == FrontProxy()


@pytest.mark.parametrize("value", ["x", "{}", "[1]", "[" * 100_000])
def test_list_that_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="requestheader-allowed-names"):
        published({**DATA, "requestheader-allowed-names": value})


def test_certificate_of_a_person_never_does_for_the_api_servers() -> None:
    same = DATA | {"requestheader-client-ca-file": "of people\n"}
    assert published(same).names
    with pytest.raises(ValueError, match="anybody could name anybody"):
        published(same | {"requestheader-allowed-names": "[]"})


def certificate(about: str, *, wraps: str = "\n") -> str:
    return wraps.join(("-----BEGIN CERTIFICATE-----", about, "-----END CERTIFICATE-----\n"))


def test_ca_of_people_does_not_either_among_others() -> None:
    """A kubelet's certificate is of that CA: whoever has a host would be anybody."""
    data = DATA | {
        "client-ca-file": certificate("cGVvcGxl"),
        "requestheader-client-ca-file": certificate("cHJveHk")
        + "# the old one\n"
        + certificate("cGVvcGxl", wraps="\r\n"),
    }
    assert published(data).names
    with pytest.raises(ValueError, match="anybody could name anybody"):
        published(data | {"requestheader-allowed-names": "[]"})
    others = data | {"client-ca-file": certificate("b3RoZXJz")}
    assert published(others | {"requestheader-allowed-names": "[]"}).names == ()


def test_person_is_the_one_of_the_headers() -> None:
    request = sent(
        "X-Remote-User: j\u00e4ne",
        "X-Remote-Uid: u1",
        "X-Remote-Group: net",
        "x-remote-group: system:authenticated",
        "X-Remote-Extra-Scopes: a",
        "X-Remote-Extra-Scopes: b",
        "X-Remote-Extra-Example.com%2Fkey: c",
        "Impersonate-User: admin",
        "Authorization: Bearer admin",
    )
    extra = {"scopes": ("a", "b"), "example.com/key": ("c",)}
    assert person(PROXY, request) == Requester(
        "j\u00e4ne", ("net", "system:authenticated"), "u1", extra
    )


@pytest.mark.parametrize(
    ("proxy", "request_", "why"),
    [
        pytest.param(PROXY, sent("X-Remote-User: admin", shown=False), "has none", id="headers"),
        pytest.param(FrontProxy(), sent("X-Remote-User: a"), "has none", id="nothing-published"),
        pytest.param(
            published(DATA | {"requestheader-client-ca-file": "\n"}),
            sent("X-Remote-User: a"),
            "has none",
            id="no-authority",
        ),
        pytest.param(PROXY, sent("X-Remote-User: a", name="kubelet"), "does not name", id="name"),
        pytest.param(PROXY, sent("X-Remote-Group: system:masters"), "no person", id="group-only"),
        pytest.param(PROXY, sent("X-Remote-User: "), "no person", id="empty"),
        pytest.param(
            PROXY, sent("X-Remote-User:", "X-Remote-User: a"), "no person", id="first-counts"
        ),
        pytest.param(
            published(DATA | {"requestheader-username-headers": "[]"}),
            sent("X-Remote-User: a"),
            "no person",
            id="no-header-is-named",
        ),
    ],
)
def test_request_that_is_not_the_api_servers_is_refused(
    proxy: FrontProxy, request_: Request, why: str
) -> None:
    with pytest.raises(NotTheFrontProxyError, match=why):
        person(proxy, request_)


def test_any_name_is_good_where_none_is_published() -> None:
    proxy = published(DATA | {"requestheader-allowed-names": "[]"})
    assert person(proxy, sent("X-Remote-User: jane", name="any")).user == "jane"


def test_user_that_is_no_text_is_refused() -> None:
    request = Request("GET", "/", "", {}, certificate=sent().certificate)
    broken = Request(
        "GET", "/", "", {}, certificate=request.certificate, lines=(("x-remote-user", "\xff"),)
    )
    with pytest.raises(NotTheFrontProxyError, match="no text"):
        person(PROXY, broken)
