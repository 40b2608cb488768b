"""What a host's heartbeat reports of its Node, and when it has nothing to report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hypercobalt.api.core import Node, NodeCondition, NodeStatus, NodeSystemInfo
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.quantity import Quantity
from hypercobalt.lab.heartbeat import ReportedMachine, Trouble, capacity, decide, observe

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
MACHINE = ReportedMachine("kvm-1", "10.77.0.1", NodeSystemInfo(bootID="b", machineID="m"))


def shown(status: NodeStatus) -> Node:
    return Node(metadata=ObjectMeta(name="kvm-1"), status=status)


def reported() -> NodeStatus:
    status = decide(shown(NodeStatus()), MACHINE, NOW)
    assert status is not None
    return status


def test_first_report_has_what_a_kubelet_posts() -> None:
    status = reported()
    assert {a.type: a.address for a in status.addresses} == {
        "Hostname": "kvm-1",
        "InternalIP": "10.77.0.1",
    }
    assert {c.type: (c.status, c.reason) for c in status.conditions} == {
        "Ready": ("True", "KubeletReady"),
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
    }
    assert status.nodeInfo == MACHINE.info


def test_a_node_that_shows_the_report_is_not_written() -> None:
    assert decide(shown(reported()), MACHINE, LATER) is None


def test_conditions_of_other_writers_are_kept() -> None:
    other = NodeCondition(type="NetworkUnavailable", status="False")
    status = reported()
    node = shown(replace(status, conditions=(*status.conditions, other)))
    assert decide(node, MACHINE, LATER) is None


@pytest.mark.parametrize("type_", ["Ready", "DiskPressure"])
def test_a_node_that_was_given_up_is_reported_with_its_transition(type_: str) -> None:
    status = reported()
    lost = tuple(
        replace(c, status="Unknown", reason="NodeStatusUnknown") if c.type == type_ else c
        for c in status.conditions
    )
    again = decide(shown(replace(status, conditions=lost)), MACHINE, LATER)
    assert again is not None
    assert {c.type: c.lastTransitionTime for c in again.conditions} == {
        c.type: LATER if c.type == type_ else NOW for c in again.conditions
    }
    assert {c.lastHeartbeatTime for c in again.conditions} == {LATER}


def test_a_host_that_has_booted_again_is_reported() -> None:
    rebooted = ReportedMachine("kvm-1", "10.77.0.1", replace(MACHINE.info, bootID="c"))
    again = decide(shown(reported()), rebooted, LATER)
    assert again is not None
    assert again.nodeInfo == rebooted.info


@pytest.mark.parametrize(
    ("trouble", "status", "reason"),
    [
        (Trouble.MEMORY, "True", "KubeletHasInsufficientMemory"),
        (Trouble.DISK, "True", "KubeletHasDiskPressure"),
        (Trouble.PID, "True", "KubeletHasInsufficientPID"),
        (Trouble.NOT_READY, "False", "KubeletNotReady"),
    ],
)
def test_a_trouble_changes_its_condition_alone_until_it_is_over(
    trouble: Trouble, status: str, reason: str
) -> None:
    before = reported()
    troubled = decide(shown(before), MACHINE, LATER, (trouble.value,))
    assert troubled is not None
    changed = [
        new
        for old, new in zip(before.conditions, troubled.conditions, strict=True)
        if old.status != new.status
    ]
    assert [(one.type, one.status, one.reason) for one in changed] == [(trouble, status, reason)]
    over = decide(shown(troubled), MACHINE, LATER)
    assert over is not None
    assert [one.status for one in over.conditions] == [one.status for one in before.conditions]


def test_a_host_is_read_from_its_own_files(tmp_path: Path) -> None:
    for path, text in (
        ("etc/machine-id", "abc\n"),
        ("etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'),
        ("proc/sys/kernel/random/boot_id", "boot\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    info = observe("kvm-1", "10.77.0.1", "uuid", tmp_path).info
    assert (info.machineID, info.bootID, info.systemUUID) == ("abc", "boot", "uuid")
    assert info.osImage == "Debian GNU/Linux 12 (bookworm)"
    assert info.operatingSystem == "linux"


def test_capacity_is_the_machines_and_has_the_device_nodes_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\nMemFree: 1 kB\n")
    (tmp_path / "dev/net").mkdir(parents=True)
    (tmp_path / "dev/net/tun").touch()
    (tmp_path / "dev/kvm").touch()
    found = capacity(110, tmp_path)
    assert found["memory"] == Quantity("2Mi")
    assert found["pods"] == Quantity(110)
    assert found["devices.kubevirt.io/tun"] == Quantity(1000)
    assert not {"devices.kubevirt.io/kvm", "devices.kubevirt.io/vhost-net"} & set(found)


def test_capacity_is_reported_once_and_again_when_it_changes() -> None:
    machine = ReportedMachine("kvm-1", "10.77.0.1", MACHINE.info, {"pods": Quantity(110)})
    status = decide(shown(reported()), machine, NOW)
    assert status is not None
    assert status.capacity == status.allocatable == machine.capacity
    assert decide(shown(status), machine, LATER) is None


def test_host_that_runs_no_pods_has_no_capacity() -> None:
    assert MACHINE.capacity == {}
    assert reported().allocatable == {}
