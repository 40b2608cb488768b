"""Facts of a pass together with what they decide for all instances at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.assessing.course import Course
from hypercobalt.operator.eviction.model.decision import EvictionPlan
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Order, Policy, order_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Situation of an Eviction in one pass.

    Args:
        facts: as far as they are read.
        course: of the instances.
        recovers: instances run afterwards, unless their owners have stopped them.
        policy: of the site, for that course.
        settled: plan of a pass that ends by these facts; None: the instances decide.
    """

    facts: Facts
    course: Course
    recovers: bool
    policy: Policy
    settled: EvictionPlan | None = None

    def having(self, facts: Facts) -> Situation:
        """Return the situation with facts that do not change the course."""
        return replace(self, facts=facts)

    def host(self) -> tuple[Hypervisor, Host]:
        """Return the host that is emptied, as Kubernetes and the compute service have it.

        Raises:
            ValueError: one of them was not read; the situation is settled, or a deletion.
        """
        facts = self.facts
        if facts.hypervisor is None or facts.host is None:
            raise ValueError(f"Eviction {facts.eviction.metadata.name}: its host was not read")
        return facts.hypervisor, facts.host

    @property
    def order(self) -> Order:
        """Which instances go first."""
        return order_of(self.facts.eviction, self.policy)

    @property
    def most_at_once(self) -> int:
        """How many instances of the host may be under way at the same time."""
        return self.facts.eviction.spec.parallelism or self.policy.per_source
