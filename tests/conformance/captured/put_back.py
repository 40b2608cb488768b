"""Mendings taken back, one by one: what the machine has to find then.

A machine that finds nothing proves nothing, unless it finds what was there. Each hole is put back
where it was mended: in the rights that the charts give, or in a rule of the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import pytest
from tests.conformance.captured import arrangements, site
from tests.conformance.captured.credentials import KUBELET, NODE_AGENT, OPERATOR, UNBOUND
from tests.conformance.captured.doubles import LISTENER
from tests.conformance.captured.site import IN_SERVICE
from tests.conformance.wire import Body, Json

from hypercobalt.adapters.fencing.devices import DeviceTemplate, Identity
from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.model import Domain, Evacuated
from hypercobalt.api import codec
from hypercobalt.api.access import UserInfo
from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import Fencing, proves_dead, recorded
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.migration import SERVER, Migration
from hypercobalt.compute.direct import (
    directory,
    evacuation,
    moves,
    remains,
    shared_disks,
    tasks,
)
from hypercobalt.compute.direct.carrying import Carrying
from hypercobalt.compute.direct.cold import ColdMove
from hypercobalt.compute.direct.definitions import ParsedDomains, stored_domain
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.live import LiveMove
from hypercobalt.compute.direct.marks import Marks
from hypercobalt.compute.direct.outcome import HostView
from hypercobalt.compute.model import Host
from hypercobalt.ha.host_failure import doubts, fencing_record
from hypercobalt.ha.host_failure.node_failure import Question
from hypercobalt.ha.incidents.escalation import RecoveryRequest
from hypercobalt.lab import rights
from hypercobalt.node_agent.incidents.recovery_evictions import Evictions
from hypercobalt.operator.agents.leases import LeaseFollower, _Entry
from hypercobalt.operator.certificates import approval
from hypercobalt.operator.eviction.model.decision import Load
from hypercobalt.operator.eviction.planning import starts
from hypercobalt.operator.eviction.turns import HostTurns, Turn
from hypercobalt.operator.ha import decide, observe
from hypercobalt.operator.ha.act import RecoveryActions
from hypercobalt.operator.ha.devices.template_fences import TemplateFences
from hypercobalt.operator.lifecycle.offboarding import Offboarding
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.shared.node_facts import host_names
from hypercobalt.runtime import AlreadyExistsError, Kube, guard, interning
from hypercobalt.runtime.client import collection, deletion, watch

Change = Callable[[list[Body]], None]
Rules = Callable[[pytest.MonkeyPatch], None]


def _no_rights(_: list[Body]) -> None:
    """The charts stay as they are."""


def _no_rules(_: pytest.MonkeyPatch) -> None:
    """The operator stays as it is."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A hole, put back.

    Args:
        name: what was there.
        hole: its number in the table of docs/security.md.
        credential: by which it is found.
        effect: words of what it brings about.
        known: names of the known attacks that find it.
        charts: changes the rights.
        definitions: changes the CRDs.
        rules: changes the operator.
        servers: that take what finds it.
    """

    name: str
    hole: int
    credential: str
    effect: str
    known: tuple[str, ...]
    charts: Change = _no_rights
    definitions: Change | None = None
    rules: Rules = _no_rules
    servers: tuple[str, ...] = ("embedded", "real")

    @contextmanager
    def applied(self) -> Iterator[Change]:
        """Change the operator's rules, and yield the change to the charts."""
        with pytest.MonkeyPatch.context() as patched:
            self.rules(patched)
            yield self.charts


def without_rules(objects: list[Body], policy: str, *words: str) -> None:
    """Take the rules with these words out of a policy."""
    found = 0
    for body in objects:
        if body["kind"] == "ValidatingAdmissionPolicy" and policy in body["metadata"]["name"]:
            rules = body["spec"]["validations"]
            kept = [one for one in rules if not any(word in str(one) for word in words)]
            found += len(rules) - len(kept)
            body["spec"]["validations"] = kept
    assert found, f"no rule of {policy} has {words}"


def without_writers(objects: list[Body]) -> None:
    """Let an agent write every field of its Hypervisor's status."""
    without_rules(objects, "own-host", "foreignFields", "foreignTypes")


def without_names(objects: list[Body]) -> None:
    """Let an agent create Evictions of any name, about any host."""
    without_rules(objects, "own-host", "may evict its own host only")


def _granted(objects: list[Body], kind: str, group: str, resource: str, *verbs: str) -> None:
    """Let node agents do more."""
    named = [
        body
        for body in objects
        if body["kind"] == kind and body["metadata"]["name"] == rights.NODE_AGENT
    ]
    assert named, f"no {kind} {rights.NODE_AGENT}"
    rule = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    named[0]["rules"].append(rule)


def _records_of_the_status(patched: pytest.MonkeyPatch) -> None:
    """The operator believes a fencing in the status that it has not recorded itself."""

    def believed(hypervisor: Hypervisor) -> Fencing | None:
        return hypervisor.status.fencing or recorded(hypervisor.metadata.annotations)

    def is_fenced(hypervisor: Hypervisor) -> bool:
        return proves_dead(believed(hypervisor), hypervisor.status.bootID)

    patched.setattr(directory, "is_fenced", is_fenced)
    patched.setattr(fencing_record, "unproven", lambda shown, _: shown)
    patched.setattr(decide, "_life_after_proof", lambda _: ())


def _reports_without_an_order(patched: pytest.MonkeyPatch) -> None:
    """Whatever a host says of its last boot counts, though nobody has ordered it to end guests."""

    def stopped(hypervisor: Hypervisor) -> str:
        status = hypervisor.status
        found = status.guestsStopped
        told = found is not None and found.bootID == status.bootID
        return "the host says so" if told else ""

    patched.setattr(observe, "stopped", stopped)


def _names_that_stay_taken(patched: pytest.MonkeyPatch) -> None:
    async def evict(self: RecoveryActions, wanted: Eviction) -> None:
        with suppress(AlreadyExistsError):
            await self._kube.create(wanted)

    patched.setattr(RecoveryActions, "_evict", evict)


def _copies_that_prove(patched: pytest.MonkeyPatch) -> None:
    def has_left(place: Place, *, copies: Mapping[str, Domain], moved_to: str = "") -> bool:
        del place, moved_to
        return any(one.active for one in copies.values())

    patched.setattr(remains, "has_left", has_left)
    patched.setattr(evacuation, "has_left", has_left)


def _copies_that_have_moved(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(ColdMove, "_has_left", lambda self, place: bool(self and place))


def _definitions_as_they_are(patched: pytest.MonkeyPatch) -> None:
    def written(
        self: Carrying, xml: str, uuid: str, *, copies: bool = False, mark: Evacuated | None = None
    ) -> str:
        del self, uuid, copies
        return xml if mark is None else xml.replace("</domain>", f"{_mark(mark)}</domain>")

    patched.setattr(Carrying, "written", written)


def _mark(mark: Evacuated) -> str:
    pending = " pending='yes'" * mark.pending
    return (
        f"<metadata><{evacuated.TAG} xmlns:hypercobalt='{evacuated.NAMESPACE}' "
        f"host='{mark.host}' boot='{mark.boot}'{pending}/></metadata>"
    )


def _files_of_anyone(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(evacuation, "files_taken", lambda *_: None)


def _devices_by_labels(patched: pytest.MonkeyPatch) -> None:
    ports = (*(arrangements.port(number) for number in range(1, 6)), LISTENER)
    labels = arrangements.labels(1)
    key = next(iter(labels))
    template = DeviceTemplate(
        name="redfish",
        agent="fence_redfish",
        parameters={"ip": arrangements.BOARDS_AT, "ipport": f"{{labels[{key}]}}"},
        values={key: ports},
        secret=arrangements.CREDENTIALS,
        identity=Identity.IGNORED,
        timeout_seconds=30,
    )
    patched.setattr(arrangements, "devices", lambda _: (template,))
    patched.setattr(TemplateFences, "shared", lambda *_: "")
    # Nothing proves whose such a device is: the condition is Unknown then.
    unproven = {type_: one for type_, one in IN_SERVICE.items() if type_ != "FenceDevicesProven"}
    patched.setattr(site, "IN_SERVICE", unproven)


def _services_by_their_ids(patched: pytest.MonkeyPatch) -> None:
    async def find(self: Offboarding, facts: LifecycleFacts) -> Host | None:
        status = facts.hypervisor.status
        for name in host_names(facts.hypervisor):
            found = await self._hosts.get(name, fresh=True)
            if found is not None:
                return found if found.service_id == status.serviceId else None
        if not status.hypervisorId or not status.serviceId:
            return None
        last = host_names(facts.hypervisor)[0]
        return Host(last, status.hypervisorId, status.serviceId, enabled=False, up=False)

    patched.setattr(Offboarding, "_find", find)


def _unbounded(definitions: list[Body]) -> None:
    """Take every bound of a text, a list or a map out of the schemas."""
    bounds = {"maxLength", "maxItems", "maxProperties"}

    def without(node: Json) -> Json:
        if isinstance(node, dict):
            return {key: without(one) for key, one in node.items() if key not in bounds}
        return [without(one) for one in node] if isinstance(node, list) else node

    for body in definitions:
        body["spec"] = without(body["spec"])


def _one_peer_suffices(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Question, "is_reached", property(lambda self: bool(self.reached)))


def _deep_objects_end_a_watch(patched: pytest.MonkeyPatch) -> None:
    for module in (codec, collection, deletion, watch):
        patched.setattr(module, "read", lambda decode, data: decode(data))


def _turns_for_all(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(HostTurns, "begin", lambda *_: Turn.NOW)


def _counts_of_all_leases(patched: pytest.MonkeyPatch) -> None:
    read_again = LeaseFollower._read_again

    async def read(self: LeaseFollower, node: str, entry: _Entry) -> None:
        before = entry.lease
        await read_again(self, node, entry)
        if entry.lease is not before:
            self._since = self._time().time()

    patched.setattr(LeaseFollower, "_read_again", read)


def _servers_that_others_keep(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(
        starts,
        "_taken",
        lambda others, **_: {server for load in others for server in load.servers},
    )


def _keys_of_anyone(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(approval, "key_refusal", lambda *_: "")


def _tokens_of_any_audience(patched: pytest.MonkeyPatch) -> None:
    identified = guard._identified

    async def of_the_api_server(kube: Kube, token: str, _: tuple[str, ...]) -> UserInfo | None:
        return await identified(kube, token, ())

    patched.setattr(guard, "_identified", of_the_api_server)


def _locks_by_one_word(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(doubts, "_ENOUGH", 1)


def _moves_of_one_host(patched: pytest.MonkeyPatch) -> None:
    def elsewhere(others: Sequence[Load], *, evacuates: bool) -> int:
        return sum(each.evacuates is evacuates for load in others for each in load.servers.values())

    patched.setattr(starts, "_elsewhere", elsewhere)


def _moves_of_all(patched: pytest.MonkeyPatch) -> None:
    def elsewhere(others: Sequence[Load], *, evacuates: bool) -> int:
        del evacuates
        return sum(len(load.servers) for load in others)

    patched.setattr(starts, "_elsewhere", elsewhere)


def _definitions_parsed_each_time(patched: pytest.MonkeyPatch) -> None:
    async def parsed(_: ParsedDomains, host: HostDefinitions) -> tuple[Domain, ...]:
        return tuple(stored_domain(host, uuid) for uuid in host.domains)

    patched.setattr(ParsedDomains, "of", parsed)


def _texts_without_bound(patched: pytest.MonkeyPatch) -> None:
    for bound in ("_YOUNG_CHARACTERS", "_KEPT_CHARACTERS", "_LONGEST"):
        patched.setattr(interning, bound, 10**9)


def _migrations_of_anyone(patched: pytest.MonkeyPatch) -> None:
    async def under_way(self: Evictions, recovery: RecoveryRequest) -> str:
        for uuid in recovery.instances:
            labels = f"{SERVER}={uuid}"
            found = await self._kube.list(Migration, self._settings.namespace, labels=labels)
            for one in found.items:
                return f"Migration {one.metadata.name}"
        return ""

    patched.setattr(Evictions, "under_way", under_way)


def _moves_by_one_list(patched: pytest.MonkeyPatch) -> None:
    def first(seen: Iterable[tuple[Place, HostView, Domain | None]]) -> Place | None:
        return next((place for place, view, _ in seen if view is HostView.ARRIVES), None)

    async def nobody(*_: object, **__: object) -> str:
        return ""

    patched.setattr(moves, "_only_target", first)
    patched.setattr(LiveMove, "_claimant", nobody)
    patched.setattr(shared_disks, "_DENIED_BY", 1)


class _All(frozenset[str]):
    """A set that has everything."""

    def __contains__(self, one: object) -> bool:
        return bool(one)


def _returns_without_a_record(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Marks, "begun", lambda *_: _All())


def _hosts_that_must_answer(patched: pytest.MonkeyPatch) -> None:
    async def no_one(*_: object) -> bool:
        return False

    for module in (evacuation, tasks):
        patched.setattr(module, "is_excused", no_one)


MUTANTS: Final = (
    Mutant(
        "what another host runs keeps one that is back out of service",
        6,
        NODE_AGENT,
        "not taken back within",
        ("delayed returns",),
        rules=_returns_without_a_record,
    ),
    Mutant(
        "a host that reports has to answer",
        6,
        NODE_AGENT,
        "not recovered within",
        ("no answers",),
        rules=_hosts_that_must_answer,
    ),
    Mutant(
        "a move of another process is believed by one list",
        1,
        NODE_AGENT,
        "was deleted by way of",
        ("a move that it lists",),
        rules=_moves_by_one_list,
    ),
    Mutant(
        "agents wait for the Migrations of other hosts",
        6,
        NODE_AGENT,
        "that has crashed waits for",
        ("their guest moves",),
        rules=_migrations_of_anyone,
    ),
    Mutant(
        "stored definitions are parsed each time",
        6,
        NODE_AGENT,
        "did nothing else for",
        ("large definitions",),
        rules=_definitions_parsed_each_time,
    ),
    Mutant(
        "texts outlive their objects",
        5,
        KUBELET,
        "stay in the operator's memory",
        ("texts that stay",),
        rules=_texts_without_bound,
    ),
    Mutant(
        "a certificate is approved for any key",
        1,
        NODE_AGENT,
        "for a key that is not on it",
        ("another key",),
        rules=_keys_of_anyone,
    ),
    Mutant(
        "pages of metrics take tokens for the API server",
        2,
        NODE_AGENT,
        "were read by",
        ("the token of scrapes",),
        rules=_tokens_of_any_audience,
    ),
    Mutant(
        "one target's word about a lock voids a proof",
        6,
        NODE_AGENT,
        "not recovered within",
        ("locks of no guest",),
        rules=_locks_by_one_word,
    ),
    Mutant(
        "moves of a host take the places of evacuations",
        6,
        NODE_AGENT,
        "not recovered within",
        ("moves without end",),
        rules=_moves_of_all,
    ),
    Mutant(
        "moves of a host take the places of others' moves",
        6,
        NODE_AGENT,
        "not recovered within",
        ("moves without end",),
        rules=_moves_of_one_host,
    ),
    Mutant(
        "an agent writes the operator's fields",
        1,
        NODE_AGENT,
        "whose power is on, was started",
        ("by its own word",),
        without_writers,
        rules=_records_of_the_status,
    ),
    Mutant(
        "a report of stopped guests needs no order",
        1,
        NODE_AGENT,
        "whose power is on, was started",
        ("a report without an order",),
        rules=_reports_without_an_order,
    ),
    Mutant(
        "definitions are defined unchecked",
        1,
        NODE_AGENT,
        "was given a hostile definition",
        ("by a true death", "by a cold move"),
        rules=_definitions_as_they_are,
    ),
    Mutant(
        "files of other instances are opened",
        1,
        NODE_AGENT,
        "of another guest, was opened",
        ("files of another",),
        rules=_files_of_anyone,
    ),
    Mutant(
        "a copy elsewhere proves that an instance has left",
        9,
        NODE_AGENT,
        "not recovered within",
        ("a copy of a guest",),
        rules=_copies_that_prove,
    ),
    Mutant(
        "a copy that runs has moved there",
        9,
        NODE_AGENT,
        "the only definition of a guest",
        ("copies of guests that move",),
        rules=_copies_that_have_moved,
    ),
    Mutant(
        "a move of any host keeps a dead one's server",
        9,
        NODE_AGENT,
        "not recovered within",
        ("a guest that leaves without an end",),
        rules=_servers_that_others_keep,
    ),
    Mutant(
        "agents patch Secrets",
        2,
        NODE_AGENT,
        "were read by",
        ("Secrets",),
        lambda objects: _granted(objects, "Role", "", "secrets", "create", "patch"),
    ),
    Mutant(
        "tokens of no Node patch Secrets",
        2,
        UNBOUND,
        "were read by",
        ("Secrets without a Node",),
        lambda objects: _granted(objects, "Role", "", "secrets", "create", "patch"),
    ),
    Mutant(
        "labels choose the fence device",
        3,
        KUBELET,
        "the power of|the password of the boards",
        ("the password of the boards", "by a true death"),
        rules=_devices_by_labels,
    ),
    Mutant(
        "services are deleted by ids of the status",
        4,
        NODE_AGENT,
        "of the compute service of",
        ("the service of another host",),
        without_writers,
        rules=_services_by_their_ids,
    ),
    Mutant(
        "one peer suffices",
        6,
        NODE_AGENT,
        "not recovered within",
        ("a recovery that a peer stops",),
        rules=_one_peer_suffices,
    ),
    Mutant(
        "a late renewal starts all counts again",
        6,
        NODE_AGENT,
        "not recovered within",
        ("renewals ahead",),
        rules=_counts_of_all_leases,
    ),
    Mutant(
        "agents take the names of recoveries",
        6,
        NODE_AGENT,
        "not recovered within",
        ("a name of a recovery",),
        without_names,
        rules=_names_that_stay_taken,
    ),
    Mutant(
        "agents report Events of others",
        7,
        NODE_AGENT,
        "Event hostile|Event crash",
        ("Events of others",),
        lambda objects: without_rules(objects, "own-host", "Events of its own Hypervisor"),
    ),
    Mutant(
        "schemas have no bounds",
        7,
        NODE_AGENT,
        "has [0-9]* bytes|a reason of",
        ("large objects",),
        definitions=_unbounded,
    ),
    Mutant(
        "one object that nests too deep hides all",
        7,
        NODE_AGENT,
        "not recovered within|RecursionError",
        ("fields without end",),
        lambda objects: without_rules(objects, "own-host", "may not fill metadata.managedFields"),
        rules=_deep_objects_end_a_watch,
        servers=("real",),  # the embedded server refuses such an object
    ),
    Mutant(
        "Evictions of one host keep all passes",
        8,
        NODE_AGENT,
        "not recovered within",
        ("very many Evictions",),
        rules=_turns_for_all,
    ),
    Mutant(
        "agents follow all Evictions",
        8,
        NODE_AGENT,
        "the Eviction of another host was read",
        ("all Evictions",),
        lambda objects: _granted(
            objects, "ClusterRole", "kvm.cloud.sap", "evictions", "list", "watch"
        ),
    ),
    Mutant(
        "the operator taints any Node",
        8,
        OPERATOR,
        "Node: taints",
        ("a taint on any Node",),
        lambda objects: without_rules(objects, "gardener", "virt-driver"),
    ),
    Mutant(
        "the operator's pods have any shape",
        8,
        OPERATOR,
        "the operator's pod on",
        ("a pod of any shape",),
        lambda objects: without_rules(objects, "gardener", "strayFields"),
    ),
)
