"""When a host may leave OpenStack."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import ON, facts, said
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.offboarding import Next, Offboarding, decide

LEAVING = with_fields(ON, maintenance="termination")
EVICTED = condition("Evicting", "False", "Succeeded")
NO_AGENTS = condition("AgentPodsEvicted", "True", "NoAgentPods")


@pytest.mark.parametrize(
    ("known", "step", "words"),
    [
        pytest.param((), Next.WAIT, "to be evicted", id="it has servers"),
        pytest.param(
            (condition("Evicting", "True", "Running", "Evicting again: 1 server"),),
            *(Next.WAIT, "to be evicted: Evicting again: 1 server"),
            id="it has some again",
        ),
        pytest.param(
            (condition("Evicting", "False", "Failed", "i1 stays"),),
            *(Next.WAIT, "to be evicted: i1 stays"),
            id="its eviction has failed",
        ),
        pytest.param((EVICTED,), Next.WAIT, "agent pods", id="its agents run"),
        pytest.param((EVICTED, NO_AGENTS), Next.REMOVE, "", id="nothing is left"),
    ],
)
def test_what_it_waits_for(known: tuple[Condition, ...], step: Next, words: str) -> None:
    plan = decide(facts(*known, spec=LEAVING))
    assert plan.next is step
    assert words in plan.text
    assert bool(plan.waits_for) is (step is Next.WAIT)


async def test_openstack_is_asked_at_the_last_moment_whether_it_is_empty() -> None:
    compute = FakeCompute(lambda: datetime.now(UTC))
    made = compute.world.add_host("kvm-a", servers=("late",))
    given = facts(
        EVICTED,
        NO_AGENTS,
        spec=LEAVING,
        host=made,
        hypervisorId=made.hypervisor_id,
        serviceId=made.service_id,
    )
    after = (await Offboarding(compute.hosts).run(given)).facts
    found = after.condition("Offboarded")
    assert found is not None
    assert "still has 1 running VMs" in found.message
    assert "--host kvm-a" in found.message
    compute.world.change_host("kvm-a", servers=())
    assert said((await Offboarding(compute.hosts).run(given)).facts, "Offboarded")[:4] == "True"
