"""How long a probe request to peers counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.operator.ha.made import hypervisor
from tests.unit.operator.samples import condition

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.peers import MOST, PROBE, Probe, probes
from hypercobalt.operator.ha.peers import LASTS, Peers
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


class Fleet:
    """Hypervisors in memory, that are changed as on the server."""

    def __init__(self, *hypervisors: Hypervisor) -> None:
        self.found = {one.metadata.name: one for one in hypervisors}

    def all(self) -> list[Hypervisor]:
        return list(self.found.values())

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
    notes = [Probe(suspect, "192.0.2.1", "before") for suspect in suspects]
    annotations = {PROBE: msgspec.json.encode(notes).decode()} if notes else {}
    return replace(made, metadata=replace(made.metadata, name=name, annotations=annotations))


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


async def test_newest_requests_are_those_that_an_agent_reads() -> None:
    suspects = [f"kvm-{number}" for number in range(MOST + 1)]
    assert [one.name for one in probes(peer("kvm-b", *suspects))] == suspects[1:]
