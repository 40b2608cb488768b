"""What the compute service should say of a host."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts
from tests.unit.operator.samples import condition

from hypercobalt.operator.lifecycle.service import wish


@pytest.mark.parametrize("mode", ["manual", "auto", "termination"])
def test_a_cleanup_that_fails_does_not_keep_a_host_in_service(mode: str) -> None:
    pending = condition("Onboarding", "True", "Aborted", "cannot delete the test servers yet")
    wanted = wish(facts(pending, spec=replace(ON, maintenance=mode)), None)
    assert wanted is not None
    assert not wanted.enabled


@pytest.mark.parametrize("reason", ["Initial", "Testing", "Handover"])
def test_an_onboarding_that_is_under_way_has_the_host_to_itself(reason: str) -> None:
    under_way = condition("Onboarding", "True", reason)
    assert wish(facts(under_way, spec=replace(ON, maintenance="manual")), None) is None
