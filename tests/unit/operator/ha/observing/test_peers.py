"""How long a probe request to peers counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.records import recorded
from tests.unit.operator.ha.made import PROVEN, hypervisor
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.codec import decode
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import PeerReport
from hypercobalt.api.peers import MOST, PROBE, PeerProbe, probes
from hypercobalt.operator.ha.observing.peers import LASTS, Peers
from hypercobalt.runtime import FakeClock, Kube
from hypercobalt.runtime.write_cache import WriteCache

S = timedelta(seconds=1)


class Nothing:
    """Neither an API server nor a Hypervisor."""

    def all(self) -> tuple[Hypervisor, ...]:
        return ()


@pytest.mark.parametrize(
    ("passes", "steps", "counts"),
    [
        pytest.param(0 * S, 0 * S, True, id="just requested"),
        pytest.param(LASTS, 0 * S, True, id="requested two minutes ago"),
        pytest.param(LASTS + S, 0 * S, False, id="requested long ago"),
        pytest.param(0 * S, -S, False, id="requested before the clock went back"),
        pytest.param(0 * S, 3600 * S, False, id="requested before the clock went forward"),
    ],
)
async def test_question_counts_for_two_minutes_by_the_clock_of_its_answers(
    passes: timedelta, steps: timedelta, *, counts: bool
) -> None:
    clock, nothing = FakeClock(), Nothing()
    peers = Peers(cast("Kube", nothing), cast("WriteCache[Hypervisor]", nothing), clock)
    await peers.request(hypervisor())
    clock.advance(passes)
    clock.step(steps)
    assert (peers.question("kvm-a") is not None) is counts
    assert peers.question("kvm-b") is None


def with_address(hypervisor: Hypervisor) -> Hypervisor:
    return replace(hypervisor, status=replace(hypervisor.status, internalIp="192.0.2.2"))


def recorded_dead(hypervisor: Hypervisor) -> Hypervisor:
    return recorded(replace(hypervisor, status=replace(hypervisor.status, fencing=PROVEN)))


class Fleet:
    """Hypervisors in memory, that are changed as on the server."""

    def __init__(self, *hypervisors: Hypervisor) -> None:
        self.found = {one.metadata.name: one for one in hypervisors}

    def all(self) -> list[Hypervisor]:
        return list(self.found.values())

    def get(self, name: str) -> Hypervisor | None:
        return self.found.get(name)

    def turn(self, _name: str) -> asyncio.Lock:
        return asyncio.Lock()

    def wrote(self, obj: Hypervisor) -> Hypervisor:
        return obj

    async def modify(
        self, _type: type[Hypervisor], name: str, change: Callable[[Hypervisor], Hypervisor]
    ) -> Hypervisor:
        self.found[name] = change(self.found[name])
        return self.found[name]


def peer(name: str, *suspects: str) -> Hypervisor:
    reports = condition("AgentReporting", "True", "Reporting")
    made = hypervisor(conditions=(reports, condition("NodeHealthy", "True", "Healthy")))
    notes = [PeerProbe(suspect, "192.0.2.1", "before") for suspect in suspects]
    annotations = {PROBE: msgspec.json.encode(notes).decode()} if notes else {}
    return replace(
        made,
        metadata=replace(made.metadata, name=name, annotations=annotations),
        status=replace(made.status, unhealthySince=None),
    )


async def test_request_replaces_those_that_another_leader_left() -> None:
    able = [peer(f"kvm-{letter}") for letter in "bcd"]
    silent = replace(peer("kvm-e", "kvm-a", "kvm-x"), status=HypervisorStatus())
    fleet = Fleet(*able, silent)
    peers = Peers(cast("Kube", fleet), cast("WriteCache[Hypervisor]", fleet), FakeClock())
    suspect = hypervisor()
    await peers.request(replace(suspect, status=HypervisorStatus(internalIp="192.0.2.1")))
    asked = {name: [one.name for one in probes(found)] for name, found in fleet.found.items()}
    assert asked == {
        "kvm-b": ["kvm-a"],
        "kvm-c": ["kvm-a"],
        "kvm-d": ["kvm-a"],
        "kvm-e": ["kvm-x"],
    }


def says(fleet: Fleet, name: str, *, asked: str, answers: bool = True, host: str = "kvm-a") -> None:
    """Have a host's agent write a report, beside those that it has written."""
    report = PeerReport(host=host, answers=answers, request=asked, evidence="libvirt\x1b[2J")
    old = fleet.found[name]
    reports = (*old.status.peerReports, report)
    fleet.found[name] = replace(old, status=replace(old.status, peerReports=reports))


async def asked_about(fleet: Fleet) -> tuple[Peers, str]:
    """Peers with a question about kvm-a, and its name."""
    peers = Peers(cast("Kube", fleet), cast("WriteCache[Hypervisor]", fleet), FakeClock())
    await peers.request(replace(hypervisor(), status=HypervisorStatus(internalIp="192.0.2.1")))
    (probe,) = probes(fleet.found["kvm-b"])
    return peers, probe.request


def answers(peers: Peers) -> dict[str, bool]:
    question = peers.question("kvm-a")
    assert question is not None
    assert set(question.peers) >= {one.peer for one in question.answers}
    return {one.peer: one.reached for one in question.answers}


async def test_only_peers_that_were_queried_count_and_only_for_this_question() -> None:
    fleet = Fleet(*(peer(f"kvm-{letter}") for letter in "bcd"), peer("kvm-e"))
    fleet.found["kvm-e"] = replace(fleet.found["kvm-e"], status=HypervisorStatus())
    peers, asked = await asked_about(fleet)
    says(fleet, "kvm-e", asked=asked)  # was not asked
    says(fleet, "kvm-b", asked="another question")
    says(fleet, "kvm-c", asked=asked, host="kvm-x")
    assert answers(peers) == {}
    says(fleet, "kvm-d", asked=asked, answers=False)
    assert answers(peers) == {"kvm-d": False}


async def test_report_of_an_older_agent_counts() -> None:
    """An older agent reports the request's name in `asked` alone, and reads it there."""
    fleet = Fleet(*(peer(f"kvm-{letter}") for letter in "bcd"))
    peers, request = await asked_about(fleet)
    (annotated,) = msgspec.json.decode(fleet.found["kvm-b"].metadata.annotations[PROBE])
    assert annotated["asked"] == request
    sent = {"status": {"peerReports": [{"host": "kvm-a", "answers": True, "asked": request}]}}
    (report,) = decode(msgspec.json.encode(sent), Hypervisor).status.peerReports
    old = fleet.found["kvm-b"]
    fleet.found["kvm-b"] = replace(old, status=replace(old.status, peerReports=(report,)))
    assert answers(peers) == {"kvm-b": True}


async def test_peer_counts_once_and_with_its_first_answer() -> None:
    fleet = Fleet(*(peer(f"kvm-{letter}") for letter in "bcd"))
    peers, asked = await asked_about(fleet)
    says(fleet, "kvm-b", asked=asked, answers=False)
    assert answers(peers) == {"kvm-b": False}
    fleet.found["kvm-b"] = peer("kvm-b")
    for _ in range(3):
        says(fleet, "kvm-b", asked=asked)
    assert answers(peers) == {"kvm-b": False}
    question = peers.question("kvm-a")
    assert question is not None
    assert len(question.answers) == 1
    assert question.answers[0].text == "libvirt?[2J"


@pytest.mark.parametrize(
    "doubt",
    [
        pytest.param(lambda hv: replace(hv, status=HypervisorStatus()), id="it does not report"),
        pytest.param(
            lambda hv: replace(hv, status=replace(hv.status, unhealthySince=NOW)), id="it is unwell"
        ),
        pytest.param(
            lambda hv: replace(hv, spec=replace(hv.spec, maintenance="ha")), id="it is recovered"
        ),
        pytest.param(
            lambda hv: replace(hv, metadata=replace(hv.metadata, deletionTimestamp=NOW)),
            id="it is going",
        ),
        pytest.param(recorded_dead, id="it was fenced"),
    ],
)
async def test_peer_in_doubt_is_not_counted(doubt: Callable[[Hypervisor], Hypervisor]) -> None:
    fleet = Fleet(*(peer(f"kvm-{letter}") for letter in "bcd"))
    peers, asked = await asked_about(fleet)
    for name in "bcd":
        says(fleet, f"kvm-{name}", asked=asked, answers=name == "b")
    fleet.found["kvm-b"] = doubt(fleet.found["kvm-b"])
    assert answers(peers) == {"kvm-c": False, "kvm-d": False}
    question = peers.question("kvm-a")
    assert question is not None
    assert "kvm-b" not in question.peers


async def test_host_that_peers_are_queried_about_is_no_peer() -> None:
    fleet = Fleet(*(peer(f"kvm-{letter}") for letter in "bcd"))
    peers, asked = await asked_about(fleet)
    says(fleet, "kvm-b", asked=asked)
    await peers.request(with_address(fleet.found["kvm-b"]))
    assert answers(peers) == {}
    question = peers.question("kvm-b")
    assert question is not None
    assert set(question.peers) == {"kvm-c", "kvm-d"}


async def test_newest_requests_are_those_that_an_agent_reads() -> None:
    suspects = [f"kvm-{number}" for number in range(MOST + 1)]
    assert [one.name for one in probes(peer("kvm-b", *suspects))] == suspects[1:]
