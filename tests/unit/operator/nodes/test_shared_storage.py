"""Which storages fail on several hosts, by reports that one captured host may have made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import Incident, IncidentType, Severity
from hypercobalt.operator.nodes.shared_storage import ALONE, BY_STORAGE, shared_by, storages_of
from hypercobalt.runtime import Cache

POOL = "/var/lib/nova/mnt/1"
S = timedelta(seconds=1)


def failing(
    name: str, since: timedelta | None, *storages: str, agent: Condition | None = None
) -> Hypervisor:
    incidents = tuple(
        Incident(
            id=f"{number}",
            type=IncidentType.IO_ERROR,
            severity=Severity.CRITICAL,
            storage=storage,
            firstSeen=NOW - since if since is not None else None,
        )
        for number, storage in enumerate(storages)
    )
    conditions = (agent,) if agent else ()
    made = hypervisor(status=HypervisorStatus(incidents=incidents, conditions=conditions))
    return replace(made, metadata=replace(made.metadata, name=name))


def seen(mine: Hypervisor, *others: Hypervisor) -> tuple[tuple[str, ...], timedelta | None]:
    cache = Cache[Hypervisor]({BY_STORAGE: storages_of})
    for one in (mine, *others):
        cache.put(one)
    shared, until = shared_by(cache, mine, NOW)
    return shared, until - NOW if until is not None else None


@pytest.mark.parametrize(
    ("since", "others", "expected"),
    [
        pytest.param(S, 0, ((), None), id="on this host alone"),
        pytest.param(S, 1, ((POOL,), ALONE - S), id="one other host, for a while"),
        pytest.param(ALONE - S, 1, ((POOL,), S), id="until its time is over"),
        pytest.param(ALONE, 1, ((), None), id="and no longer"),
        pytest.param(None, 1, ((), None), id="for an unknown time"),
        pytest.param(10 * ALONE, 2, ((POOL,), None), id="two others, for ever"),
    ],
)
def test_one_other_host_holds_moves_for_a_while_and_two_without_an_end(
    since: timedelta | None, others: int, expected: tuple[tuple[str, ...], timedelta | None]
) -> None:
    reports = [failing(f"other-{number}", 100 * ALONE, POOL) for number in range(others)]
    assert seen(failing("mine", since, POOL), *reports) == expected


def test_host_whose_agent_is_silent_confirms_nothing() -> None:
    silent = failing("other-1", S, POOL, agent=condition("AgentReporting", "False"))
    mine = failing("mine", ALONE, POOL)
    assert seen(mine, silent, failing("other-2", S, POOL)) == ((), None)


def test_time_is_that_of_the_first_incident_of_the_storage() -> None:
    first, second = failing("mine", ALONE, POOL), failing("mine", S, "/other", POOL)
    incidents = (*second.status.incidents, *first.status.incidents)
    mine = replace(first, status=replace(first.status, incidents=incidents))
    others = [failing("other", S, POOL, "/other")]
    assert seen(mine, *others) == (("/other",), ALONE - S)
