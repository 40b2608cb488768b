"""Decides once for all rules of a pass what the facts mean for every instance. Pure."""

from __future__ import annotations

from hypercobalt.operator.eviction.assessing.course import Course, course_of, recovers
from hypercobalt.operator.eviction.assessing.situation import Situation
from hypercobalt.operator.eviction.model.facts import Facts
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.eviction.planning.settled import settled


def situate(facts: Facts, policy: Policy) -> Situation:
    """Return the situation.

    Args:
        facts: as far as they are read.
        policy: of the site.
    """
    course = course_of(facts)
    return Situation(
        facts=facts,
        course=course,
        recovers=recovers(facts, course),
        policy=policy.for_evacuation if course is Course.EVACUATE else policy,
        settled=settled(facts, policy),
    )
