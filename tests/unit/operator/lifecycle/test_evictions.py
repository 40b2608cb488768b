"""Which Eviction keeps its host disabled, and for how long."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.samples import NOW, condition

from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.lifecycle.evictions import keeps_disabled


@pytest.mark.parametrize(
    ("trigger", "status", "keeps"),
    [
        pytest.param("Manual", "True", True, id="while it runs"),
        pytest.param("Manual", "False", False, id="a person's has ended"),
        pytest.param(None, "False", False, id="without a trigger"),
        pytest.param("HostShutdown", "False", False, id="the host boots again"),
        pytest.param("NodeFailure", "False", True, id="the host has to be put right first"),
        pytest.param("MemoryFailure", "False", True, id="its memory has to be replaced first"),
        pytest.param("Termination", "False", True, id="the host goes"),
    ],
)
def test_trigger_of_an_eviction_decides_whether_its_end_enables_the_host(
    trigger: str | None, status: str, keeps: bool
) -> None:
    made = Eviction(
        metadata=ObjectMeta(name="by-hand"),
        spec=EvictionSpec(hypervisor="kvm-a", reason="why", trigger=trigger),
        status=EvictionStatus(conditions=(condition("Evicting", status, "Failed"),)),
    )
    assert (keeps_disabled([made]) is made) is keeps
    going = with_fields(made, metadata=with_fields(made.metadata, deletionTimestamp=NOW))
    assert keeps_disabled([going]) is None


def test_restarts_in_place_leave_the_host_in_service() -> None:
    made = Eviction(
        metadata=ObjectMeta(name="restart-all"),
        spec=EvictionSpec(hypervisor="kvm-a", reason="why", mode="restart"),
        status=EvictionStatus(conditions=(condition("Evicting", "True", "Running"),)),
    )
    assert keeps_disabled([made]) is None
