"""Attacks that once had an effect on another host, or on its secrets: each told step by step.

They are what the machine was measured by: it has to find each of them when its mending is taken
back, and every one of them runs on both servers each time.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.conformance.captured import arrangements, attacks, guests, known_shared, steps
from tests.conformance.captured.credentials import (
    KUBELET,
    NODE_AGENT,
    OF_A_HOST,
    OPERATOR,
    OVS_AGENT,
    UNBOUND,
    WHOLE_HOST,
)
from tests.conformance.captured.doubles import LISTENER
from tests.conformance.captured.knowledge import Definitions, Request
from tests.conformance.captured.machine import PATIENCE, CapturedHost
from tests.conformance.captured.site import (
    CAPTURED,
    EVICTIONS,
    NODES,
    OTHERS,
    PLAIN,
)
from tests.conformance.captured.steps import Known
from tests.conformance.wire import Body, Json

_VERY_MANY: Final = 250
"""Evictions of a host: each is looked at every few seconds."""


def _fenced_by_its_own_word(machine: CapturedHost) -> None:
    steps.status(machine, {"guestsStopped": attacks.STOPPED})
    steps.status(
        machine,
        {"fencing": dict(attacks.FENCED), "guestsStopped": attacks.STOPPED},
    )


def _by_its_own_word(machine: CapturedHost) -> None:
    """Nothing of the record is the operator's: neither a file nor a start comes of it."""
    machine.ends_its_guests()
    hostile = (("$guest", "a file of the host", True), ("$idle guest", "nothing", True))
    machine.writes_definitions_of(Definitions("$own", hostile))
    _fenced_by_its_own_word(machine)
    steps.recovers(machine, attacks.EVICTION_NAMES[0], "auto", "$guest", "$idle guest")
    machine.passes(60)


def _by_a_report_without_an_order(machine: CapturedHost) -> None:
    """The host reports that it has ended its guests, without an order to do so.

    Of a host whose Node is well the operator looks at no report.
    """
    machine.ends_its_guests()
    ready: Body = {"type": "Ready", "status": "False", "reason": "x", "message": ""}
    body: Body = {"status": {"conditions": [ready]}}
    ill = Request("PATCH", f"{NODES}/{CAPTURED}/status", body)
    machine.sends(ill, credential=KUBELET)
    machine.persists()
    steps.status(machine, {"guestsStopped": attacks.STOPPED})
    machine.passes(15)


def _by_a_true_death(machine: CapturedHost) -> None:
    """No false record: the host is silent, and fenced for that."""
    hostile = (("$guest", "a file of the host", True), ("$their idle guest", "nothing", True))
    machine.writes_definitions_of(Definitions("$own", hostile))
    machine.falls_silent(CAPTURED)
    machine.passes(240)


def _files_of_another_by_a_true_death(machine: CapturedHost) -> None:
    """All lies where the site allows it, named after the guest, which has the other one's name."""
    theirs = (
        ("$guest", "their disk as a log", True),
        ("$idle guest", "their disk as variables", True),
    )
    machine.writes_definitions_of(Definitions("$own", theirs))
    machine.falls_silent(CAPTURED)
    machine.passes(240)


def _by_a_cold_move(machine: CapturedHost) -> None:
    machine.lies_about_definitions("a file of the host")
    steps.recovers(machine, attacks.EVICTION_NAMES[1], "cold", "$idle guest")
    machine.passes(30)


def _secrets(machine: CapturedHost) -> None:
    for name in ("lab-bmc", arrangements.KEY):
        for how in ("copy", "merge", "apply", "get", "watch"):
            machine.sends(*attacks.secret(name, how))


def _labels(machine: CapturedHost, port: str) -> None:
    labels = {arrangements.PORT_LABEL: port}
    for path in (f"{NODES}/{CAPTURED}", f"{NODES}/{CAPTURED}/status"):
        machine.sends(Request("PATCH", path, {"metadata": {"labels": labels}}))


def _device_of_another(machine: CapturedHost) -> None:
    """The effect shows when the host is fenced: by a true death."""
    _labels(machine, arrangements.port(2))


def _password_to_a_listener(machine: CapturedHost) -> None:
    _labels(machine, LISTENER)
    machine.falls_silent(CAPTURED)
    machine.passes(180)


def _service_of_another(machine: CapturedHost) -> None:
    machine.captured_host_is_to_leave(forgotten=True)
    theirs: Body = {"serviceId": "$their service", "hypervisorId": "$their hypervisor"}
    steps.status(machine, {**theirs, "instances": [], "numInstances": 0, "aggregates": []})
    machine.persists()
    machine.passes(PATIENCE)


def _recovery_that_a_peer_stops(machine: CapturedHost) -> None:
    machine.answers_probes_with(answers=True)
    if not machine.silent:
        machine.falls_silent(OTHERS[0])  # the captured host is one of its peers
    machine.is_recovered_in_time()


def _recovery_whose_name_is_taken(machine: CapturedHost) -> None:
    """The name of the Eviction that recovers a host follows from what its status shows."""
    if not machine.silent:
        machine.falls_silent(OTHERS[2])
    machine.until_noticed(machine.silent[0])  # but not fenced yet
    steps.recovers(machine, "${their recovery}", "restart", "$guest")
    machine.is_recovered_in_time()
    machine.returns(machine.silent[0])


def _recovery_that_a_copy_ends(machine: CapturedHost) -> None:
    """A recovery of a guest that the captured host has as well does not count as done."""
    if machine.silent:
        return  # one host fails at a time
    machine.has_a_copy(OTHERS[1], guests.Copy(0, "runs"))
    machine.has_a_copy(OTHERS[1], guests.Copy(1, "is off", marked=True))
    steps.dies_and_is_recovered(machine, OTHERS[1])


def _recovery_of_a_guest_on_its_way(machine: CapturedHost) -> None:
    """The captured host has it as one that a migration brings, takes away, or has left there."""
    if machine.silent:
        return  # one host fails at a time
    for name, state in zip((OTHERS[0], OTHERS[3]), ("leaves", "is held"), strict=True):
        machine.has_a_copy(name, guests.Copy(0, state))
        steps.dies_and_is_recovered(machine, name)


def _recovery_of_a_guest_that_leaves_without_an_end(machine: CapturedHost) -> None:
    """The captured host is emptied itself: that Eviction follows what its libvirtd shows."""
    if machine.silent:
        return  # one host fails at a time
    machine.has_a_copy(OTHERS[2], guests.Copy(0, "leaves"))
    machine.captured_host_is_to_leave(forgotten=False)
    machine.passes(30)
    steps.dies_and_is_recovered(machine, OTHERS[2])


def _amounts_of_no_host(machine: CapturedHost) -> None:
    """The memory that every host reports is compared before any host is recovered."""
    if machine.silent:
        return  # one host fails at a time
    amounts: Body = {"cpu": "1e400", "memory": "1e999999999"}
    steps.status(
        machine, {"effectiveCapacity": amounts, "capacity": amounts, "allocation": amounts}
    )
    machine.persists()
    steps.dies_and_is_recovered(machine, OTHERS[2])


def _fields_without_end(machine: CapturedHost) -> None:
    """The Leases of all hosts are listed and followed together."""
    if machine.silent:
        return  # one host fails at a time
    machine.nests_its_fields()
    steps.dies_and_is_recovered(machine, OTHERS[0])


def _very_many_evictions(machine: CapturedHost) -> None:
    """Each look at a slow libvirtd keeps one of the operator's passes for as long."""
    if machine.silent:
        return  # one host fails at a time
    machine.answers(slowly=True)
    names = [f"ha-0000c0de-{number:010}" for number in range(_VERY_MANY)]
    for name in names:
        steps.recovers(machine, name, "restart", "$no guest")
    machine.dies(OTHERS[1])
    machine.is_recovered_in_time()
    machine.answers(slowly=False)
    machine.returns(OTHERS[1])
    machine.sends(*(Request("DELETE", f"{EVICTIONS}/{name}") for name in names))


def _renewals_ahead_of_the_watch(machine: CapturedHost) -> None:
    """Silence is counted for the Leases of all hosts together."""
    if machine.silent:
        return  # one host fails at a time
    machine.renews_ahead(ahead=True)
    steps.dies_and_is_recovered(machine, OTHERS[3])
    machine.renews_ahead(ahead=False)


def _drain_that_copies_meet(machine: CapturedHost) -> None:
    """Nothing has moved to the captured host because that runs something of the UUID."""
    name = OTHERS[3]
    for number in range(2):
        machine.has_a_copy(name, guests.Copy(number, "runs"))
    machine.is_drained(name)
    machine.is_recovered_in_time()


def _events_of_others(machine: CapturedHost) -> None:
    machine.sends(*attacks.REWRITTEN)
    machine.sends(*attacks.REPORTED)
    machine.sends(*attacks.RELATED)
    machine.passes(1)


def _large_objects(machine: CapturedHost) -> None:
    for one in attacks.LARGE:
        machine.sends(*one)
    machine.passes(1)


def _evictions_of_all(machine: CapturedHost) -> None:
    machine.sends(Request("GET", f"{EVICTIONS}?watch=1", watch=True))


def _taint(machine: CapturedHost) -> None:
    taint: Json = {"key": "kvm.cloud.sap/offboarding", "effect": "NoExecute"}
    machine.sends(Request("PATCH", f"{NODES}/{PLAIN}", {"spec": {"taints": [taint]}}))
    machine.passes(1)


def _pod(machine: CapturedHost) -> None:
    for one in attacks.PODS:
        machine.sends(*attacks.pod(one))
        machine.passes(1)


KNOWN: Final = (
    (
        Known("Secrets", 2, "direct", NODE_AGENT, _secrets),
        Known("Secrets without a Node", 2, "direct", UNBOUND, _secrets),
        Known("Secrets of the OVS agent", 2, "direct", OVS_AGENT, _secrets),
        Known("Events of others", 7, "direct", NODE_AGENT, _events_of_others),
        Known("large objects", 7, "direct", NODE_AGENT, _large_objects),
        Known("all Evictions", 8, "direct", NODE_AGENT, _evictions_of_all),
        Known("a taint on any Node", 8, "direct", OPERATOR, _taint),
        Known("a pod of any shape", 8, "direct", OPERATOR, _pod),
        Known("a move that it lists", 1, "direct", NODE_AGENT, known_shared.move_that_it_lists),
        Known("by a cold move", 1, "direct", NODE_AGENT, _by_a_cold_move),
        Known("by its own word", 1, "direct", NODE_AGENT, _by_its_own_word),
        Known("another key", 1, "direct", NODE_AGENT, known_shared.certificate_for_another_key),
        Known("the token of scrapes", 2, "direct", NODE_AGENT, known_shared.token_of_who_scrapes),
        Known("their guest moves", 6, "direct", NODE_AGENT, known_shared.migration_of_their_guest),
        Known("texts that stay", 5, "direct", KUBELET, known_shared.texts_that_stay),
        Known("a report without an order", 1, "direct", NODE_AGENT, _by_a_report_without_an_order),
    ),
    (
        Known("amounts of no host", 7, "direct", NODE_AGENT, _amounts_of_no_host),
        Known("fields without end", 7, "direct", NODE_AGENT, _fields_without_end),
        Known("very many Evictions", 8, "direct", NODE_AGENT, _very_many_evictions),
        Known("renewals ahead", 6, "direct", NODE_AGENT, _renewals_ahead_of_the_watch),
        Known("a device of another host", 3, "direct", KUBELET, _device_of_another),
        Known("by a true death", 1, "direct", NODE_AGENT, _by_a_true_death),
    ),
    (
        Known("a guest on its way", 9, "direct", NODE_AGENT, _recovery_of_a_guest_on_its_way),
        Known(
            "locks of no guest",
            6,
            "direct",
            NODE_AGENT,
            known_shared.locks_that_no_guest_holds,
            asks="boot",
        ),
        Known("files of another", 1, "direct", NODE_AGENT, _files_of_another_by_a_true_death),
        Known("large definitions", 6, "direct", NODE_AGENT, known_shared.definitions_to_parse),
    ),
    (
        Known(
            "starts that fail late",
            6,
            "direct",
            NODE_AGENT,
            known_shared.starts_that_fail_late,
            asks="boot",
        ),
        Known("delayed returns", 6, "direct", NODE_AGENT, known_shared.returns_that_it_delays),
    ),
    (
        Known("no answers", 6, "direct", NODE_AGENT, known_shared.calls_without_an_answer),
        Known("moves without end", 6, "direct", NODE_AGENT, known_shared.moves_without_end),
        Known(
            "a guest that leaves without an end",
            9,
            "direct",
            NODE_AGENT,
            _recovery_of_a_guest_that_leaves_without_an_end,
        ),
    ),
    (Known("the service of another host", 4, "nova", NODE_AGENT, _service_of_another),),
    (
        Known("copies of guests that move", 9, "direct", NODE_AGENT, _drain_that_copies_meet),
        Known("a name of a recovery", 6, "direct", NODE_AGENT, _recovery_whose_name_is_taken),
        Known("a copy of a guest", 1, "direct", NODE_AGENT, _recovery_that_a_copy_ends),
        Known("a recovery that a peer stops", 6, "direct", NODE_AGENT, _recovery_that_a_peer_stops),
        Known("the password of the boards", 3, "direct", KUBELET, _password_to_a_listener),
    ),
)
"""Attacks of a group share a site, one after the other."""
BY_NAME: Final = {known.name: known for group in KNOWN for known in group}


class Informed(CapturedHost):
    """An attacker that has read of these attacks, and does them amidst whatever else it does."""

    def _of_its_kind(self) -> list[Known]:
        """Return the attacks that its credential and the site allow."""
        held = OF_A_HOST if self.credential == WHOLE_HOST else (self.credential,)
        compute = self.site.compute
        return [
            one
            for group in KNOWN
            for one in group
            if one.credential in held and one.compute == compute
        ]

    @precondition(lambda self: bool(self._of_its_kind()))
    @rule(data=st.data())
    def does_what_once_worked(self, data: st.DataObject) -> None:
        known = data.draw(st.sampled_from(self._of_its_kind()), label="known attack")
        before, self.credential = self.credential, known.credential
        try:
            known.told(self)
        finally:
            self.credential = before
