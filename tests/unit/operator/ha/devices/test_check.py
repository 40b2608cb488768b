"""What follows from the verdicts about a host's fence devices, and when they are looked at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import hypervisor, node, reports

from hypercobalt.adapters.fencing.devices import Device, Identity
from hypercobalt.api.core import NodeSystemInfo
from hypercobalt.api.fencing import FenceDeviceIdentity
from hypercobalt.operator.ha.devices.check import AGAIN, found, host_changed, node_changed
from hypercobalt.operator.ha.devices.identity import (
    DeviceFacts,
    NotProven,
    OtherHost,
    Proven,
    Verdict,
)
from hypercobalt.operator.ha.devices.template_fences import BoundFence

UUID = "11111111-0000-4000-8000-000000000001"


def bound(label: str, identity: Identity = Identity.OPTIONAL) -> BoundFence:
    device = Device(label, "fence_redfish", {}, identity=identity)
    return BoundFence(device, label, DeviceFacts(label, identity, (), None, lambda _: ""))


PROVEN = FenceDeviceIdentity(device="bmc", systemUUID=UUID, proven=True)


@pytest.mark.parametrize(
    ("identity", "verdicts", "state", "says", "recorded", "again"),
    [
        (Identity.OPTIONAL, [Proven(UUID)], "True/Proven", f"bmc: {UUID}", 1, False),
        (
            Identity.OPTIONAL,
            [OtherHost(UUID, "bmc is kvm-3's")],
            "False/OtherHost",
            "is kvm-3's; the host is not fenced",
            1,
            True,
        ),
        (
            Identity.OPTIONAL,
            [Proven(UUID), OtherHost(UUID, "pdu is kvm-3's")],
            "False/OtherHost",
            "pdu is kvm-3's",
            2,
            True,
        ),
        (Identity.OPTIONAL, [NotProven("no UUID")], "Unknown/Unverified", "no UUID", 0, True),
        (Identity.IGNORED, [NotProven("ignored")], "Unknown/Unverified", "ignored", 0, False),
        (Identity.REQUIRED, [NotProven("no answer")], "Unknown/NotProven", "no answer", 0, True),
        (
            Identity.OPTIONAL,
            [Proven(UUID), NotProven("no UUID")],
            "Unknown/Unverified",
            "no UUID",
            1,
            True,
        ),
    ],
)
def test_one_wrong_device_refuses_the_host_and_one_without_a_uuid_is_shown(
    identity: Identity,
    verdicts: list[Verdict],
    state: str,
    says: str,
    *,
    recorded: int,
    again: bool,
) -> None:
    names = ["bmc", "pdu"][: len(verdicts)]
    result = found([bound(name, identity) for name in names], verdicts)
    assert f"{result.status}/{result.reason}" == state
    assert says in result.message
    assert len(result.records) == recorded
    assert result.again == (AGAIN if again else None)
    if state == "True/Proven":
        assert result.records == (PROVEN,)


def test_devices_are_looked_at_when_a_host_reports_another_uuid_or_is_bound_again() -> None:
    known = node(reports("Ready"))
    info = NodeSystemInfo(systemUUID=UUID, bootID="other")
    booted = replace(known, status=replace(known.status, nodeInfo=NodeSystemInfo(bootID="b")))
    assert node_changed(None, known)
    assert not node_changed(known, booted)
    assert node_changed(known, replace(known, status=replace(known.status, nodeInfo=info)))
    assert node_changed(known, node(reports("Ready"), labels={"a": "b"}))
    assert node_changed(known, node(reports("Ready", "Unknown")))

    host = hypervisor()
    busy = replace(host, status=replace(host.status, numInstances=3))
    claims = replace(host, status=replace(host.status, hostUUID=UUID))
    written = replace(host, status=replace(host.status, fenceDevices=(PROVEN,)))
    assert host_changed(host, None)
    assert not host_changed(host, busy)
    assert host_changed(host, claims)
    assert host_changed(host, written)
    assert host_changed(host, hypervisor(labels={"a": "b"}))
