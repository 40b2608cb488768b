"""On which hosts the node agents' reports about an instance are read."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import move, server

from hypercobalt.compute.model import Server
from hypercobalt.operator.eviction.assessing.witnesses import targets_to_check

LOST = server(running=False)


@pytest.mark.parametrize(
    ("of", "dead", "targets"),
    [
        pytest.param(LOST, False, {"there"}, id="active without a guest"),
        pytest.param(server(), False, set(), id="it runs on its host"),
        pytest.param(server(paused=True, running=False), False, set(), id="it is paused there"),
        pytest.param(server(status="SHUTOFF"), False, set(), id="it is off"),
        pytest.param(server(status="SHUTOFF"), True, {"there"}, id="its host is dead"),
    ],
)
def test_targets_are_checked_of_servers_that_may_run_there(
    of: Server, dead: bool, targets: set[str]
) -> None:
    records = (move("error"), move("queued", target=""), move("error", "b", target="else"))
    expected = targets | ({"else"} if dead else set())
    assert targets_to_check((of,), records, source_is_dead=dead) == expected
