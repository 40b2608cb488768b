from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab import processes
from hypercobalt.lab.control import ControlPlane, is_ready, lease, node_labels
from hypercobalt.lab.state import LabState, Layout
from hypercobalt.operator.shared.node_facts import LIFECYCLE_LABEL
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.retry import NotSentError


def test_a_node_has_the_labels_of_a_hypervisor() -> None:
    labels = node_labels("kvm-2", 2)
    assert labels["kubernetes.io/hostname"] == "kvm-2"
    assert labels["topology.kubernetes.io/zone"] == "lab-b"
    assert LIFECYCLE_LABEL in labels


@pytest.mark.parametrize(("tested", "value"), [(True, "true"), (False, "skip-tests")])
def test_onboarding_of_a_node_has_a_smoke_test_or_not(value: str, *, tested: bool) -> None:
    assert node_labels("kvm-2", 2, tested=tested)[LIFECYCLE_LABEL] == value


def test_zones_take_turns() -> None:
    zones = [node_labels(f"kvm-{i}", i)["topology.kubernetes.io/zone"] for i in range(1, 5)]
    assert zones == ["lab-a", "lab-b", "lab-a", "lab-b"]


def test_the_lease_of_a_node_goes_with_it() -> None:
    made = lease(Node(metadata=ObjectMeta(name="kvm-2", uid="u")))
    assert (made.metadata.namespace, made.metadata.name) == ("kube-node-lease", "kvm-2")
    (owner,) = made.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.uid) == ("Node", "kvm-2", "u")
    assert made.spec.renewTime is None  # the heartbeat's


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("Unknown", False)])
def test_only_a_reporting_node_is_ready(status: str, *, ready: bool) -> None:
    condition = NodeCondition(type="Ready", status=status)
    assert is_ready(Node(status=NodeStatus(conditions=(condition,)))) is ready


def test_a_node_that_never_reported_is_not_ready() -> None:
    assert not is_ready(Node())


class BusyServer:
    """An API server that takes no connection at first, and then ends a watch before its time."""

    def __init__(self) -> None:
        self.watches = 0

    async def __aenter__(self) -> BusyServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @asynccontextmanager
    async def watch(
        self, _type: type[Node], *, fields: str
    ) -> AsyncIterator[AsyncIterator[object]]:
        assert fields == "metadata.name=kvm-2"
        self.watches += 1
        if self.watches == 1:
            raise NotSentError("watch Node: cannot connect to 10.77.1.254:6443: timed out")
        yield self._events()

    async def _events(self) -> AsyncIterator[object]:
        ready = NodeCondition(type="Ready", status="True" if self.watches > 2 else "Unknown")
        yield SimpleNamespace(object=Node(status=NodeStatus(conditions=(ready,))))


async def test_node_is_waited_for_while_the_server_takes_no_connection_or_ends_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = BusyServer()
    monkeypatch.setattr(ControlPlane, "client", lambda _: cast("Kube", server))
    control = ControlPlane(
        Layout.at(tmp_path), cast("LabState", SimpleNamespace()), processes.Oldest("lab")
    )

    await control.wait_for_node("kvm-2")

    assert server.watches == 3
