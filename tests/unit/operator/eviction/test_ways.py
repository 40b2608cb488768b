"""What may be done to a server, by its state."""

from __future__ import annotations

import pytest
from tests.unit.operator.eviction.made import server

from hypercobalt.compute.model import Server
from hypercobalt.operator.eviction.ways import Way, verdict


@pytest.mark.parametrize(
    ("of", "way", "why"),
    [
        pytest.param(server(), Way.LIVE, "", id="running"),
        pytest.param(server(status="PAUSED"), Way.LIVE, "", id="paused"),
        pytest.param(server(status="SHUTOFF"), Way.COLD, "", id="stopped"),
        pytest.param(server(locked=True), Way.LIVE, "", id="locked is for owners"),
        pytest.param(server(local_disk=True), Way.LIVE, "", id="local disks are copied"),
        pytest.param(server(status="SUSPENDED"), Way.BLOCKED, "resume it, or stop it", id="asleep"),
        pytest.param(server(status="RESCUE"), Way.BLOCKED, "unrescue it", id="in rescue"),
        pytest.param(
            server(status="ERROR", fault="disk lost"), Way.BLOCKED, "disk lost", id="in error"
        ),
        pytest.param(
            server(status="ERROR"), Way.BLOCKED, "does not say why", id="in error, no word why"
        ),
        pytest.param(server(status="SOFT_DELETED"), Way.BLOCKED, "restore it", id="soft-deleted"),
        pytest.param(server(status="MIGRATING"), Way.MOVING, "", id="on its way"),
        pytest.param(server(status="RESIZE"), Way.MOVING, "", id="being resized"),
        pytest.param(server(task_state="migrating"), Way.MOVING, "", id="accepted a moment ago"),
        pytest.param(
            server(status="SHUTOFF", task_state="resize_prep"), Way.MOVING, "", id="cold, accepted"
        ),
        pytest.param(server(status="BUILD"), Way.WAIT, "being built", id="being built"),
        pytest.param(server(status="REBOOT"), Way.WAIT, "rebooted", id="rebooting"),
        pytest.param(server(status="VERIFY_RESIZE"), Way.WAIT, "its owner", id="resized to here"),
        pytest.param(server(status="SHELVED"), Way.WAIT, "offloaded", id="shelved"),
        pytest.param(server(task_state="deleting"), Way.WAIT, "being deleted", id="being deleted"),
        pytest.param(
            server(status="ERROR", task_state="deleting"),
            Way.WAIT,
            "being deleted",
            id="in error, but being deleted",
        ),
        pytest.param(
            server(task_state="image_snapshot"), Way.WAIT, "image_snapshot", id="being backed up"
        ),
        pytest.param(server(status="SHELVED_OFFLOADED"), Way.ABSENT, "on no host", id="offloaded"),
        pytest.param(server(status="DELETED"), Way.ABSENT, "deleted", id="deleted"),
        pytest.param(
            server(hindrance="a vTPM"), Way.BLOCKED, "cannot be moved: a vTPM", id="with a vTPM"
        ),
        pytest.param(server(status="NEWSTATE"), Way.BLOCKED, "'NEWSTATE'", id="unknown to us"),
    ],
)
def test_ways(of: Server, way: Way, why: str) -> None:
    found = verdict(of)
    assert found.way is way
    assert why in found.why
    assert bool(found.why) == bool(why)
