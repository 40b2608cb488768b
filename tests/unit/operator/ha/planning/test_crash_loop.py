"""When a host in a crash loop is looked at again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.ha.made import FACTS, hypervisor
from tests.unit.operator.samples import NOW

from hypercobalt.operator.ha.model.plan import RecoveryPlan
from hypercobalt.operator.ha.planning.crash_loop import named

S = timedelta(seconds=1)
BOOTS = tuple(NOW - minutes * 60 * S for minutes in (50, 30, 1))


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        pytest.param(None, 601 * S, id="it waits for a change"),
        pytest.param(5 * S, 5 * S, id="sooner for another reason"),
        pytest.param(3600 * S, 601 * S, id="later for another reason"),
    ],
)
def test_host_is_looked_at_when_its_loop_is_over(
    planned: timedelta | None, expected: timedelta
) -> None:
    host = hypervisor()
    host = with_fields(host, status=with_fields(host.status, recentBoots=BOOTS))
    found = named(replace(FACTS, hypervisor=host), RecoveryPlan(None, None, look_again=planned))
    assert found.look_again == expected
