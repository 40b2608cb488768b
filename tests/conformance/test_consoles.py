"""Consoles through a real API server, which passes them on to virt-api with its own certificate.

`cobalt virt-api` runs with the account of its chart. The handler of the node is in this process,
with a serial port that the test plays. The embedded API server passes nothing on
(`tests/integration/virt/handler/test_forwarded_consoles.py`).
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
import trustme
import websocket
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.permitted import Cluster, of_account, permitted
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server, StartError, free_port, process, write_kubeconfig
from tests.conformance.targets import COBALT, KUBECTL, SUBJECT
from tests.conformance.virt_grants import OF_CONSOLES
from tests.conformance.wire import Body
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, NODE, Lab
from tests.integration.virt.handler.served import (
    command,
    running_guest,
    serial_port,
    serving,
    talk,
)

from hypercobalt.api.kubevirt import definition
from hypercobalt.api.kubevirt.console import ENDPOINT, console_path
from hypercobalt.runtime import Kube, load_connection

pytestmark = [
    pytest.mark.timeout(240),  # Go compiles its standard library the first time
    pytest.mark.skipif(SUBJECT == "real", reason="one server is enough, and it is the real one"),
]

CHART = "hypercobalt-virt"
GROUP = "/apis/subresources.kubevirt.io/v1"
BOB = "conformance-bob"
FLOOD = 64
"""MiB that a guest writes while its person reads nothing."""
RBAC = "rbac.authorization.k8s.io"


@dataclass
class Site:
    """The real server with virt-api, which finds the handler at one port of this machine."""

    cluster: Cluster
    log: Path
    folder: Path
    port: int
    pid: int

    @property
    def server(self) -> Server:
        return self.cluster.server

    def open(self, name: str = "vm", token: str = BOB, **how: str) -> websocket.WebSocket:
        """A console at the API server, as virtctl opens it."""
        path = console_path(how.get("namespace", NAMESPACE), name)
        headers = [f"Authorization: Bearer {token}", *how.get("headers", "").splitlines()]
        return websocket.create_connection(
            f"{self.server.url.replace('https', 'wss')}{path}",
            subprotocols=["plain.kubevirt.io"],
            header=headers,
            sslopt={"ca_certs": str(self.server.ca_file)},
            timeout=DEADLINE,
        )

    def kubeconfig(self, token: str) -> Path:
        file = self.folder / f"kubeconfig-{token}"
        write_kubeconfig(file, self.server.url, self.server.ca_file, token)
        return file


def objects(port: int) -> list[Body]:
    """The rights and the APIService of the chart, whose Service leads to this machine."""
    made = [
        body
        for body in of_account(rendered(CHART), "kubevirt-apiserver")
        if "webhooks" not in body and body["kind"] not in {"Deployment", "Service"}
    ]
    for body in made:
        if body["kind"] == "APIService":
            body["spec"]["service"]["port"] = port
    spec: Body = {"type": "ExternalName", "externalName": "localhost"}
    meta: Body = {"name": "virt-api", "namespace": NAMESPACE}
    return [*made, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}]


def front_proxy(folder: Path) -> dict[str, object]:
    """Flags with which an API server passes requests on."""
    authority = trustme.CA()
    certificate = authority.issue_cert("proxy.local", common_name="front-proxy-client")
    authority.cert_pem.write_to_path(str(folder / "proxy-ca.crt"))
    certificate.private_key_pem.write_to_path(str(folder / "proxy.key"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "proxy.crt"))
    return {
        "requestheader-client-ca-file": folder / "proxy-ca.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": folder / "proxy.crt",
        "proxy-client-key-file": folder / "proxy.key",
    }


def served_certificate(folder: Path) -> Path:
    authority = trustme.CA()
    made = authority.issue_cert(f"virt-api.{NAMESPACE}.svc")
    folder.mkdir()
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    made.private_key_pem.write_to_path(str(folder / "tls.key"))
    (folder / "tls.crt").write_bytes(b"".join(it.bytes() for it in made.cert_chain_pems))
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("consoles")
    port, handlers, server = free_port(), free_port(), folder / "server"
    server.mkdir()
    with permitted(server, objects(port), set(), front_proxy(folder)) as cluster:
        install_definitions(cluster.server, [definition.manifest()])
        may_open(cluster.server)
        command = [
            *(str(COBALT), "virt-api", "--kubeconfig", str(cluster.kubeconfig)),
            *("--bind-address", f"127.0.0.1:{free_port()}", "--virt-namespace", NAMESPACE),
            *("--subresources-bind-address", f"127.0.0.1:{port}"),
            *("--handler-port", str(handlers), "--handler-networks", "127.0.0.0/8"),
            *("--certificate-path", str(served_certificate(folder / "certificate"))),
            *("--health-probe-bind-address", "0", "--zap-encoder=json"),
        ]
        log = folder / "virt-api.log"
        with process(command, log) as child:
            yield Site(cluster, log, folder, handlers, child.pid)


def may_open(server: Server) -> None:
    """Let bob open consoles of one namespace, and read its instances."""
    path = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}"
    rules = [
        {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachineinstances"]},
        {
            "apiGroups": ["subresources.kubevirt.io"],
            "resources": ["virtualmachineinstances/console"],
        },
    ]
    role = {"metadata": {"name": "console"}, "rules": [{**one, "verbs": ["get"]} for one in rules]}
    call(server, "POST", f"{path}/roles", role)
    binding = {
        "metadata": {"name": "console"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "console"},
        "subjects": [{"kind": "User", "name": "bob", "apiGroup": RBAC}],
    }
    call(server, "POST", f"{path}/rolebindings", binding)


async def available(site: Site) -> None:
    """Wait until the API server passes the group on."""

    def there() -> bool:
        try:
            return "resources" in call(site.server, "GET", GROUP)
        except RuntimeError:
            return False

    try:
        await eventually(there, seconds=60)
    except (TimeoutError, AssertionError) as error:
        raise StartError(site.log.read_text()[-3000:]) from error


@asynccontextmanager
async def guest(site: Site) -> AsyncIterator[socket.socket]:
    """A guest's serial port, whose node has a handler."""
    pods = Path(mkdtemp(prefix="hv"))  # short: a Unix socket's path has 107 bytes
    kubeconfig = site.server.kubeconfig
    try:
        async with Kube(load_connection(kubeconfig), field_manager="person") as kube:
            lab = Lab(kube, kubeconfig, NAMESPACE)
            place = await running_guest(lab, pods)
            async with serving(lab, pods, site.port) as served:
                published = {
                    "url": served.server.url,
                    "certificateSHA256": served.server.fingerprint,
                }
                node(site.server, published)
                with serial_port(place) as port:
                    yield port
    finally:
        rmtree(pods)


def node(server: Server, published: Body) -> None:
    meta: Body = {"name": NODE, "annotations": {ENDPOINT: json.dumps(published)}}
    made = call(server, "POST", "/api/v1/nodes", {"metadata": meta})
    made["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    call(server, "PUT", f"/api/v1/nodes/{NODE}/status", made)


def shown(person: websocket.WebSocket, wanted: bytes) -> bytes:
    found = bytearray()
    while wanted not in found:
        code, data = person.recv_data()
        found[:-200] = b""
        assert code == websocket.ABNF.OPCODE_BINARY, data
        found += data
    return bytes(found)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def test_console_by_the_api_server(site: Site) -> None:
    """In one test: each part needs the guest, and a cluster with its handler."""
    await available(site)
    async with guest(site) as port:
        bob = await asyncio.to_thread(site.open)
        assert bob.getsubprotocol() == "plain.kubevirt.io"
        first, _ = await asyncio.to_thread(port.accept)
        first.sendall(b"\xff\0login: ")
        assert await asyncio.to_thread(shown, bob, b"login: ") == b"\xff\0login: "
        bob.send_binary(b"root")
        assert await asyncio.to_thread(first.recv, 16) == b"root"

        claims = "X-Remote-User: eve\nX-Remote-Group: system:masters\nHypercobalt-Requester: e30="
        again = await asyncio.to_thread(lambda: site.open(headers=claims))
        assert b"taken over by bob" in await asyncio.to_thread(shown, bob, b"by bob]")
        bob.close()
        first.close()
        second, _ = await asyncio.to_thread(port.accept)
        second.sendall(b"mine")
        assert await asyncio.to_thread(shown, again, b"mine") == b"mine"
        again.close()
        assert await asyncio.to_thread(second.recv, 16) == b""
        second.close()

        # bob has no right to Nodes: there is no other way for him.
        async with command(site.kubeconfig(BOB), f"{NAMESPACE}/vm") as person:
            third, _ = await asyncio.to_thread(port.accept)
            await talk(third, person)
            third.close()
            _, words = await asyncio.wait_for(person.communicate(), DEADLINE)
            assert (person.returncode, b"has closed its console" in words) == (0, True)

        before = resident_bytes(site.pid)
        slow = await asyncio.to_thread(site.open)
        fourth, _ = await asyncio.to_thread(port.accept)
        for _ in range(FLOOD):  # the guest is never made to wait for a person that reads nothing
            await asyncio.to_thread(fourth.sendall, b"x" * 2**20)
        await asyncio.to_thread(fourth.sendall, b"the end")
        assert b"the end" in await asyncio.to_thread(shown, slow, b"the end")
        assert resident_bytes(site.pid) - before < 4 * 2**20
        slow.send_binary(b"still here")
        assert await asyncio.to_thread(fourth.recv, 16) == b"still here"
        slow.close()
        fourth.close()
    assert site.cluster.forbidden() == []
    assert site.cluster.used(objects(1)) >= OF_CONSOLES


def refused(site: Site, name: str, **how: str) -> tuple[int, str]:
    with pytest.raises(websocket.WebSocketBadStatusException) as found:
        site.open(name, **how)
    body = json.loads(found.value.resp_body or b"{}")
    return found.value.status_code, str(body["message"])


async def test_refusals_arrive_as_those_of_an_api_server(site: Site) -> None:
    await available(site)
    code, why = await asyncio.to_thread(refused, site, "none")
    assert (code, "there is no VirtualMachineInstance" in why) == (404, True)
    code, why = await asyncio.to_thread(lambda: refused(site, "vm", namespace="default"))
    assert (code, "bob" in why) == (403, True)


async def test_request_past_the_api_server_is_refused(site: Site) -> None:
    await available(site)
    service = call(
        site.server,
        "GET",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.subresources.kubevirt.io",
    )
    port = service["spec"]["service"]["port"]
    with pytest.raises(websocket.WebSocketBadStatusException) as found:
        await asyncio.to_thread(
            lambda: websocket.create_connection(
                f"wss://127.0.0.1:{port}{console_path(NAMESPACE, 'vm')}",
                subprotocols=["plain.kubevirt.io"],
                header=["X-Remote-User: bob", f"Authorization: Bearer {BOB}"],
                sslopt={"cert_reqs": ssl.CERT_NONE},
                timeout=DEADLINE,
            )
        )
    assert found.value.status_code == 401


async def test_kubectl_discovers_the_group(site: Site) -> None:
    await available(site)
    kubeconfig = str(site.server.kubeconfig)
    command = [str(KUBECTL), "--kubeconfig", kubeconfig, "get", "--raw", GROUP]
    done = await asyncio.to_thread(subprocess.check_output, command)
    (console,) = json.loads(done)["resources"]
    assert console["name"] == "virtualmachineinstances/console"
