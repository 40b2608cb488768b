"""Whether a host's own compute service reports, as the pass shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from tests.unit.operator.lifecycle.facts import HOST, facts, state_of
from tests.unit.operator.samples import NOW, condition

from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.fake import FakeCompute
from hypercobalt.operator.lifecycle.registration import Registration, with_service
from hypercobalt.operator.lifecycle.step import Type
from hypercobalt.runtime import Recorder

DOWN = condition("ComputeServiceUp", "False", "Down")


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        pytest.param({}, "True/Up", "kvm-a reports to nova", id="it reports"),
        pytest.param({"up": False}, "False/Down", "check that nova-compute runs", id="it is down"),
        pytest.param(
            {"up": False, "forced_down": True}, "False/ForcedDown", "forced down", id="by others"
        ),
        pytest.param({"enabled": False}, "True/Up", "reports", id="disabled, and it reports"),
    ],
)
def test_condition_shows_whether_the_service_of_the_host_reports(
    changes: dict[str, bool], expected: str, words: str
) -> None:
    after = with_service(facts(host=replace(HOST, **changes)), "nova")  # type: ignore[arg-type]
    assert state_of(after, "ComputeServiceUp") == expected
    found = after.condition(Type.COMPUTE_SERVICE_UP)
    assert found is not None
    assert words in found.message


def registration(compute: FakeCompute) -> Registration:
    return Registration(compute, lambda _: (), cast("Recorder", None))


async def test_service_that_stops_to_report_is_shown() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.add_host("kvm-a")
    for up, expected in ((True, "True/Up"), (False, "False/Down"), (True, "True/Up")):
        compute.world.change_host("kvm-a", up=up)
        done = await registration(compute).run(facts())
        assert state_of(done.facts, "ComputeServiceUp") == expected
        assert state_of(done.facts, "Registered") == "True/Registered"


async def test_condition_goes_with_the_registration() -> None:
    done = await registration(FakeCompute(lambda: NOW)).run(facts(DOWN))
    assert state_of(done.facts, "Registered") == "False/NotRegistered"
    assert state_of(done.facts, "ComputeServiceUp") == ""


async def test_condition_is_unknown_while_nothing_can_be_read() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.world.fault = lambda what, about: UnreachableError("no answer")
    assert state_of((await registration(compute).run(facts())).facts, "ComputeServiceUp") == ""
    done = await registration(compute).run(facts(DOWN))
    assert state_of(done.facts, "ComputeServiceUp") == "Unknown/NotRead"


async def test_service_that_only_repeats_the_word_of_the_host_has_no_condition() -> None:
    compute = FakeCompute(lambda: NOW)
    compute.counts_servers = False
    compute.world.add_host("kvm-a")
    done = await registration(compute).run(facts())
    assert state_of(done.facts, "ComputeServiceUp") == ""
