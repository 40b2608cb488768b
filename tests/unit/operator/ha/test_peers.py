"""How long a probe request to peers counts."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from tests.unit.operator.ha.made import hypervisor

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.ha.peers import LASTS, Peers
from hypercobalt.runtime import FakeClock, Kube
from hypercobalt.runtime.write_cache import WriteCache

S = timedelta(seconds=1)


class Nothing:
    """Neither an API server nor a Hypervisor."""

    def all(self) -> tuple[Hypervisor, ...]:
        return ()


@pytest.mark.parametrize(
    ("passes", "steps", "counts"),
    [
        pytest.param(0 * S, 0 * S, True, id="just requested"),
        pytest.param(LASTS, 0 * S, True, id="requested two minutes ago"),
        pytest.param(LASTS + S, 0 * S, False, id="requested long ago"),
        pytest.param(0 * S, -S, False, id="requested before the clock went back"),
        pytest.param(0 * S, 3600 * S, False, id="requested before the clock went forward"),
    ],
)
async def test_question_counts_for_two_minutes_by_the_clock_of_its_answers(
    passes: timedelta, steps: timedelta, *, counts: bool
) -> None:
    clock, nothing = FakeClock(), Nothing()
    peers = Peers(cast("Kube", nothing), cast("WriteCache[Hypervisor]", nothing), clock)
    await peers.request(hypervisor())
    clock.advance(passes)
    clock.step(steps)
    assert (peers.question("kvm-a") is not None) is counts
    assert peers.question("kvm-b") is None
