from __future__ import annotations

from datetime import UTC, datetime

from hypercobalt.lab.control import LIFECYCLE_LABEL, node, node_labels
from hypercobalt.lab.disk import Identity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = Identity("0123456789abcdef0123456789abcdef", "kvm-2", "10.77.0.2")


def test_a_node_says_where_it_is_and_what_it_is() -> None:
    made = node(HOST, 2, NOW)
    addresses = {address.type: address.address for address in made.status.addresses}
    assert addresses == {"Hostname": "kvm-2", "InternalIP": "10.77.0.2"}
    assert made.metadata.labels["kubernetes.io/hostname"] == "kvm-2"
    assert made.metadata.labels["topology.kubernetes.io/zone"] == "lab-b"
    assert LIFECYCLE_LABEL in made.metadata.labels
    assert made.status.nodeInfo is not None
    assert made.status.nodeInfo.systemUUID == str(HOST.uuid)


def test_zones_take_turns() -> None:
    zones = [node_labels(f"kvm-{i}", i)["topology.kubernetes.io/zone"] for i in range(1, 5)]
    assert zones == ["lab-a", "lab-b", "lab-a", "lab-b"]
