"""How a server may be moved, by its state."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import server

from hypercobalt.compute.model import Server
from hypercobalt.operator.eviction.assessing.movability import (
    Absent,
    Blocked,
    Busy,
    Movability,
    Movable,
    OnItsWay,
    movability,
)
from hypercobalt.operator.eviction.model.states import Mode

LIVE, COLD = Movable(Mode.LIVE), Movable(Mode.COLD)


@pytest.mark.parametrize(
    ("of", "found"),
    [
        pytest.param(server(), LIVE, id="running"),
        pytest.param(server(status="PAUSED"), LIVE, id="paused"),
        pytest.param(server(status="SHUTOFF"), COLD, id="stopped"),
        pytest.param(server(locked=True), LIVE, id="locked is for owners"),
        pytest.param(server(local_disk=True), LIVE, id="local disks are copied"),
        pytest.param(server(status="SUSPENDED"), Blocked("resume or stop it"), id="asleep"),
        pytest.param(server(status="RESCUE"), Blocked("unrescue it"), id="in rescue"),
        pytest.param(
            server(status="ERROR", fault="disk lost"), Blocked("disk lost"), id="in error"
        ),
        pytest.param(
            server(status="ERROR"), Blocked("gives no reason"), id="in error, no word why"
        ),
        pytest.param(server(status="SOFT_DELETED"), Blocked("restore it"), id="soft-deleted"),
        pytest.param(server(status="MIGRATING"), OnItsWay(), id="on its way"),
        pytest.param(server(status="RESIZE"), OnItsWay(), id="being resized"),
        pytest.param(server(task_state="migrating"), OnItsWay(), id="accepted a moment ago"),
        pytest.param(
            server(status="SHUTOFF", task_state="resize_prep"), OnItsWay(), id="cold, accepted"
        ),
        pytest.param(server(status="BUILD"), Busy("being built"), id="being built"),
        pytest.param(server(status="REBOOT"), Busy("rebooted"), id="rebooting"),
        pytest.param(server(status="VERIFY_RESIZE"), Busy("its owner"), id="resized to here"),
        pytest.param(server(status="SHELVED"), Busy("offloaded"), id="shelved"),
        pytest.param(server(task_state="deleting"), Busy("being deleted"), id="being deleted"),
        pytest.param(
            server(status="ERROR", task_state="deleting"),
            Busy("being deleted"),
            id="in error, but being deleted",
        ),
        pytest.param(
            server(task_state="image_snapshot"), Busy("image_snapshot"), id="being backed up"
        ),
        pytest.param(server(status="SHELVED_OFFLOADED"), Absent("on no host"), id="offloaded"),
        pytest.param(server(status="DELETED"), Absent("deleted"), id="deleted"),
        pytest.param(
            server(hindrance="a vTPM"), Blocked("cannot be moved: a vTPM"), id="with a vTPM"
        ),
        pytest.param(server(status="NEWSTATE"), Blocked("'NEWSTATE'"), id="unknown to us"),
    ],
)
def test_movability_follows_from_the_state_of_a_server(of: Server, found: Movability) -> None:
    may = movability(of)
    if isinstance(found, Blocked | Busy | Absent):
        assert type(may) is type(found)
        assert found.why in may.why
    else:
        assert may == found
