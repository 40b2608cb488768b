"""An Eviction in words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import BEGAN, NOW, entry, eviction

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import Eviction, EvictionCheck, EvictionProgress, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.eviction.explain import explain


def of(status: str, reason: str, message: str, **fields: object) -> Eviction:
    conditions = set_condition((), "Evicting", status, reason, message, now=BEGAN)
    return eviction(EvictionStatus(conditions=conditions, **fields))  # type: ignore[arg-type]


DISABLED = EvictionCheck(name="HostDisabled", result="Failed", message="hypervisor not disabled")
DOUBT = EvictionCheck(name="Instances", result="Warning", message="vm-a cannot be moved: a GPU")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(eviction(), "Does it run, and lead?", id="not looked at"),
        pytest.param(eviction(), "There is no Hypervisor here", id="of no host"),
        pytest.param(
            of("True", "Running", "Running", checks=(DISABLED,)),
            "What to do: `cobalt maintain here",
            id="not disabled",
        ),
        pytest.param(of("True", "Running", "Running", checks=(DOUBT,)), "a GPU", id="in doubt"),
        pytest.param(
            of(
                "True",
                "Running",
                "Running",
                instances=(
                    entry("a", "Migrating", name="web", target="x", attempts=2, startedAt=BEGAN),
                ),
            ),
            "web (a), to x, for 10m, attempt 2",
            id="on its way",
        ),
        pytest.param(
            of(
                "True",
                "Running",
                "Running",
                progress=EvictionProgress(estimatedCompletion=NOW.now + timedelta(seconds=90)),
            ),
            "should have left in 90s",
            id="how long it takes",
        ),
        pytest.param(
            of(
                "False",
                "Failed",
                "failed",
                instances=(entry("b", "Failed", message="is suspended: resume it"),),
            ),
            "b: is suspended: resume it",
            id="what stayed",
        ),
        pytest.param(
            of("False", "Failed", "failed"), "`cobalt evict here` tries again", id="again"
        ),
    ],
)
def test_words(given: Eviction, said: str) -> None:
    text = "\n".join(explain(given, None, NOW.now))
    assert "It moves all instances away from here, asked for 10m ago, because: test" in text
    assert said in text


def test_nobody_is_told_to_do_what_is_done_already() -> None:
    pending = EvictionCheck(name="HostDisabled", result="Pending", message="it is about to be")
    text = "\n".join(explain(of("True", "Running", "waits", checks=(pending,)), None, NOW.now))
    assert "it is about to be" in text
    assert "cobalt maintain" not in text


def test_what_a_person_said_about_the_host_is_repeated() -> None:
    host = Hypervisor(spec=HypervisorSpec(maintenance="manual", maintenanceReason="new fans"))
    said = explain(of("True", "Running", "Running"), host, NOW.now)
    assert "here is out of service, because: new fans" in said


@pytest.mark.parametrize(("maintenance", "advised"), [("manual", True), ("", False)])
def test_the_way_back_is_told_of_a_host_that_is_out_of_service(
    maintenance: str, advised: bool
) -> None:
    host = Hypervisor(
        metadata=ObjectMeta(name="here"), spec=HypervisorSpec(maintenance=maintenance)
    )
    text = "\n".join(explain(of("False", "Succeeded", "done"), host, NOW.now))
    assert ("`cobalt resume here`" in text) is advised
