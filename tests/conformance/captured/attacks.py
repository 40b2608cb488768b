"""The grammar of hostile writes: what the operator reacts to, by who may try to write it.

Most of what is drawn is coherent, as an attacker who has read the operator's source would write it:
a record of a fencing with the present boot, a report of stopped guests with the record's start. The
rest is near misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from tests.conformance.captured import arrangements, guests
from tests.conformance.captured.credentials import (
    KUBELET,
    NODE_AGENT,
    OPERATOR,
    OVS_AGENT,
    UNBOUND,
)
from tests.conformance.captured.doubles import LISTENER
from tests.conformance.captured.knowledge import Definitions, Request
from tests.conformance.captured.site import (
    EVENTS,
    EVICTIONS,
    HYPERVISORS,
    LEASES,
    MIGRATIONS,
    NODES,
    OVS_LEASES,
    OVSNODES,
    PLAIN,
    REQUESTS,
)
from tests.conformance.wire import Body, Json

from hypercobalt.api import holders
from hypercobalt.api.coordination import OPERATOR_LEASE
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.api.fencing import ASSERTED_DEAD
from hypercobalt.api.ha_switch import HA_ENABLED
from hypercobalt.api.peers import PROBE
from hypercobalt.lab import rights
from hypercobalt.operator.definitions.starts import STARTS
from hypercobalt.operator.ha.model.plan import BEFORE
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    ZONE_LABEL,
)

Attack = tuple[Request, ...]
Attacks = st.SearchStrategy[Attack]

_HOST: Final = st.sampled_from(("${own}",) * 5 + ("${victim}",))
_SECRETS: Final = "/api/v1/namespaces/" + rights.NAMESPACE + "/secrets"

# -- the status of a Hypervisor --------------------------------------------------------------------

FENCED: Final[Mapping[str, Json]] = {
    "phase": "Fenced",
    "bootID": "$boot",
    "method": "Agent",
    "proof": "every instance has ended",
    "startedAt": "$ordered",
    "fencedAt": "$now",
    "forcedDownAt": "$now",
    "attempts": 1,
}
_FENCING: Final = st.builds(
    lambda more: {**FENCED, **more},
    st.dictionaries(
        st.sampled_from(["phase", "method", "bootID", "deadline", "device", "livesSince"]),
        st.just("x"),
        max_size=2,
    ).flatmap(
        lambda keys: st.fixed_dictionaries(
            {
                key: {
                    "phase": st.sampled_from(["Attempting", "Fenced", "Failed", "Released"]),
                    "method": st.sampled_from(["Agent", "BMC", "Storage", "External"]),
                    "bootID": st.sampled_from(["$boot", "$new boot", "$their boot"]),
                    "deadline": st.sampled_from(["$past", "$soon"]),
                    "device": st.just("nothing 192.0.2.9"),
                    "livesSince": st.just("$past"),
                }[key]
                for key in keys
            }
        )
    ),
)
STOPPED: Final[Json] = {"bootID": "$boot", "startedAt": "$ordered", "at": "$now", "count": 1}


_EXTREMES: Final = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
"""Times that no duration can be taken from, or added to."""
_QUANTITIES: Final = ("1e999999999", "-5", "100E")
"""Amounts that no host has."""
_NODE_QUANTITIES: Final = ("1e400", "-5", "100E")
"""A real kube-apiserver computes these: the exponent above occupies it for many minutes."""
_ESCAPES: Final = "\x1b]0;x\x07\x1b[2J\r\nnext"
"""What a terminal obeys."""


def _condition(type_: str, status: str, reason: str, at: str = "$past", text: str = "") -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": text,
        "lastTransitionTime": at,
    }


CONDITIONS: Final = (
    _condition("Evicting", "False", "Succeeded"),
    _condition("AgentPodsEvicted", "True", "NoAgentPods"),
    _condition("Registered", "False", "NotRegistered"),
    _condition("Offboarded", "True", "Offboarded"),
    _condition("Onboarding", "False", "Succeeded"),
    _condition("Ready", "False", "Evicted"),
    _condition("Terminating", "True", "Terminating"),
    _condition("AgentReporting", "True", "Reporting"),
    _condition("NodeHealthy", "True", "Healthy"),
    _condition("RecoveryBlocked", "True", "ManyHosts"),
    _condition("HypervisorDisabled", "False", "Succeeded"),
    _condition("AcceptsNewInstances", "True", "NodeHealthy"),
    *(_condition("LibVirtConnection", "True", "Ok", at, _ESCAPES) for at in _EXTREMES),
)
_ON_STORAGE: Final[Json] = {
    "id": "io-1",
    "type": "IOError",
    "severity": "Critical",
    "instance": "$guest",
    "storage": arrangements.SHARED,
    "firstSeen": "$past",
    "lastSeen": "$now",
}
_STATUS: Final[Mapping[str, st.SearchStrategy[Json]]] = {
    "fencing": _FENCING,
    "guestsStopped": st.just(STOPPED),
    "assertion": st.just({"by": f"{ASSERTED_DEAD}=$boot", "seenAt": "$past"}),
    "serviceId": st.just("$their service"),
    "hypervisorId": st.just("$their hypervisor"),
    "internalIp": st.sampled_from(["$their address", "192.0.2.99"]),
    "evicted": st.just(True),
    "unhealthySince": st.just("$past"),
    "recovery": st.just({"phase": "Recovered"}),
    "aggregates": st.just([]),
    "failingStorage": st.just([arrangements.SHARED]),
    "conditions": st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=4),
    "incidents": st.just([_ON_STORAGE]),
    "instances": st.lists(
        st.sampled_from(["$guest", "$their guest", "$their idle guest", "$no guest"]),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(lambda ids: [{"id": id_, "name": "vm", "active": True} for id_ in ids]),
    "empty": st.just([]),
    "numInstances": st.sampled_from([0, 0, 9999]),
    "hostUUID": st.just("$their uuid"),
    "bootID": st.sampled_from(["$new boot", "$their boot"]),
    "effectiveCapacity": st.sampled_from(
        [
            {"cpu": "100000", "memory": "100Ti"},
            *({"cpu": one, "memory": one} for one in _QUANTITIES),
        ]
    ),
    "bootedAt": st.sampled_from(_EXTREMES),
    "diagnostics": st.just({"url": f"https://{_ESCAPES}@x/", "certificateSHA256": _ESCAPES}),
    "recentBoots": st.just(["$past", "$past", "$now"]),
    "peerReports": st.just([{"host": "$victim", "answers": True, "asked": "$now"}]),
    "definitionsKey": st.just("AAAA"),
    "appliedTraits": st.just(["CUSTOM_HOSTILE"]),
    "waits": st.just([{"condition": "Evicting", "waitsFor": "ServersCameBack", "since": "$past"}]),
}
_TOGETHER: Final = (
    ("fencing", "guestsStopped"),
    ("serviceId", "hypervisorId", "conditions"),
    ("serviceId", "hypervisorId", "aggregates", "empty", "numInstances"),
    ("fencing", "guestsStopped", "recovery"),
)


def _fields(names: tuple[str, ...]) -> st.SearchStrategy[Body]:
    return st.fixed_dictionaries(
        {("instances" if name == "empty" else name): _STATUS[name] for name in names}
    )


_CHANGE: Final = st.one_of(
    st.lists(st.sampled_from(sorted(_STATUS)), min_size=1, max_size=3, unique=True).flatmap(
        lambda names: _fields(tuple(names))
    ),
)
_KNOWING: Final = st.sampled_from(_TOGETHER).flatmap(_fields)


def _written(path: str, host: str, change: Body, patch: str, *, about: tuple[str, str]) -> Request:
    """A change of a status, as a patch of one of three kinds."""
    if patch == "json":
        body: Json = [
            {"op": "add", "path": f"/status/{key}", "value": it} for key, it in change.items()
        ]
    elif patch == "apply":
        version, kind = about
        path = f"{path}?fieldManager=kvm-node-agent&force=true"
        body = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": host},
            "status": change,
        }
    else:
        body = {"status": change}
    return Request("PATCH", path, body, patch)


def _status(host: str, change: Body, patch: str, subresource: bool) -> Attack:
    path = f"{HYPERVISORS}/{host}{'/status' if subresource else ''}"
    about = ("kvm.cloud.sap/v1", "Hypervisor")
    return (_written(path, host, change, patch, about=about),)


def _metadata(host: str, change: Body) -> Attack:
    return (
        Request("PATCH", f"{HYPERVISORS}/{host}/status", {"metadata": change}),
        Request("PATCH", f"{HYPERVISORS}/{host}", {"metadata": change}),
    )


_RECORD: Final = (
    '{"phase":"Fenced","bootID":"${boot}","method":"Agent","startedAt":"${ordered}",'
    '"fencedAt":"${now}","forcedDownAt":"${now}"}'
)
_PATCH: Final = st.sampled_from(["merge", "merge", "json", "apply"])
_METADATA: Final = st.sampled_from(
    [
        {"annotations": {ASSERTED_DEAD: "$boot"}},
        {"annotations": {ASSERTED_DEAD: "$their boot"}},
        {"annotations": {BEFORE: "termination"}},
        {"annotations": {"kvm.cloud.sap/fencing-record": _RECORD}},
        {"annotations": {STARTS: "{}"}},
        {"annotations": {HA_ENABLED: "false"}},
        {"annotations": {PROBE: '[{"name":"${victim}","address":"${address}","asked":"${now}"}]'}},
        {"annotations": {holders.ADDRESS: "$their address"}},
        {"annotations": {holders.HOST_UUID: "$their uuid"}},
        {"labels": {HOSTNAME_LABEL: "$victim"}},
        {"labels": arrangements.labels(2)},
        {"finalizers": [FINALIZER]},
        {"finalizers": None},
    ]
)

# -- definitions, Evictions, Secrets ---------------------------------------------------------------

_IDS: Final = st.sampled_from(
    ["$guest", "$guest", "$idle guest", "$their guest", "$their idle guest", "$no guest"]
)
_MORE: Final[Mapping[str, str]] = {
    "arguments": guests.HVM + guests.ARGUMENTS,
    "kernel": guests.KERNEL,
    "their disk as variables": guests.VARIABLES,
    "a mark": guests.HVM + guests.MARK.format(host="${victim}", boot="${their boot}"),
}
"""What a hostile definition has beside its devices."""
_DEFINITION: Final = st.tuples(
    _IDS, st.sampled_from([*guests.HOSTILE, *_MORE, "nothing"]), st.booleans()
)


def hostile(what: str, uuid: str, called: str, host: str) -> str:
    """A definition with what another host must not be told to use."""
    more = _MORE.get(what, guests.HVM)
    devices = (guests.HOSTILE[what],) if what in guests.HOSTILE else ()
    taken = guests.CALLED.get(what, called)
    return guests.document(uuid, taken, host, devices=devices, more=more, disk=called)


def definitions(
    write: Definitions, symbols: Mapping[str, Json], hypervisor: Body
) -> tuple[Request, ...]:
    """Write hostile definitions; with the own Hypervisor as just read."""
    made: dict[str, DomainDefinition] = {}
    host, own = str(symbols[write.host[1:]]), str(symbols["own"])
    for symbol, what, active in write.domains:
        uuid = str(symbols[symbol[1:]])
        called = f"{own}-vm-{int(symbol == '$idle guest')}"
        xml = hostile(what, uuid, called, own)
        for name in ("victim", "their boot"):
            xml = xml.replace(f"${{{name}}}", str(symbols[name]))
        made[uuid] = DomainDefinition(name=called, xml=xml, active=active)
    found = HostDefinitions(str(symbols["boot"]), str(symbols["mark"]), made)
    body = arrangements.definitions_body(host, found, hypervisor)
    if body is None:
        return ()
    path = arrangements.definitions_path(host)
    return (Request("PATCH", path, body), Request("POST", path.rpartition("/")[0], body))


DEFINITIONS: Final = st.builds(
    Definitions,
    st.sampled_from(["$own"] * 5 + ["$victim"]),
    st.lists(_DEFINITION, min_size=1, max_size=2, unique_by=lambda one: one[0]).map(tuple),
)


EVICTION_NAMES: Final = ("ha-0000c0de-0000000001", "ha-0000c0de-0000000002")
"""Names of recoveries of instances, as an agent may choose them."""


def _eviction(name: str, spec: Body) -> Attack:
    about = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Eviction", "metadata": {"name": name}}
    return (Request("POST", EVICTIONS, {**about, "spec": spec}),)


_SPEC: Final = st.one_of(
    st.fixed_dictionaries(
        {
            "hypervisor": st.sampled_from(["$own", "$own", "$own", "$victim"]),
            "reason": st.just("recover"),
            "trigger": st.sampled_from(
                ["InstanceCrash", "ControlError", "MemoryFailure", "NodeFailure"]
            ),
            "mode": st.sampled_from(["auto", "restart", "cold", "live", "evacuate"]),
            "instances": st.lists(_IDS, min_size=1, max_size=2, unique=True),
        }
    ),
    st.fixed_dictionaries(
        {
            "hypervisor": st.just("$own"),
            "reason": st.just("shutdown"),
            "trigger": st.sampled_from(["HostShutdown", "MemoryFailure", "NodeFailure"]),
        },
        optional={"mode": st.just("live")},
    ),
)
_EVICTION: Final = st.builds(
    _eviction,
    st.sampled_from([*EVICTION_NAMES, "ha-${victim}", "${their recovery}", "${own}", "${victim}"]),
    _SPEC,
)
_TAKEN: Final = st.builds(_eviction, st.just("${their recovery}"), _SPEC)
"""The operator creates an Eviction of this name in its next steps."""
_DONE: Final[Json] = {"conditions": [_condition("Evicting", "False", "Succeeded")]}
_RECOVERY: Final = st.builds(
    lambda name, request: (Request(request[0], f"{EVICTIONS}/{name}{request[1]}", request[2]),),
    st.sampled_from([*EVICTION_NAMES, "${their recovery}", "${own}", "${victim}"]),
    st.sampled_from(
        [
            ("DELETE", "", None),
            ("PATCH", "", {"metadata": {"finalizers": None}}),
            ("PATCH", "", {"spec": {"hypervisor": "$own"}}),
            ("PATCH", "/status", {"status": _DONE}),
        ]
    ),
)
"""Changes to an Eviction that is there: it ends, goes, or becomes another host's."""


def secret(name: str, how: str) -> Attack:
    path = f"{_SECRETS}/{name}"
    match how:
        case "copy":
            keys = ("password", "current.pem", "domains.json.gz")
            return tuple(
                Request(
                    "PATCH", path, [{"op": "copy", "from": f"/data/{k}", "path": "/type"}], "json"
                )
                for k in keys
            )
        case "merge":
            return (Request("PATCH", path, {"immutable": "x"}),)
        case "apply":
            about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
            body: Json = {**about, "immutable": "x"}
            return (Request("PATCH", f"{path}?fieldManager=x&force=true", body, "apply"),)
        case "watch":
            return (Request("GET", f"{_SECRETS}?watch=1", watch=True),)
        case "guess":  # the answer tells whether it was right
            guess: Json = [{"op": "test", "path": "/data/password", "value": "eA=="}]
            return (Request("PATCH", path, guess, "json"),)
        case "replace":
            about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
            return (
                Request("DELETE", path),
                Request("POST", _SECRETS, {**about, "stringData": {"password": "x"}}),
            )
        case "token":  # of the account that may read them
            account = "serviceaccounts/hypercobalt-operator-controller-manager/token"
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            return (Request("POST", f"{_SECRETS.rpartition('/')[0]}/{account}", review),)
        case "list":
            return (Request("GET", _SECRETS),)
        case _:
            return (Request("GET", path),)


_NAMES: Final = ("lab-bmc", arrangements.KEY, "domains.${victim}", "domains.${own}")
_SECRET: Final = st.builds(
    secret,
    st.sampled_from(_NAMES),
    st.sampled_from(
        ["copy", "merge", "apply", "get", "list", "watch", "guess", "replace", "token"]
    ),
)

# -- Events, Leases, Migrations, requests ----------------------------------------------------------


def _event(name: str, about: str, note: str) -> Body:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kvm.cloud.sap/node-agent",
        "reportingInstance": "x",
        "action": "Watching",
        "reason": "Crash",
        "type": "Warning",
        "note": note,
        "regarding": {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": about},
    }


_REGARDING: Final[Json] = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": "$own"}
REWRITTEN: Final = (
    Request(
        "PATCH",
        f"{EVENTS}/${{event}}",
        {
            "regarding": _REGARDING,
            "note": "rewritten",
            "reportingController": "kvm.cloud.sap/node-agent",
        },
    ),
)
"""Another's Event, made one of the own host."""
REPORTED: Final = (Request("POST", EVENTS, _event("hostile-2", "$victim", "x")),)
"""An Event of another host."""
RELATED: Final = (
    Request(
        "POST",
        EVENTS,
        {**_event("hostile-5", "$own", "x"), "related": {**_REGARDING, "name": "$victim"}},
    ),
)
"""An Event of the own host that names another one as related."""
_SERIES: Final[Json] = {"count": 9, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}
_CORE_EVENTS: Final = "/api/v1/namespaces/default/events"
_CORE_EVENT: Final[Json] = {
    "metadata": {"name": "hostile-4", "namespace": "default"},
    "involvedObject": {**_REGARDING, "name": "$victim"},
    "source": {"component": "kvm.cloud.sap/hypervisor-operator", "host": "$victim"},
    "reason": "Fenced",
    "type": "Warning",
    "message": "x",
}
"""An Event like the operator's, by the older API."""
_EVENTS: Final = st.sampled_from(
    [
        (Request("POST", EVENTS, _event("hostile", "$own", "x")),),
        REPORTED,
        RELATED,
        (
            Request("POST", EVENTS, _event("hostile", "$own", "x")),
            Request("PATCH", f"{EVENTS}/hostile", {"regarding": {"name": "$victim"}}),
        ),
        REWRITTEN,
        (Request("DELETE", f"{EVENTS}/${{event}}"),),
        (Request("DELETE", EVENTS),),
        (Request("PATCH", f"{EVENTS}/${{event}}", {"series": _SERIES}),),
        (Request("POST", _CORE_EVENTS, _CORE_EVENT),),
    ]
)


def _lease(path: str, name: str, spec: Body) -> Attack:
    return (Request("PATCH", f"{path}/{name}", {"spec": spec}),)


_OF_THE_OPERATOR: Final = st.sampled_from(
    [
        (Request("DELETE", f"{LEASES}/{OPERATOR_LEASE}"),),
        (Request("PATCH", f"{LEASES}/{OPERATOR_LEASE}", {"spec": {"holderIdentity": "hostile"}}),),
        (Request("DELETE", f"{LEASES}/node-agent-${{victim}}"),),
    ]
)
"""Who leads, and that another host's agent lives."""
_LEASE: Final = st.builds(
    _lease,
    st.just(LEASES),
    _HOST.map(lambda host: f"node-agent-{host}"),
    st.sampled_from(
        [
            {"holderIdentity": ""},
            {"leaseDurationSeconds": 100_000},
            {"leaseDurationSeconds": 1},
            {"holderIdentity": "hostile"},
        ]
    ),
)
_ENDED: Final[Json] = {"type": "completed", "origin": "$victim", "destination": "$own"}


def _migration(name: str, origin: str) -> Body:
    server = name.rpartition("-20260101")[0]
    return {
        "apiVersion": "kvm.cloud.sap/v1alpha1",
        "kind": "Migration",
        "metadata": {
            "name": name,
            "labels": {"kvm.cloud.sap/origin": origin, "kvm.cloud.sap/server": server},
        },
        "spec": {},
    }


THEIRS_MOVES: Final = (
    Request(
        "POST",
        MIGRATIONS,
        {
            "apiVersion": "kvm.cloud.sap/v1alpha1",
            "kind": "Migration",
            "metadata": {
                "name": "${their guest}-20260101-000000",
                "labels": {
                    "kvm.cloud.sap/origin": "$own",
                    "kvm.cloud.sap/server": "$their guest",
                },
            },
            "spec": {},
        },
    ),
    Request(
        "PATCH",
        f"{MIGRATIONS}/${{their guest}}-20260101-000000/status",
        {"status": {"type": "unbounded", "origin": "$own", "started": "$now"}},
    ),
)
"""A migration of another host's guest, which goes on."""
_MIGRATION: Final = st.sampled_from(
    [
        (
            Request(
                "POST",
                MIGRATIONS,
                {
                    "apiVersion": "kvm.cloud.sap/v1alpha1",
                    "kind": "Migration",
                    "metadata": {
                        "name": "$their guest",
                        "labels": {"kvm.cloud.sap/origin": "$own"},
                    },
                    "spec": {},
                },
            ),
            Request("PATCH", f"{MIGRATIONS}/${{their guest}}/status", {"status": _ENDED}),
        ),
        THEIRS_MOVES,
        (Request("DELETE", f"{MIGRATIONS}/${{their guest}}"),),
        (Request("DELETE", MIGRATIONS),),
        (
            Request("POST", MIGRATIONS, _migration("${their guest}-20260101-000001", "$victim")),
            Request(
                "PATCH",
                f"{MIGRATIONS}/${{their guest}}-20260101-000001/status",
                {"status": {**_ENDED, "origin": "$victim", "destination": "$victim"}},
            ),
        ),
        (
            Request("POST", MIGRATIONS, _migration("${guest}-20260101-000002", "$own")),
            Request(
                "PATCH",
                f"{MIGRATIONS}/${{guest}}-20260101-000002",
                {"metadata": {"labels": {"kvm.cloud.sap/origin": "$victim"}}},
            ),
        ),
        (
            Request("POST", MIGRATIONS, _migration("${their idle guest}-20260101-000003", "$own")),
            Request(
                "PATCH",
                f"{MIGRATIONS}/${{their idle guest}}-20260101-000003",
                {"metadata": {"finalizers": ["x.y/z"]}},
            ),
        ),
    ]
)
_READS: Final = st.sampled_from(
    [
        (Request("GET", f"{EVICTIONS}?watch=1", watch=True),),
        (
            Request(
                "GET",
                f"{EVICTIONS}?watch=1&fieldSelector=metadata.name%3D{EVICTION_NAMES[0]}",
                watch=True,
            ),
        ),
        (Request("GET", EVICTIONS),),
        (Request("GET", REQUESTS),),
    ]
)
LARGE: Final = (
    _status("${own}", {"libVirtVersion": "x" * 700_000}, "merge", True),
    _eviction(
        "ha-0000c0de-0000000003",
        {
            "hypervisor": "$own",
            "reason": "x" * 100_000,
            "trigger": "InstanceCrash",
            "mode": "restart",
            "instances": ["$no guest"],
        },
    ),
    (Request("POST", EVENTS, _event("long", "$own", "x" * 50_000)),),
)

COHERENT: Final = st.builds(_status, st.just("${own}"), _KNOWING, st.just("merge"), st.just(True))
"""Fields of a status that mean something together."""

_NODE_AGENT: Final = st.one_of(
    st.builds(_status, _HOST, _CHANGE, _PATCH, st.sampled_from([True, True, True, False])),
    st.builds(_status, st.just("${own}"), _CHANGE, _PATCH, st.just(True)),
    COHERENT,
    st.builds(_metadata, _HOST, _METADATA),
    _EVICTION,
    _EVICTION,
    _RECOVERY,
    _SECRET,
    _EVENTS,
    _LEASE,
    _OF_THE_OPERATOR,
    _MIGRATION,
    st.one_of(_READS, _READS, st.sampled_from(LARGE)),
)

# -- the other credentials -------------------------------------------------------------------------

_BROKEN: Final = st.sampled_from(
    [
        {"conditions": [_condition("Ready", "False", "OVNControllerConnected")]},
        {"conditions": [_condition("VswitchdResponding", "False", "NotResponding")]},
        {"bridges": [{"name": "br-int", "status": "Down"}]},
    ]
)
_ABOUT_SWITCH: Final = {"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "name": "$victim"}
_OVS_AGENT: Final = st.one_of(
    st.builds(
        lambda host, change, patch: (
            _written(
                f"{OVSNODES}/{host}/status",
                host,
                change,
                patch,
                about=("ovs.c5c3.io/v1alpha1", "OVSNode"),
            ),
        ),
        _HOST,
        _BROKEN,
        _PATCH,
    ),
    st.builds(
        _lease,
        st.just(OVS_LEASES),
        _HOST.map(lambda host: f"ovs-agent-{host}"),
        st.sampled_from([{"holderIdentity": ""}, {"leaseDurationSeconds": 1}]),
    ),
    st.builds(lambda host: (Request("DELETE", f"{OVSNODES}/{host}"),), _HOST),
    st.sampled_from(
        [
            (Request("DELETE", OVSNODES),),
            (Request("PATCH", f"{OVSNODES}/${{victim}}", {"metadata": {"labels": {"x": "y"}}}),),
            (Request("PATCH", f"{OVSNODES}/${{own}}", {"metadata": {"finalizers": ["x.y/z"]}}),),
        ]
    ),
    st.builds(
        lambda host: (
            Request("PATCH", f"{OVSNODES}/{host}", {"spec": {"nodeRef": {"name": "$victim"}}}),
        ),
        _HOST,
    ),
    st.builds(_status, _HOST, _CHANGE, _PATCH, st.just(True)),
    st.just(
        (
            Request(
                "POST", EVENTS, {**_event("hostile-3", "$victim", "x"), "regarding": _ABOUT_SWITCH}
            ),
        )
    ),
    _EVENTS,
    _SECRET,
    _READS,
)


def _node(host: str, change: Body, status: bool) -> Attack:
    return (Request("PATCH", f"{NODES}/{host}{'/status' if status else ''}", change),)


def _says(type_: str, status: str, at: str = "$now") -> Json:
    stamps = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    return {"type": type_, "status": status, "reason": "x", "message": "", **stamps}


_DEVICE: Final = st.sampled_from(
    [
        {"metadata": {"labels": arrangements.labels(2)}},
        {"metadata": {"labels": {arrangements.PORT_LABEL: LISTENER}}},
        {"metadata": {"labels": {arrangements.PORT_LABEL: None}}},
    ]
)
"""Labels by which a fence device was once found."""
_NODE: Final = st.sampled_from(
    [
        {"metadata": {"labels": {HOSTNAME_LABEL: "$victim"}}},
        {"metadata": {"labels": {LIFECYCLE_LABEL: None}}},
        {"metadata": {"labels": {HYPERVISOR_LABEL: None}}},
        {"metadata": {"annotations": {AGGREGATES_ANNOTATION: "zone-b"}}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}},
        {"status": {"conditions": [_says("Ready", "False")]}},
        {"status": {"conditions": [_says("Ready", "Unknown")]}},
        {"status": {"conditions": [_says("Ready", "True")]}},
        {"status": {"addresses": []}},
        {"status": {"conditions": [_says("Ready", "True"), _says("Terminating", "True")]}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "$their address"}]}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.77"}]}},
        {"status": {"nodeInfo": {"bootID": "$their boot"}}},
        {"status": {"nodeInfo": {"bootID": "$new boot"}}},
        {"status": {"nodeInfo": {"systemUUID": "$their uuid"}}},
        {"metadata": {"labels": {"lab.node-restriction.kubernetes.io/bmc": "ipmi"}}},
        {"metadata": {"labels": {ZONE_LABEL: "zone-of-none"}}},
        {"spec": {"unschedulable": True}},
        *({"status": {"conditions": [_says("Ready", "True", at)]}} for at in _EXTREMES),
        *({"status": {"capacity": {"cpu": one, "memory": one}}} for one in _NODE_QUANTITIES),
        {"status": {"conditions": [_says("Ready", "True"), _says("MemoryPressure", "True")]}},
    ]
)
_KUBELET: Final = st.one_of(
    st.builds(_node, st.just("${own}"), _DEVICE, st.booleans()),
    st.builds(_node, _HOST, _NODE, st.booleans()),
    st.builds(lambda host: (Request("DELETE", f"{NODES}/{host}"),), st.just("${victim}")),
    st.builds(_status, _HOST, _CHANGE, _PATCH, st.just(True)),
    _SECRET,
    _READS,
)

_NO_EXECUTE: Final[Json] = {"key": "kvm.cloud.sap/offboarding", "effect": "NoExecute"}


def pod(spec: Body) -> Attack:
    """What the operator's Deployment on another's Node runs."""
    path = "/apis/apps/v1/namespaces/kube-system/deployments/maint-${victim}"
    return (Request("PATCH", path, {"spec": {"template": {"spec": spec}}}),)


_CONTAINER: Final[Json] = {
    "name": "pause",
    "image": "busybox:1.37.0",
    "command": ["sleep", "inf"],
    "startupProbe": {"exec": {"command": ["/bin/true"]}},
}
PODS: Final[tuple[Body, ...]] = (
    {"priorityClassName": "system-node-critical"},
    {"containers": [{**_CONTAINER, "ports": [{"containerPort": 22, "hostPort": 22}]}]},
)
_OPERATOR: Final = st.one_of(
    st.just((Request("PATCH", f"{NODES}/{PLAIN}", {"spec": {"taints": [_NO_EXECUTE]}}),)),
    st.builds(pod, st.sampled_from(PODS)),
    st.sampled_from(
        [
            (Request("DELETE", f"{NODES}/{PLAIN}"),),
            (Request("PATCH", f"{NODES}/{PLAIN}", {"metadata": {"labels": {"x": "y"}}}),),
            (Request("GET", _SECRETS),),
        ]
    ),
)

_REACTION: Final = st.one_of(_TAKEN, _EVICTION, _RECOVERY, COHERENT, _LEASE)
REACTIONS: Final[Mapping[str, Attacks]] = {
    NODE_AGENT: _REACTION,
    UNBOUND: _REACTION,
    OVS_AGENT: _OVS_AGENT,
    KUBELET: _KUBELET,
}
"""What may stop a recovery that is under way."""

ATTACKS: Final[Mapping[str, Attacks]] = {
    NODE_AGENT: _NODE_AGENT,
    UNBOUND: _NODE_AGENT,
    OVS_AGENT: _OVS_AGENT,
    KUBELET: _KUBELET,
    OPERATOR: _OPERATOR,
}
