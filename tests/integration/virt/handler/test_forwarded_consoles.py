"""Consoles through virt-api: person, API server, virt-api, handler, serial port.

The embedded API server passes nothing on, so the test shows itself as one does: by a certificate of
the CA that the ConfigMap publishes, and headers. `tests/conformance/test_consoles.py` has a real
one. The client is a library's, and speaks as virtctl does.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
import websocket
from msgspec.structs import replace
from tests.integration.apiserver.conftest import no_check
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, NODE, Lab
from tests.integration.virt.handler.served import (
    Served,
    node_is_at,
    running_guest,
    serial_port,
    serving,
)

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api import core
from hypercobalt.api.address import Address
from hypercobalt.api.coordination import Event
from hypercobalt.api.kubevirt.console import ENDPOINT, console_path
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.rbac import (
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    ServiceAccount,
    Subject,
)
from hypercobalt.launch import own_certificate
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection
from hypercobalt.virt.api.handler_address import HandlerNetwork
from hypercobalt.virt.api.subresource_server import SubresourceServer
from hypercobalt.virt.api.subresources import DISCOVERY_PATH, OwnAccount

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("node_goes"),
]

RBAC = "rbac.authorization.k8s.io"
ACCOUNT = "kubevirt-apiserver"
CONFIG = ("extension-apiserver-authentication", "kube-system")


@dataclass(frozen=True)
class FrontProxy:
    """The certificates of an API server that passes requests on, and of one that is none."""

    authority: trustme.CA
    folder: Path

    def certificate(self, name: str = "front-proxy-client") -> str:
        """A file with a client certificate of the published CA, and its key."""
        made = self.authority.issue_cert("proxy.local", common_name=name)
        file = self.folder / f"{name}.pem"
        made.private_key_and_cert_chain_pem.write_to_path(str(file))
        return str(file)

    def published(self) -> dict[str, str]:
        """The ConfigMap's data."""
        return {
            "requestheader-client-ca-file": self.authority.cert_pem.bytes().decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }


@dataclass
class Through:
    """virt-api, and how a person is sent there."""

    port: int
    proxy: FrontProxy
    lab: Lab

    def open(
        self,
        name: str = "vm",
        *,
        namespace: str = "",
        user: str = "jane",
        certificate: str | None = "",
        query: str = "",
    ) -> websocket.WebSocket:
        """A console, as virtctl opens it."""
        path = console_path(namespace or self.lab.namespace, name)
        options: dict[str, object] = {"cert_reqs": ssl.CERT_NONE}
        if certificate is not None:
            options["certfile"] = certificate or self.proxy.certificate()
        return websocket.create_connection(
            f"wss://127.0.0.1:{self.port}{path}{query}",
            subprotocols=["plain.kubevirt.io"],
            header=[f"X-Remote-User: {user}", "X-Remote-Group: system:authenticated"],
            sslopt=options,
            timeout=DEADLINE,
        )

    async def refusal(self, name: str = "vm", **how: str | None) -> tuple[int, str]:
        """Status and message of a console that is not opened."""
        with pytest.raises(websocket.WebSocketBadStatusException) as found:
            await asyncio.to_thread(lambda: self.open(name, **how))  # type: ignore[arg-type]
        error = found.value
        body = json.loads(error.resp_body or b"{}")
        assert body["kind"] == "Status"
        assert body["code"] == error.status_code
        return error.status_code, str(body["message"])


@pytest.fixture
def proxy(tmp_path: Path) -> FrontProxy:
    return FrontProxy(trustme.CA(), tmp_path)


@asynccontextmanager
async def virt_api(lab: Lab, proxy: FrontProxy, handlers: HandlerNetwork) -> AsyncIterator[Through]:
    """virt-api's server, which has read the published CA."""
    await publish(lab.kube, proxy.published())
    metrics = Metrics()
    opened: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    async with Kube(load_connection(lab.kubeconfig), metrics=metrics) as kube:
        manager = Manager(kube, metrics=metrics)
        server = SubresourceServer(
            manager,
            Address("127.0.0.1", 0),
            ListenerTls(own_certificate()),
            account=OwnAccount(lab.namespace, ACCOUNT),
            network=handlers,
            opened=opened.set_result,
        )
        manager.add_service("subresources", server.run)
        task = asyncio.create_task(manager.run())
        try:
            async with asyncio.timeout(DEADLINE):
                found = Through((await opened).port, proxy, lab)
            await eventually(lambda: discovers(found), seconds=DEADLINE)
            yield found
        finally:
            manager.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)


async def publish(kube: Kube, data: dict[str, str]) -> None:
    def with_proxy(found: core.ConfigMap) -> core.ConfigMap:
        kept = {key: it for key, it in found.data.items() if not key.startswith("requestheader-")}
        return replace(found, data=kept | data)

    assert await kube.modify(core.ConfigMap, CONFIG[0], with_proxy, CONFIG[1]) is not None


async def discovers(through: Through) -> bool:
    try:
        return (await got(through, DISCOVERY_PATH))[0] == 200
    except OSError:
        return False


async def got(
    through: Through, path: str, certificate: str | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    """Status and body of a page, for an API server that asks for itself."""
    tls = no_check()
    tls.load_cert_chain(certificate or through.proxy.certificate())
    reader, writer = await asyncio.open_connection("127.0.0.1", through.port, ssl=tls)
    try:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nX-Remote-User: system:kube-aggregator\r\n\r\n"
        )
        writer.write(head.encode())
        async with asyncio.timeout(DEADLINE):
            answer = await reader.read()
    finally:
        writer.close()
    status, _, body = answer.partition(b"\r\n\r\n")
    if not status:
        raise ConnectionResetError
    return int(status.split()[1]), body


async def may_open(lab: Lab, *users: str) -> None:
    """Give people the right to consoles of the namespace, and virt-api its account."""
    meta = ObjectMeta(name="console", namespace=lab.namespace)
    rule = PolicyRule(
        apiGroups=("subresources.kubevirt.io",),
        resources=("virtualmachineinstances/console",),
        verbs=("get",),
    )
    await lab.kube.create(Role(metadata=meta, rules=(rule,)))
    subjects = tuple(Subject(kind="User", name=one, apiGroup=RBAC) for one in users)
    role = RoleRef(apiGroup=RBAC, kind="Role", name="console")
    await lab.kube.create(RoleBinding(metadata=meta, roleRef=role, subjects=subjects))
    account = ObjectMeta(name=ACCOUNT, namespace=lab.namespace)
    await lab.kube.create(ServiceAccount(metadata=account))


def port_of(served: Served) -> int:
    return int(served.server.url.rpartition(":")[2])


def local(served: Served) -> HandlerNetwork:
    """Handlers of this machine, at the port that was free."""
    return HandlerNetwork(port_of(served), ("127.0.0.0/8",))


@asynccontextmanager
async def whole(lab: Lab, pods: Path, proxy: FrontProxy) -> AsyncIterator[Through]:
    """virt-api in front of the handler of the node."""
    await may_open(lab, "jane", "bob")
    async with serving(lab, pods) as served:
        await node_is_at(lab, served.server.url, served.server.fingerprint, "127.0.0.1")
        async with virt_api(lab, proxy, local(served)) as through:
            yield through


def shown(person: websocket.WebSocket, wanted: bytes = b"\0") -> bytes:
    """What is shown, up to some bytes or to the end."""
    found = bytearray()
    while wanted not in found:
        code, data = person.recv_data()
        found[:-200] = b""
        found += data
        if code == websocket.ABNF.OPCODE_CLOSE:
            break
        assert code == websocket.ABNF.OPCODE_BINARY
    return bytes(found)


@contextlib.contextmanager
def refusing() -> Iterator[socket.socket]:
    """A port that is listened at; `accept` fails as long as nobody has connected."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield listening


async def test_person_types_and_reads_through_the_api_server(
    lab: Lab, pods: Path, proxy: FrontProxy
) -> None:
    place = await running_guest(lab, pods)
    with serial_port(place) as port:
        async with whole(lab, pods, proxy) as through:
            person = await asyncio.to_thread(through.open)
            assert person.getsubprotocol() == "plain.kubevirt.io"
            guest, _ = await asyncio.to_thread(port.accept)
            guest.sendall(b"\xff\0login: ")
            assert await asyncio.to_thread(shown, person, b"login: ") == b"\xff\0login: "
            person.send_binary(b"root\x03")
            assert await asyncio.to_thread(guest.recv, 16) == b"root\x03"
            person.ping()
            guest.close()
            assert b"source-ended" in await asyncio.to_thread(shown, person)
            person.close()
    notes = [one.note for one in (await lab.kube.list(Event, lab.namespace)).items]
    assert any("user jane opened the serial console" in note for note in notes)


async def test_second_person_takes_over_with_a_word_to_the_first(
    lab: Lab, pods: Path, proxy: FrontProxy
) -> None:
    place = await running_guest(lab, pods)
    with serial_port(place) as port:
        async with whole(lab, pods, proxy) as through:
            jane = await asyncio.to_thread(through.open)
            guest, _ = await asyncio.to_thread(port.accept)
            with guest:
                bob = await asyncio.to_thread(lambda: through.open(user="bob"))
                last = await asyncio.to_thread(shown, jane)
                assert b"[this console was taken over by bob]" in last
                assert b"taken-over" in last
                second, _ = await asyncio.to_thread(port.accept)
            with second:
                second.sendall(b"still here")
                assert await asyncio.to_thread(shown, bob, b"here") == b"still here"
                bob.close()
                assert await asyncio.to_thread(second.recv, 16) == b""
            jane.close()


async def test_flood_ends_no_session(lab: Lab, pods: Path, proxy: FrontProxy) -> None:
    place = await running_guest(lab, pods)
    with serial_port(place) as port:
        async with whole(lab, pods, proxy) as through:
            person = await asyncio.to_thread(through.open)
            guest, _ = await asyncio.to_thread(port.accept)
            with guest:
                for _ in range(
                    32
                ):  # the guest is never made to wait for a person that reads nothing
                    await asyncio.to_thread(guest.sendall, b"x" * 2**20)
                await asyncio.to_thread(guest.sendall, b"the end")
                assert b"the end" in await asyncio.to_thread(shown, person, b"the end")
                person.send_binary(b"still here")
                assert await asyncio.to_thread(guest.recv, 16) == b"still here"
            person.close()


async def test_claims_of_whoever_is_not_the_api_server_count_for_nothing(
    lab: Lab, pods: Path, proxy: FrontProxy, tmp_path: Path
) -> None:
    await running_guest(lab, pods)
    stranger = FrontProxy(trustme.CA(), tmp_path / "other")
    stranger.folder.mkdir()
    async with whole(lab, pods, proxy) as through:
        code, why = await through.refusal(certificate=None)
        assert code == 401
        assert "requestheader-client-ca-file" in why
        code, why = await through.refusal(certificate=proxy.certificate("kubelet"))
        assert code == 401
        assert "requestheader-allowed-names" in why
        with pytest.raises((OSError, websocket.WebSocketConnectionClosedException)):
            await asyncio.to_thread(lambda: through.open(certificate=stranger.certificate()))
        await publish(lab.kube, stranger.published())  # the CA of before is believed no more

        async def gone() -> bool:
            return not await discovers(through)

        await eventually(gone, seconds=DEADLINE)


async def test_person_without_the_right_is_refused_in_their_own_name(
    lab: Lab, pods: Path, proxy: FrontProxy
) -> None:
    await running_guest(lab, pods)
    async with whole(lab, pods, proxy) as through:
        for how in ({"user": "eve"}, {"namespace": "default"}):
            code, why = await through.refusal(**how)
            assert code == 403
            assert f"user {how.get('user', 'jane')} may not get" in why


async def test_console_that_is_not_there_is_refused_with_the_cause(
    lab: Lab, pods: Path, proxy: FrontProxy
) -> None:
    await lab.add("waits")
    await running_guest(lab, pods)
    async with whole(lab, pods, proxy) as through:
        code, why = await through.refusal("none")
        assert (code, "there is no VirtualMachineInstance" in why) == (404, True)
        code, why = await through.refusal("waits")
        assert (code, "is Pending, not Running" in why) == (400, True)
        code, why = await through.refusal(query="?preserveSession=true")
        assert (code, "preserveSession" in why) == (400, True)
        code, body = await got(through, console_path(lab.namespace, "vm"))
        assert code == 403  # the API server itself has no right to it
        code, body = await got(through, "/virtualmachineinstances-mutate", method="POST")
        assert code == 404
        code, body = await got(through, DISCOVERY_PATH)
        resources = json.loads(body)["resources"]
        assert [one["name"] for one in resources] == ["virtualmachineinstances/console"]


async def test_host_leads_virt_api_nowhere_else(lab: Lab, pods: Path, proxy: FrontProxy) -> None:
    await running_guest(lab, pods)
    async with whole(lab, pods, proxy) as through:
        node = await lab.kube.get(core.Node, NODE)
        assert node is not None
        own = json.loads(node.metadata.annotations[ENDPOINT])
        with refusing() as foreign:
            port = foreign.getsockname()[1]
            for url, addresses in (
                (f"https://127.0.0.1:{port}", ["127.0.0.1"]),
                (f"https://localhost:{port}", ["127.0.0.1"]),
                ("https://169.254.169.254:80", ["169.254.169.254"]),
                (own["url"].replace("127.0.0.1", "127.0.0.2"), ["127.0.0.1"]),
            ):
                await node_is_at(lab, url, own["certificateSHA256"], *addresses)
                code, why = await through.refusal()
                assert code == 503
                assert ENDPOINT in why
            with pytest.raises(BlockingIOError):
                foreign.accept()
        await node_is_at(lab, own["url"], "00" * 32, "127.0.0.1")
        code, why = await through.refusal()
        assert (code, "shows another certificate" in why) == (503, True)


async def test_handler_that_is_away_is_named(lab: Lab, pods: Path, proxy: FrontProxy) -> None:
    await may_open(lab, "jane")
    await running_guest(lab, pods)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        await node_is_at(lab, f"https://127.0.0.1:{port}", "00" * 32, "127.0.0.1")
        network = HandlerNetwork(port, ("127.0.0.0/8",))
        async with virt_api(lab, proxy, network) as through:
            code, why = await through.refusal()
    assert code == 503
    assert f"the virt-handler of {NODE} does not answer" in why


ANSWERS = {
    b"HTTP/1.1 401 Unauthorized\r\n\r\nnot virt-api": (503, "not virt-api"),
    b"HTTP/1.1 403 Forbidden\r\n\r\n\x1b[2J" + b"\xff" * 2**20: (403, "refuses: "),
    b"HTTP/1.1 409 Conflict\r\n\r\nelsewhere": (409, "elsewhere"),
    b"HTTP/1.1 302 Found\r\nLocation: https://169.254.169.254/\r\n\r\n": (503, "HTTP 302"),
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n": (503, "does not belong to this websocket"),
    b"\xff" * 2**20: (503, "does not answer"),
    b"SSH-2.0\r\n\r\n": (503, "is not HTTP"),
    b"": (503, "does not answer"),
}
"""What the process at a host's port sends, and what the person gets."""


async def test_host_that_answers_with_anything_ends_one_console_only(
    lab: Lab, pods: Path, proxy: FrontProxy
) -> None:
    await may_open(lab, "jane")
    await running_guest(lab, pods)
    answers, heads = iter(ANSWERS), list[bytes]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        with contextlib.suppress(OSError):
            writer.write(next(answers))
            await writer.drain()
        writer.close()

    tls = ListenerTls(own_certificate())
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context)
    port = server.sockets[0].getsockname()[1]
    await node_is_at(lab, f"https://127.0.0.1:{port}", tls.fingerprint, "127.0.0.1")
    async with virt_api(lab, proxy, HandlerNetwork(port, ("127.0.0.0/8",))) as through:
        for wanted, text in ANSWERS.values():
            code, why = await through.refusal()
            assert (code, text in why) == (wanted, True), why
            assert why.isprintable()
    server.close()
    (token,) = {line for line in heads[0].splitlines() if line.startswith(b"Authorization: ")}
    audiences = claims_of(token)["aud"]
    assert audiences == [f"hypercobalt-virt-handler/{NODE}"]


def claims_of(token: bytes) -> dict[str, object]:
    """What a token says of itself, unverified."""
    payload = token.split(b".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + b"=" * 3))
    return found
