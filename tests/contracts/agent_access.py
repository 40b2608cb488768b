"""Who may use an agent, held by every API server: the site, its people, an agent, the cases."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.admission import admitted
from tests.integration.runtime.scripted import eventually

from hypercobalt.agent.diagnostics.server import Subject, diagnostics
from hypercobalt.agent.diagnostics.use import Use, UseRequest
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.access import TokenRequest, TokenRequestSpec
from hypercobalt.api.address import Address
from hypercobalt.api.core import Namespace
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import NodeReference, OVSNode, OVSNodeSpec
from hypercobalt.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    ServiceAccount,
)
from hypercobalt.api.rbac import (
    Subject as Bound,
)
from hypercobalt.errors import TransientError
from hypercobalt.lab import rights
from hypercobalt.operator.ha.contract import AUDIENCE as HA_SERVICE
from hypercobalt.pki import Pair
from hypercobalt.runtime import (
    AlreadyExistsError,
    Kube,
    Manager,
    Metrics,
)
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned, RefusedError, call
from hypercobalt.runtime.guard import METRICS, guard
from hypercobalt.runtime.routes import Answer, Stream

SPACE, ELSEWHERE, NODE = "ovn-system", "elsewhere", "kvm-a"
AUDIENCE = f"hypercobalt-ovs-agent/{NODE}"
SCRAPER = "hypercobalt-ovs-agent-metrics-reader"
REPORTER = "ovs.c5c3.io/ovs-agent"
_GROUP = "ovs.c5c3.io"
_RBAC = "rbac.authorization.k8s.io"
CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
DAY = timedelta(days=1)


def certificate(
    ca: Pair,
    *users: str,
    groups: Sequence[str] = (),
    ends: timedelta = DAY,
    usages: Sequence[x509.ObjectIdentifier] = CLIENT,
) -> tuple[bytes, bytes]:
    """A client certificate and its key; `ends` counts from now."""
    issuer = x509.load_pem_x509_certificate(ca.certificate)
    signer = serialization.load_pem_private_key(ca.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    names = [
        *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
        *(x509.NameAttribute(NameOID.COMMON_NAME, user) for user in users),
    ]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(now + ends)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.public_bytes(pem), key.private_bytes(pem, pkcs8, plain)


def person_kubeconfig(
    target: Path, admin: Path, shown: tuple[bytes, bytes] | str, *, space: str = ""
) -> Path:
    """A kubeconfig for a person with a certificate and its key, or with a token."""
    config = yaml.safe_load(admin.read_text())
    if space:
        config["contexts"][0]["context"]["namespace"] = space
    if isinstance(shown, str):
        user = {"token": shown}
    else:
        chain, key = (base64.b64encode(one).decode() for one in shown)
        user = {"client-certificate-data": chain, "client-key-data": key}
    config["users"][0]["user"] = user
    target.write_text(yaml.safe_dump(config))
    return target


@dataclass
class Engine:
    """What the test's agent offers: an echo, a stream without an end, what goes wrong."""

    closed: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0

    def uses(self) -> tuple[Use, ...]:
        named = frozenset({"port", "filter"})
        return (
            Use("echo", "diagnose", self.echo, parameters=named),
            Use("trace", "trace", self.echo, method="POST", parameters=named, most=16),
            Use("capture", "capture", self.capture, method="POST", parameters=named),
        )

    async def echo(self, request: UseRequest) -> Answer:
        who = f"{request.requester.user} {' '.join(sorted(request.requester.groups))}"
        return Answer(200, f"{who} {dict(request.parameters)} {len(request.body)}".encode())

    async def capture(self, _: UseRequest) -> Stream:
        self.begun += 1
        return Stream(self.packets(), "application/vnd.tcpdump.pcap")

    async def packets(self) -> AsyncGenerator[bytes, None]:
        try:
            yield b"packet"
            await asyncio.Event().wait()
        finally:
            self.closed.set()


@asynccontextmanager
async def agent(
    kube: Kube, engine: Engine, metrics: Metrics | None = None
) -> AsyncGenerator[Pinned]:
    """The server of an OVS agent; its OVSNode is there, with where it listens."""
    for space in (SPACE, ELSEWHERE):
        with suppress(AlreadyExistsError):
            await kube.create(Namespace(metadata=ObjectMeta(name=space)))
    with suppress(AlreadyExistsError):
        spec = OVSNodeSpec(nodeRef=NodeReference(name=NODE))
        await kube.create(OVSNode(metadata=ObjectMeta(name=NODE, namespace=SPACE), spec=spec))
    own = await kube.get(OVSNode, NODE, SPACE)
    listening: asyncio.Future[DiagnosticsEndpoint] = asyncio.get_running_loop().create_future()
    settings = AgentSettings(NODE, namespace=SPACE, diagnostics=Address("127.0.0.1", 0))
    subject = Subject("ovs-agent", OVSNode, NODE, SPACE, REPORTER, lambda: own)
    manager = Manager(kube, metrics=metrics or Metrics())
    serve = diagnostics(manager, settings, subject, engine.uses(), listening.set_result)
    assert serve is not None
    task = asyncio.create_task(serve())
    try:
        async with asyncio.timeout(20):
            endpoint = await listening
        status = {"status": {"diagnostics": {"url": endpoint.url}}}
        status["status"]["diagnostics"]["certificateSHA256"] = endpoint.certificateSHA256
        await kube.merge_patch(OVSNode, NODE, status, SPACE, subresource="status")
        yield Pinned(endpoint.url, endpoint.certificateSHA256)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def allow(
    kube: Kube,
    name: str,
    subresource: str,
    verb: str,
    *,
    user: str = "",
    group: str = "",
    account: str = "",
    node: str = "",
    space: str = SPACE,
) -> None:
    """Give a person the right to a subresource; of all nodes without one."""
    rule = PolicyRule(
        apiGroups=(_GROUP,),
        resources=(f"ovsnodes/{subresource}",),
        resourceNames=(node,) if node else (),
        verbs=(verb,),
    )
    meta = ObjectMeta(name=name, namespace=space)
    if account:
        bound = Bound(kind="ServiceAccount", name=account, namespace=SPACE)
    else:
        bound = Bound(kind="User" if user else "Group", name=user or group, apiGroup=_RBAC)
    with suppress(AlreadyExistsError):
        await kube.create(Role(metadata=meta, rules=(rule,)))
        reference = RoleRef(apiGroup=_RBAC, kind="Role", name=name)
        await kube.create(RoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))


async def token(kube: Kube, account: str, *audiences: str) -> str:
    """A token of a ServiceAccount; without audiences it is for the API server."""
    meta = ObjectMeta(name=account, namespace=SPACE)
    with suppress(AlreadyExistsError):
        await kube.create(ServiceAccount(metadata=meta))
    request = TokenRequest(metadata=meta, spec=TokenRequestSpec(audiences=audiences))
    made = await kube.create_in(ServiceAccount, account, "token", request, SPACE)
    return made.status.token


async def answer(
    server: Pinned, credential: Credential, method: str, target: str, body: bytes = b""
) -> tuple[int, str]:
    """The status and the text of a whole answer."""
    try:
        async with call(server, method, target, credential, seconds=20, body=body) as reply:
            return 200, b"".join([chunk async for chunk in reply.chunks]).decode()
    except RefusedError as error:
        return error.code, str(error)


@dataclass(frozen=True)
class Case:
    """One request and its expected status; 0 is a TLS handshake that is refused."""

    name: str
    shown: str
    status: int
    text: str = ""
    method: str = "GET"
    target: str = "echo"
    body: bytes = b""

    async def check(self, server: Pinned, shown: Mapping[str, Credential]) -> None:
        """Check the answer of an agent."""
        target = self.target if self.target[0] == "/" else f"/v1/ovsnodes/{NODE}/{self.target}"
        try:
            request = answer(server, shown[self.shown], self.method, target, self.body)
            status, text = await request
        except TransientError as error:
            status, text = 0, str(error)
        assert (status, self.text in text) == (self.status, True), (status, text)


CASES = (
    Case("certificate with a right by user", "jane", 200, "jane system:authenticated {} 0"),
    Case("certificate with a right by group", "joe", 200, "joe net system:authenticated"),
    Case("certificate of another CA", "foreign", 0, "client certificates only of"),
    Case("expired certificate", "expired", 0, "client certificates only of"),
    Case("certificate of a server", "server", 0, "client certificates only of"),
    Case("certificate with two names", "two", 401, "one common name, not 2"),
    Case("nothing shown", "nothing", 401, f"a token for the audience {AUDIENCE}"),
    Case("token that is none", "garbage", 401, "not valid"),
    Case("own token, for the API server", "own", 401, f"not for the audience {AUDIENCE}"),
    Case("token for another host's agent", "other-host", 401, "not for the audience"),
    Case("token for this agent", "robot", 200, "system:serviceaccount:ovn-system:robot"),
    Case("no right at all", "eve", 403, "user eve may not get ovsnodes/diagnose"),
    Case("right to another host", "neighbour", 403, "may not get ovsnodes/diagnose kvm-a"),
    Case("right in another namespace", "stranger", 403, "in namespace ovn-system"),
    Case("right to diagnose only", "jane", 403, "create ovsnodes/trace", "POST", "trace"),
    Case("right to get what is created", "reader", 403, "create ovsnodes/trace", "POST", "trace"),
    Case("role to diagnose reads", "looker", 200, "looker"),
    Case("role to diagnose traces", "looker", 200, "looker", "POST", "trace"),
    Case("role to diagnose captures nothing", "looker", 403, "ovsnodes/capture", "POST", "capture"),
    Case("role to capture does nothing else", "catcher", 403, "ovsnodes/diagnose"),
    Case("role to read logs is of another kind", "reader-of-logs", 403, "ovsnodes/diagnose"),
    Case("right to trace", "tracer", 200, "tracer", "POST", "trace?port=tap1", b"in_port=1"),
    Case("body that is too long", "tracer", 413, "at most 16", "POST", "trace", b"x" * 17),
    Case("POST to what is read", "jane", 405, "GET", "POST"),
    Case("HEAD", "jane", 405, "", "HEAD"),
    Case("another method", "jane", 405, "GET", "DELETE"),
    Case("another host's path", "jane", 404, "", "GET", "/v1/ovsnodes/kvm-b/echo"),
    Case("path trick", "jane", 404, "", "GET", "/v1/ovsnodes/kvm-a/../kvm-a/echo"),
    Case("unknown parameter", "jane", 400, "'user' is unknown", "GET", "echo?user=root"),
    Case("parameter given twice", "jane", 400, "given twice", "GET", "echo?port=a&port=b"),
    Case("query that is none", "jane", 400, "cannot be read", "GET", "echo?port"),
)


@dataclass(frozen=True)
class Scrape:
    """One scrape of `/metrics`, by a token of a ServiceAccount, and its expected status.

    Args:
        audience: of the token; "" is for the API server.
        may: the account has the charts' role of those who scrape.
        accepts: the page accepts tokens for the API server, too.
    """

    name: str
    audience: str
    status: int
    may: bool = True
    accepts: bool = False

    async def check(self, kube: Kube) -> None:
        """Check the answer of a page."""
        account = "scraper" if self.may else "passer-by"
        shown = await token(kube, account, *filter(None, [self.audience]))
        page = guard(kube, METRICS, accepts_api_server_tokens=self.accepts)
        assert await admitted(page, shown) == self.status


SCRAPES = (
    Scrape("for metrics", METRICS, 200),
    Scrape("for metrics, without the right", METRICS, 403, may=False),
    Scrape("for the API server", "", 401),
    Scrape("for the diagnostics of an agent", AUDIENCE, 401),
    Scrape("for the switch of high availability", HA_SERVICE, 401),
    Scrape("for metrics, where any is accepted", METRICS, 200, accepts=True),
    Scrape("for the API server, where that is accepted", "", 200, accepts=True),
    Scrape("for the diagnostics, where the API server's is accepted", AUDIENCE, 401, accepts=True),
)


async def let_scrape(kube: Kube) -> None:
    """Give the ServiceAccount `scraper` the charts' role, and wait until it counts."""
    meta = ObjectMeta(name=SCRAPER)
    rule = PolicyRule(nonResourceURLs=("/metrics",), verbs=("get",))
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=SCRAPER)
    bound = Bound(kind="ServiceAccount", name="scraper", namespace=SPACE)
    await kube.create(ClusterRole(metadata=meta, rules=(rule,)))
    await kube.create(ClusterRoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))
    shown = await token(kube, "scraper", METRICS)

    async def counts() -> bool:
        return await admitted(guard(kube, METRICS), shown) == 200

    await eventually(counts, seconds=20)


ROLES = {
    "looker": "hypercobalt-ovs-agent-diagnose",
    "catcher": "hypercobalt-ovs-agent-capture",
    "reader-of-logs": "hypercobalt-node-agent-logs",
}
"""People by the charts' roles for them."""


async def bind(kube: Kube, person: str, role: str) -> None:
    """Give a person a role of the charts, on all hosts."""
    (found,) = (
        one
        for one in rights.of_charts("direct")
        if isinstance(one, ClusterRole) and one.metadata.name == role
    )
    meta = ObjectMeta(name=f"{role}-{person}")
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=role)
    bound = Bound(kind="User", name=person, apiGroup=_RBAC)
    with suppress(AlreadyExistsError):
        await kube.create(found)
    with suppress(AlreadyExistsError):
        await kube.create(ClusterRoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))


async def bind_here(kube: Kube, person: str, role: str) -> None:
    """Give a person a role of the charts, in the agents' namespace."""
    meta = ObjectMeta(name=f"{role}-{person}", namespace=SPACE)
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=role)
    bound = Bound(kind="User", name=person, apiGroup=_RBAC)
    await kube.create(RoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))


async def shown_by(kube: Kube, ca: Pair, foreign: Pair) -> dict[str, Credential]:
    """Credentials of all users; those with rights have them."""
    await allow(kube, "jane", "diagnose", "get", user="jane")
    await allow(kube, "net", "diagnose", "get", group="net")
    await allow(kube, "neighbour", "diagnose", "get", user="neighbour", node="kvm-b")
    await allow(kube, "stranger", "diagnose", "get", user="stranger", space=ELSEWHERE)
    await allow(kube, "reader", "trace", "get", user="reader")
    await allow(kube, "tracer", "trace", "create", user="tracer", node=NODE)
    for person, role in ROLES.items():
        await bind(kube, person, role)
    own = await token(kube, "robot")
    await allow(kube, "robot", "diagnose", "get", account="robot")
    others = AUDIENCE.replace("kvm-a", "kvm-b")
    names = ("jane", "eve", "neighbour", "stranger", "reader", "tracer", *ROLES)
    return {
        **{name: Credential(certificate=certificate(ca, name)) for name in names},
        "joe": Credential(certificate=certificate(ca, "joe", groups=["net"])),
        "foreign": Credential(certificate=certificate(foreign, "jane")),
        "expired": Credential(certificate=certificate(ca, "jane", ends=-DAY)),
        "server": Credential(certificate=certificate(ca, "jane", usages=SERVER)),
        "two": Credential(certificate=certificate(ca, "jane", "eve")),
        "nothing": Credential(),
        "garbage": Credential("Bearer garbage"),
        "own": Credential(f"Bearer {own}"),
        "other-host": Credential(f"Bearer {await token(kube, 'robot', others)}"),
        "robot": Credential(f"Bearer {await token(kube, 'robot', AUDIENCE)}"),
    }


async def settled(server: Pinned, shown: Mapping[str, Credential]) -> None:
    """Wait until the last of the rights counts, and the client CA is trusted."""

    async def status(name: str, method: str, use: str) -> int:
        try:
            target = f"/v1/ovsnodes/{NODE}/{use}"
            return (await answer(server, shown[name], method, target))[0]
        except TransientError:
            return 0

    async def all_count() -> bool:
        last = ("jane", "GET", "echo"), ("looker", "POST", "trace"), ("robot", "GET", "echo")
        return [await status(*one) for one in last] == [200] * 3

    await eventually(all_count, seconds=20)


async def view(kube: Kube, *, account: str = "", user: str = "") -> None:
    """Let a ServiceAccount, or a user, find the OVSNodes."""
    rule = PolicyRule(apiGroups=(_GROUP,), resources=("ovsnodes",), verbs=("list",))
    meta = ObjectMeta(name=f"view-{account or user}")
    if user:
        bound = Bound(kind="User", name=user, apiGroup=_RBAC)
    else:
        bound = Bound(kind="ServiceAccount", name=account, namespace=SPACE)
    reference = RoleRef(apiGroup=_RBAC, kind="ClusterRole", name=meta.name)
    await kube.create(ClusterRole(metadata=meta, rules=(rule,)))
    await kube.create(ClusterRoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))


async def allow_token(kube: Kube, account: str) -> None:
    """Let a ServiceAccount request tokens for itself."""
    rule = PolicyRule(
        apiGroups=("",),
        resources=("serviceaccounts/token",),
        resourceNames=(account,),
        verbs=("create",),
    )
    meta = ObjectMeta(name=f"token-{account}", namespace=SPACE)
    reference = RoleRef(apiGroup=_RBAC, kind="Role", name=meta.name)
    bound = Bound(kind="ServiceAccount", name=account, namespace=SPACE)
    await kube.create(Role(metadata=meta, rules=(rule,)))
    await kube.create(RoleBinding(metadata=meta, roleRef=reference, subjects=(bound,)))
