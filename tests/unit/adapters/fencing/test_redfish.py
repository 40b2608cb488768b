"""Reading the UUID of a system: what a service can do to who asks it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme

from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError
from hypercobalt.adapters.fencing.redfish import system_uuids

UUID = "4c4c4544-0035-4d10-8046-b7c04f4a3732"
CREDENTIALS = Credentials("admin", "s3cret")
BASIC = f"Basic {base64.b64encode(b'admin:s3cret').decode()}"
SYSTEM = "/redfish/v1/Systems/1"
WITHIN = timedelta(seconds=5)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Service(ThreadingHTTPServer):
    """A service that answers as a test has it, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Answer] = {}
        self.passwords: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        # A stray connection that shows no handshake would hold up the shutdown.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    @property
    def port(self) -> str:
        return str(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Service)
        self.server.passwords.append(self.headers.get("Authorization", ""))
        self.server.answers[self.path](self)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def says(body: object, status: int = 200, **headers: str) -> Answer:
    data = json.dumps(body).encode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def service(authority: trustme.CA) -> Iterator[Service]:
    with Service(authority) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def device(service: Service, authority: str = "", **more: str) -> Device:
    where = {"ip": "127.0.0.1", "ipport": service.port, **more}
    return Device("bmc", "fence_redfish", where, authority=authority)


async def test_the_uuid_is_read_at_the_path_that_the_device_is_given(service: Service) -> None:
    service.answers[SYSTEM] = says({"Id": "1", "UUID": UUID.upper()})
    one = device(service, systems_uri=SYSTEM, ssl_insecure="1")
    assert await system_uuids(one, CREDENTIALS, WITHIN) == {UUID}
    assert service.passwords == [BASIC]


async def test_the_last_system_is_read_as_the_fence_agent_switches_it(service: Service) -> None:
    service.answers |= {
        "/redfish/v1": says({"Systems": {"@odata.id": "/redfish/v1/Systems"}}),
        "/redfish/v1/Systems": says(
            {"Members": [{"@odata.id": "/redfish/v1/Systems/0"}, {"@odata.id": SYSTEM}]}
        ),
        SYSTEM: says({"UUID": UUID}),
    }
    one = device(service, ssl_insecure="1")
    assert await system_uuids(one, CREDENTIALS, WITHIN) == {UUID}


@pytest.mark.parametrize("found", [None, "", "unknown", "00000000-0000-0000-0000-000000000000"])
async def test_a_system_without_a_uuid_has_none(service: Service, found: str | None) -> None:
    service.answers[SYSTEM] = says({"UUID": found})
    one = device(service, systems_uri=SYSTEM, ssl_insecure="1")
    assert await system_uuids(one, CREDENTIALS, WITHIN) == frozenset()


async def test_the_password_is_sent_to_no_other_address(
    service: Service, authority: trustme.CA
) -> None:
    with Service(authority) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        other.answers[SYSTEM] = says({"UUID": UUID})
        elsewhere = f"https://127.0.0.1:{other.port}{SYSTEM}"
        service.answers |= {
            SYSTEM: says({}, 302, Location=elsewhere),
            "/redfish/v1": says({"Systems": {"@odata.id": elsewhere}}),
            "/a": says({"Systems": {"@odata.id": f"//127.0.0.1:{other.port}{SYSTEM}"}}),
            "/b": says({"Systems": {"@odata.id": f"@127.0.0.1:{other.port}{SYSTEM}"}}),
        }
        for more in ({"systems_uri": SYSTEM}, {}, {"redfish_uri": "/a"}, {"redfish_uri": "/b"}):
            one = device(service, ssl_insecure="1", **more)
            with pytest.raises(FenceError):
                await system_uuids(one, CREDENTIALS, WITHIN)
        other.shutdown()
    assert other.passwords == []


async def test_an_unverified_certificate_gets_no_password(
    service: Service, authority: trustme.CA
) -> None:
    service.answers[SYSTEM] = says({"UUID": UUID})
    with pytest.raises(FenceError, match="certificate"):
        await system_uuids(device(service, systems_uri=SYSTEM), CREDENTIALS, WITHIN)
    assert service.passwords == []
    pem = authority.cert_pem.bytes().decode()
    found = await system_uuids(device(service, pem, systems_uri=SYSTEM), CREDENTIALS, WITHIN)
    assert found == {UUID}


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(64):
        handler.wfile.write(b" " * 65536)


def slow(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(40):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        threading.Event().wait(0.05)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(endless, "more than", id="endless"),
        pytest.param(slow, "in time", id="slow"),
        pytest.param(says({"UUID": 7}), "UUID", id="another type"),
        pytest.param(says([]), "object", id="no object"),
        pytest.param(says({"UUID": UUID}, 401), "401", id="refused"),
    ],
)
async def test_an_answer_is_bounded_and_no_proof_where_it_is_none(
    service: Service, answer: Answer, why: str
) -> None:
    service.answers[SYSTEM] = answer
    one = device(service, systems_uri=SYSTEM, ssl_insecure="1")
    with pytest.raises(FenceError, match=why):
        await system_uuids(one, CREDENTIALS, timedelta(seconds=0.7))
