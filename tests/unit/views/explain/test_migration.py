"""A Migration explained."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.operator.eviction.made import entry, eviction
from tests.unit.views.explain.made import reporters

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.eviction import EvictionStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import SERVER, Migration, MigrationSpec, MigrationStatus
from hypercobalt.views.explain.migration import ExplainedMigration, explain

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGAN + timedelta(seconds=90)


def migration(**fields: object) -> Migration:
    wanted: dict[str, object] = {"origin": "kvm-a", "started": BEGAN, **fields}
    return Migration(
        metadata=ObjectMeta(name="s1-20260101", namespace="ns", labels={SERVER: "s1"}),
        spec=MigrationSpec(),
        status=MigrationStatus(**wanted),  # type: ignore[arg-type]
    )


CONVERGES = {"type": "unbounded", "memBps": "100.0 MiB/s", "memPageSize": "4.0 KiB"}


@pytest.mark.parametrize(
    ("given", "state", "text"),
    [
        pytest.param({}, "Starting", "libvirt to report progress", id="just begun"),
        pytest.param(
            {**CONVERGES, "memDirtyRate": "10/s", "timeRemaining": "35s", "memIteration": 3},
            "Running",
            "memory is sent at 100.0 MiB/s, round 3; libvirt expects 35s more",
            id="on its way",
        ),
        pytest.param(
            {**CONVERGES, "memDirtyRate": "99999/s", "autoConvergeThrottle": "40%"},
            "Running",
            "memory is sent at 100.0 MiB/s, vCPUs slowed by 40%, and the guest writes it at least "
            "as fast",
            id="does not converge",
        ),
        pytest.param(
            {"type": "failed", "errMsg": "connection reset"},
            "Failed",
            "connection reset",
            id="failed",
        ),
        pytest.param({"type": "cancelled"}, "Cancelled", "openstack server show s1", id="stopped"),
        pytest.param(
            {"type": "completed", "destination": "kvm-b", "downtime": "16ms"},
            "Completed",
            "Server s1 from kvm-a to kvm-b; downtime 16ms",
            id="arrived",
        ),
    ],
)
def test_explanation_names_the_state_of_a_migration(
    given: dict[str, object], state: str, text: str
) -> None:
    found = explain(ExplainedMigration(migration(**given), NOW, reporters=reporters(NOW)))
    assert found.state == state
    assert text in "\n".join(found.lines)


def test_an_arrived_migration_waits_for_nothing() -> None:
    found = explain(
        ExplainedMigration(migration(type="completed"), NOW, reporters=reporters(NOW, agent=500))
    )
    assert (found.waiting, found.also) == ((), ())


def test_statistics_of_a_silent_agent_are_marked_as_out_of_date() -> None:
    found = explain(
        ExplainedMigration(migration(**CONVERGES), NOW, reporters=reporters(NOW, agent=60))
    )
    assert "The node agent of kvm-a has not renewed its Lease" in found.also[0].message


def test_the_eviction_that_moves_the_server_is_named() -> None:
    running = set_condition((), "Evicting", "True", "Running", "", now=BEGAN)
    its = eviction(EvictionStatus(conditions=running, instances=(entry("s1", "Migrating"),)))
    found = explain(ExplainedMigration(migration(**CONVERGES), NOW, (its,), reporters(NOW)))
    assert found.waiting[0].remedies[0].command == "cobalt explain eviction/here"


def test_rate_that_is_no_size_does_not_stop_the_explanation() -> None:
    found = explain(ExplainedMigration(migration(type="bounded", memBps="fast"), NOW))
    assert found.state == "Running"
