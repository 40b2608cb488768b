"""An agent's token in the wrong hands: random requests never touch another host.

Short by default and the same each time; `ATTACKER_STEPS=100000` is long and random. Hypothesis
keeps what failed in its database and prints how to repeat it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conformance.hosts import KINDS, PATCHES, Fleet, Kind
from tests.conformance.own_host import OTHER, OWN, hosts, objects
from tests.conformance.wire import Body, Json

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import NODE_AGENT_TYPES, UNIT_TYPE
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.schema import Writer
from hypercobalt.api.writers import written_by
from hypercobalt.operator.eviction.planning.preflight import refusal

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(0 if "ATTACKER_STEPS" in os.environ else 300)

STEPS = int(os.environ.get("ATTACKER_STEPS", "600"))
BURST = 20  # requests between two looks at the other hosts
NAMES = (
    OWN,
    OWN,
    OWN,
    OTHER,
    OTHER,
    f"{OTHER}.example.org",
    f"{OWN}.{OTHER}",
    OTHER.upper(),
    "kvm-c",
    "",
)
TRIGGERS = ("HostShutdown", "Maintenance", "Manual", "NodeFailure", "", None)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request."""

    method: str
    path: str
    body: Json = None
    media: str = "application/json"


def _maybe(values: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """A value that is rarely there, so that most requests have one fault or none."""
    return st.one_of(*(st.just(_ABSENT) for _ in range(5)), values)


_ABSENT = "\0absent"
_HOST = st.sampled_from(NAMES)
_OWNER = st.fixed_dictionaries(
    {
        "apiVersion": st.just("kvm.cloud.sap/v1"),
        "kind": st.sampled_from(["Hypervisor", "Node"]),
        "name": _HOST,
        "uid": st.just("00000000-0000-4000-8000-000000000000"),
        "blockOwnerDeletion": st.booleans(),
    }
)
_META = st.fixed_dictionaries(
    {
        "labels": _maybe(
            st.dictionaries(
                st.sampled_from(["kvm.cloud.sap/origin", "kvm.cloud.sap/server", "x"]), _HOST
            )
        ),
        "ownerReferences": _maybe(st.lists(_OWNER, max_size=2)),
        "finalizers": _maybe(st.lists(st.just("attacker.example.org/keep"), max_size=1)),
        "generateName": _maybe(st.sampled_from([f"{OTHER}-", "node-agent-"])),
        "deletionTimestamp": _maybe(st.just("2026-01-01T00:00:00Z")),
    }
)
_SPEC = st.fixed_dictionaries(
    {
        "hypervisor": _maybe(_HOST),
        "trigger": _maybe(st.sampled_from(TRIGGERS)),
        "instances": _maybe(st.lists(st.just("6f0f4b8e-0000-4000-8000-000000000000"), max_size=1)),
        "reason": _maybe(st.just("x")),
        "holderIdentity": _maybe(_HOST),
        "secretName": _maybe(st.sampled_from([f"tls-libvirt-{OTHER}", f"tls-libvirt-{OWN}"])),
        "commonName": _maybe(_HOST),
        "dnsNames": _maybe(st.lists(_HOST, max_size=2)),
        "isCA": _maybe(st.booleans()),
        "maintenance": _maybe(st.sampled_from(["ha", "termination"])),
    }
)
_CONDITIONS: list[Json] = [
    {
        "type": type_,
        "status": "True",
        "reason": "Given",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for type_ in ("Ready", "Fenced", "LibVirtConnection", "libvirtd.service")
]
_STATUS = st.fixed_dictionaries(
    {
        "origin": _maybe(_HOST),
        "destination": _maybe(_HOST),
        "type": _maybe(st.sampled_from(["completed", "failed", "unbounded"])),
        "started": _maybe(st.just("2026-01-01T00:00:00Z")),
        "numInstances": _maybe(st.integers(0, 9)),
        "serviceId": _maybe(st.just("another")),
        "fencing": _maybe(st.just({"phase": "Fenced", "bootID": "b"})),
        "conditions": _maybe(st.lists(st.sampled_from(_CONDITIONS), max_size=2)),
    }
)
_QUERY = st.dictionaries(
    st.sampled_from(["dryRun", "fieldManager", "force", "propagationPolicy", "labelSelector"]),
    st.sampled_from(["All", "kvm-node-agent", "true", "Foreground", "Orphan", "x=kvm-b", ""]),
    max_size=2,
)


def _given(parts: dict[str, Json]) -> Body:
    return {name: value for name, value in parts.items() if value != _ABSENT}


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    """Any request that a client can send to the kinds of hosts."""
    kind = draw(st.sampled_from(KINDS))
    host = draw(_HOST)
    named = draw(st.one_of(st.just(host), _HOST))
    subresource = draw(st.sampled_from(["", "", "status", "scale"]))
    method = draw(st.sampled_from(["POST", "PUT", "PATCH", "PATCH", "DELETE"]))
    collection = method == "POST" or draw(st.integers(0, 9)) == 0
    path = kind.path() if collection or not host else _path(kind, host, subresource)
    query = {name: value for name, value in draw(_QUERY).items() if value}
    path = f"{path}?{urlencode(query)}" if query else path
    body = kind.body(named or OTHER)
    body["metadata"] |= _given(draw(_META))
    if "spec" in body:
        body["spec"] = {**body["spec"], **_given(draw(_SPEC))}
    if draw(st.booleans()):
        body["status"] = _given(draw(_STATUS))
    if not named:
        del body["metadata"]["name"]
    if method == "DELETE":
        return Attempt(method, path, draw(st.sampled_from([None, {"propagationPolicy": "Orphan"}])))
    if method == "PATCH":
        media = draw(st.sampled_from(sorted(PATCHES)))
        if media == "json":
            field_ = draw(st.sampled_from(["spec", "status", "metadata"]))
            change = {"op": "replace", "path": f"/{field_}", "value": body.get(field_, {})}
            return Attempt(method, path, [change], PATCHES[media])
        if media == "apply" and "fieldManager" not in query:
            path += f"{'&' if query else '?'}fieldManager=x&force=true"
        return Attempt(method, path, body, PATCHES[media])
    return Attempt(method, path, body)


def _path(kind: Kind, host: str, subresource: str) -> str:
    path = kind.path(host, subresource)
    return quote(path, safe="/")


@dataclass(slots=True)
class Others:
    """What belongs to no agent of the own host, as it was before the first request."""

    fleet: Fleet
    before: dict[str, Json] = field(default_factory=dict[str, Json])
    answers: Counter[int] = field(default_factory=Counter[int])

    def state(self) -> dict[str, Json]:
        return {
            f"{kind.plural}/{item['metadata']['name']}": item
            for kind in KINDS
            for item in self.fleet.items(kind)
            if not _is_own(kind, item)
        } | {"the operator's": _of_the_operator(self.fleet)}

    def evictions(self) -> Iterator[Eviction]:
        (kind,) = (kind for kind in KINDS if kind.plural == "evictions")
        for item in self.fleet.items(kind):
            yield msgspec.convert(item, Eviction, strict=False)


def _of_the_operator(fleet: Fleet) -> Json:
    """Fields of the own Hypervisor that its agent may not write."""
    (kind,) = (kind for kind in KINDS if kind.plural == "hypervisors")
    (own,) = (item for item in fleet.items(kind) if _is_own(kind, item))
    mine = {*written_by(Hypervisor, Writer.NODE_AGENT), "conditions"}
    status = own.get("status", {})
    kept = {"labels", "annotations", "finalizers", "ownerReferences"}
    return {
        "spec": own["spec"],
        "metadata": {name: it for name, it in own["metadata"].items() if name in kept},
        "status": {name: value for name, value in status.items() if name not in mine},
        "conditions": [
            one
            for one in status.get("conditions", ())
            if one["type"] not in NODE_AGENT_TYPES and not re.search(UNIT_TYPE, one["type"])
        ],
    }


def _is_own(kind: Kind, item: Body) -> bool:
    meta = item["metadata"]
    if kind.plural == "migrations":
        return bool(meta.get("labels", {}).get("kvm.cloud.sap/origin") == OWN)
    return bool(meta["name"] == kind.name(OWN))


@pytest.fixture(scope="module")
def others(hosts: Fleet) -> Others:
    hosts.add(OWN)
    found = Others(hosts)
    found.before = found.state()
    return found


@settings(
    max_examples=max(1, STEPS // BURST),
    derandomize="ATTACKER_STEPS" not in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(burst=st.lists(attempts(), min_size=BURST, max_size=BURST))
def test_no_request_changes_another_host_or_moves_its_instances(
    others: Others, burst: list[Attempt]
) -> None:
    for one in burst:
        code, _ = others.fleet.send(OWN, one.method, one.path, one.body, one.media)
        others.answers[code] += 1
    assert others.state() == others.before
    for eviction in others.evictions():
        target = eviction.spec.hypervisor
        mine = eviction.metadata.name == OWN
        assert target == OWN if mine else target == eviction.metadata.name
        assert mine or refusal(Hypervisor(metadata=ObjectMeta(name=OWN)), eviction) != ""


def test_the_attacker_s_own_host_is_reached(others: Others) -> None:
    """The attack does reach the server, or refusals would prove nothing; runs after it."""
    for kind in KINDS:
        if kind.plural == "leases":
            change: Json = {"spec": {"holderIdentity": "x"}}
            others.fleet.add(OWN, [kind])
            code, _ = others.fleet.send(OWN, "PATCH", kind.path(OWN), change, PATCHES["merge"])
            assert code == 200
