"""The drills of `cobalt drill`, each on a lab of its own."""

from __future__ import annotations

import pytest

from hypercobalt.drills import drill
from hypercobalt.drills.catalogue import DRILLS
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.soak import soak
from tests.sockets import left_to_the_collector

SEED = 5  # its waves have disks, guests, cables, a host, the operator and a person in three minutes

pytestmark = [pytest.mark.drill, pytest.mark.timeout(600), pytest.mark.usefixtures("able_machine")]

IN_CI = {name: one for name, one in DRILLS.items() if one.in_ci} | {"soak": soak(SEED)}


@pytest.mark.parametrize("one", IN_CI.values(), ids=IN_CI)
async def test_drill_passes(one: Drill) -> None:
    with left_to_the_collector():  # a drill that breaks the network cancels handshakes
        result = await drill.run(one, print)
    assert result.failure == ""
