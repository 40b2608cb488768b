"""The admission policy of the node agents: what it adds to their writes, on both API servers.

    python benchmarks/agent_policy.py [--json FILE] [--rounds 10] [--writes 20] [--servers ...]

Two accounts with the same rights write one host's objects in turn: the node agents' own, which the
policy is for, and a twin of it, which no policy is for. They apply the status of a Hypervisor with
50 instances, each time with another one of them changed, and renew the agent's Lease. Then the
policy gets a version without its rule on `managedFields`, and both write as often again.

Accounts alternate in rounds, and who begins alternates, too. "more" is the median of the
differences to the twin in the same round; CPU is that of all processes of the server, etcd
included, for each write.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, cpu_seconds, report_runs
from benchmarks.rawhttp import RawClient
from tests.conformance.captured import credentials
from tests.conformance.captured.put_back import without_rules
from tests.conformance.captured.site import CAPTURED, HYPERVISORS, LEASES
from tests.conformance.permitted import object_path
from tests.conformance.prepare import call, install_definitions, own_definitions
from tests.conformance.real import Server, real_server
from tests.conformance.targets import embedded_server
from tests.conformance.wire import Body, Json
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS
from tests.unit.api.conftest import hypervisor_json

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.schema import Writer
from hypercobalt.api.writers import MOST_OWNED, written_by
from hypercobalt.lab import rights

SERVERS: Final[Mapping[str, Callable[[Path], AbstractContextManager[Server]]]] = {
    "embedded": embedded_server,
    "real": real_server,
}
INSTANCES: Final = 50
WARM_UP: Final = 30
TWIN: Final = "twin"
RULE: Final = "may not fill metadata.managedFields"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
IN_FORCE_SECONDS: Final = 30
HYPERVISOR: Final = f"{HYPERVISORS}/{CAPTURED}"
LEASE: Final = f"{LEASES}/node-agent-{CAPTURED}"
AGENT: Final = "agent"


@dataclass(frozen=True, slots=True)
class Write:
    """A request of an agent: the path, the type of its body, and the body by its number."""

    path: str
    media: str
    body: Callable[[int], bytes]


_OWN: Final = written_by(Hypervisor, Writer.NODE_AGENT)


def own_status() -> dict[str, Json]:
    """What an agent reports of a host, but for its instances."""
    found = json.loads(hypervisor_json(1))["status"]
    own = {name: value for name, value in found.items() if name in _OWN}
    return {**own, "numInstances": INSTANCES}


_STATUS: Final = own_status()


def status(number: int) -> bytes:
    """A status with many instances, of which another one has started or ended."""
    turns, changed = divmod(number, INSTANCES)
    instances: Json = [
        {
            "id": f"{at:08x}-0000-4000-8000-000000000000",
            "name": f"instance-{at:08x}",
            "active": (turns + (at <= changed)) % 2 == 0,
        }
        for at in range(INSTANCES)
    ]
    body = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "metadata": {"name": CAPTURED}}
    return json.dumps({**body, "status": {**_STATUS, "instances": instances}}).encode()


def renewal(number: int) -> bytes:
    at = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000000Z"
    return json.dumps({"spec": {"renewTime": at}}).encode()


WRITES: Final[Mapping[str, Write]] = {
    f"status of {INSTANCES} instances": Write(
        f"{HYPERVISOR}/status?fieldManager=kvm-node-agent&force=true", APPLY, status
    ),
    "renewal of a Lease": Write(LEASE, MERGE, renewal),
}


@dataclass(slots=True)
class Taken:
    """What the writes of an account have taken, by rounds: milliseconds each, and of CPU."""

    milliseconds: list[list[float]] = field(default_factory=list[list[float]])
    cpu: list[float] = field(default_factory=list[float])

    def at(self, share: float) -> float:
        ordered = sorted(one for each in self.milliseconds for one in each)
        return ordered[int(share * (len(ordered) - 1))]

    @property
    def medians(self) -> list[float]:
        """Milliseconds of a write, by rounds."""
        return [statistics.median(each) for each in self.milliseconds]


def prepare(server: Server) -> dict[str, str]:
    """Install the rights, the twin and the objects; return the tokens of both accounts."""
    install_definitions(server, [*own_definitions(), CERT_MANAGER, CERTIFICATE_REQUESTS])
    agent = credentials.install(server)[credentials.NODE_AGENT]["Authorization"]
    for body in _twin():
        credentials.put(server, object_path(body), body)
    twin = credentials.token(server, rights.NAMESPACE, TWIN, CAPTURED)
    about: Body = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor"}
    call(server, "POST", HYPERVISORS, {**about, "metadata": {"name": CAPTURED}, "spec": {}})
    lease: Body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    named: Body = {"metadata": {"name": f"node-agent-{CAPTURED}"}}
    holder: Body = {"spec": {"holderIdentity": CAPTURED, "leaseDurationSeconds": 40}}
    call(server, "POST", LEASES, {**lease, **named, **holder})
    return {AGENT: agent.removeprefix("Bearer "), TWIN: twin}


def _twin() -> list[Body]:
    """Another account, with the roles of the node agents."""
    account: Body = {"name": TWIN, "namespace": rights.NAMESPACE}
    made: list[Body] = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}]
    for one in rights.manifests("direct"):
        body: Body = json.loads(json.dumps(one))
        subjects = [named.get("name") for named in body.get("subjects", ())]
        if rights.NODE_AGENT in subjects:
            subject = {"kind": "ServiceAccount", **account}
            meta = {**body["metadata"], "name": f"{body['metadata']['name']}-{TWIN}"}
            made.append({**body, "metadata": meta, "subjects": [subject]})
    return made


def without_rule(objects: list[Body]) -> None:
    without_rules(objects, "own-host", RULE)


async def until_in_force(client: RawClient, *, rule: bool) -> None:
    """Wait until the server decides by the policy, with its rule or without it."""
    named: Json = {"f:spec": {f"f:{'z' * (MOST_OWNED + 1)}": {}}}
    entry: Json = {
        "manager": "x",
        "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
        "apiVersion": "coordination.k8s.io/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": named,
    }
    body = json.dumps({"metadata": {"managedFields": [entry]}}).encode()
    async with asyncio.timeout(IN_FORCE_SECONDS):
        while True:
            answer = await client.send("PATCH", f"{LEASE}?dryRun=All", body, MERGE)
            is_by_rule = answer.status != 200 and RULE.encode() in answer.body
            if is_by_rule if rule else answer.status == 200:
                return
            await asyncio.sleep(0.2)


async def measure(
    server: Server, clients: Mapping[str, RawClient], write: Write, rounds: int, writes: int
) -> dict[str, Taken]:
    """Have both accounts write in turn."""
    taken = {name: Taken() for name in clients}
    number = 0

    async def once(client: RawClient) -> float:
        nonlocal number
        number += 1
        body = write.body(number)
        began = time.perf_counter()
        answer = await client.send("PATCH", write.path, body, write.media)
        milliseconds = (time.perf_counter() - began) * 1000
        assert answer.status == 200, answer.body[:500]
        return milliseconds

    for client in clients.values():
        for _ in range(WARM_UP):
            await once(client)
    for at in range(rounds):
        names = list(clients)[:: 1 if at % 2 else -1]
        for name in names:
            used = sum(map(cpu_seconds, server.pids))
            taken[name].milliseconds.append([await once(clients[name]) for _ in range(writes)])
            used = sum(map(cpu_seconds, server.pids)) - used
            taken[name].cpu.append(used * 1000 / writes)
    return taken


def row(server: Server, what: str, policy: str, taken: Taken, twin: Taken) -> dict[str, object]:
    def more(own: list[float], others: list[float]) -> str:
        if taken is twin:
            return ""
        return f"{statistics.median(a - b for a, b in zip(own, others, strict=True)):+.2f}"

    return {
        "server": server.name,
        "write": what,
        "policy": policy,
        "p50_ms": f"{taken.at(0.5):.2f}",
        "p99_ms": f"{taken.at(0.99):.1f}",
        "cpu_ms": f"{statistics.median(taken.cpu):.2f}",
        "more_ms": more(taken.medians, twin.medians),
        "more_cpu_ms": more(taken.cpu, twin.cpu),
    }


async def run(server: Server, rounds: int, writes: int) -> list[dict[str, object]]:
    """Measure one server: with the policy as it is, and without its rule."""
    tokens, context, rows = prepare(server), server.ssl_context(), list[dict[str, object]]()
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(RawClient(server.url, token, context))
            for name, token in tokens.items()
        }
        for policy, change in (("all rules", None), ("without the rule", without_rule)):
            credentials.install(server, change)
            await until_in_force(clients[AGENT], rule=change is None)
            for what, write in WRITES.items():
                taken = await measure(server, clients, write, rounds, writes)
                rows.append(row(server, what, "none", taken[TWIN], taken[TWIN]))
                rows.append(row(server, what, policy, taken[AGENT], taken[TWIN]))
    return rows


async def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each account")
    parser.add_argument("--writes", type=int, default=20, help="of each round")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=[*SERVERS])
    options = parser.parse_args()
    runs = list[dict[str, object]]()
    for name in options.servers:
        with tempfile.TemporaryDirectory() as folder, SERVERS[name](Path(folder)) as server:
            runs += await run(server, options.rounds, options.writes)
    report_runs(options.json, runs)


if __name__ == "__main__":
    asyncio.run(main())
