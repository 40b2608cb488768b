"""What must be in order before a test server is booted."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import facts
from tests.unit.operator.samples import condition, node, reports

from hypercobalt.api.conditions import Condition
from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import Bridge, NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.cli.operator_flags import LifecycleFlags, TestFlags
from hypercobalt.errors import ConfigurationError
from hypercobalt.operator.lifecycle.checks import probed, read_switch, unmet
from hypercobalt.operator.lifecycle.settings import LifecycleSettings, parse_version
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.runtime import Kube

REPORTING = condition("AgentReporting", "True", "Reporting")
CONNECTED = condition("LibVirtConnection", "True", "Connected")
GOOD = facts(REPORTING, CONNECTED, libVirtVersion="9.0.0")
PROBES = LifecycleSettings(storage_probes=("node:example.org/Pool", "hypervisor:SharedDirectory"))
SHARED = condition("SharedDirectory", "True")
STORED = facts(REPORTING, CONNECTED, SHARED, libVirtVersion="9.0.0")
POOL = node(reports("example.org/Pool"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(REPORTING), "has not reported libvirt yet", id="no report"),
        pytest.param(
            facts(REPORTING, condition("LibVirtConnection", "False", "ConnectFailed", "no socket")),
            "ConnectFailed: no socket",
            id="no libvirt",
        ),
        pytest.param(facts(REPORTING, CONNECTED), "no version of libvirt, but ''", id="no version"),
        pytest.param(
            facts(REPORTING, CONNECTED, libVirtVersion="7.10.0"),
            "7.10.0 is older than 8.0.0",
            id="old",
        ),
        pytest.param(
            facts(REPORTING, CONNECTED, libVirtVersion="10.0.0"), "", id="newer, not by its text"
        ),
        pytest.param(facts(REPORTING, CONNECTED, libVirtVersion="8.0"), "", id="just new enough"),
    ],
)
def test_check_requires_a_connected_libvirt_of_the_version(
    given: LifecycleFacts, expected: str
) -> None:
    text = unmet(given, node(), None, LifecycleSettings())
    assert expected in text
    assert bool(text) is bool(expected)


@pytest.mark.parametrize(
    ("text", "version"),
    [("9.1.2", (9, 1, 2)), ("9.1", (9, 1, 0)), ("9", None), ("9.1.2-rc1", None), ("", None)],
)
def test_version_of_libvirt_is_parsed(text: str, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


def test_probes_of_the_hypervisor_are_read_by_their_types() -> None:
    assert list(probed(PROBES)) == ["SharedDirectory"]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        pytest.param((), "has not observed", id="not judged yet"),
        pytest.param(
            (condition("AgentReporting", "False", "AgentSilent", "no renewal"),),
            "does not report: no renewal",
            id="silent",
        ),
        pytest.param(
            (condition("AgentReporting", "False", "AgentStopped", "released"),),
            "does not report: released",
            id="stopped",
        ),
        pytest.param(
            (condition("AgentReporting", "Unknown", "NeverReported"),), "", id="kvm-node-agent"
        ),
        pytest.param((REPORTING,), "", id="reporting"),
    ],
)
def test_check_requires_a_reporting_agent(agent: tuple[Condition, ...], expected: str) -> None:
    text = unmet(
        facts(*agent, CONNECTED, libVirtVersion="9.0.0"), node(), None, LifecycleSettings()
    )
    assert expected in text
    assert bool(text) is bool(expected)


def test_agent_without_a_lease_must_have_reported_libvirt() -> None:
    never = condition("AgentReporting", "Unknown", "NeverReported")
    assert "not reported libvirt" in unmet(facts(never), node(), None, LifecycleSettings())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(OVSNodeStatus(), "no bridge br-int", id="no bridge"),
        pytest.param(
            OVSNodeStatus(bridges=(Bridge(name="br-int", status="Error"),)), "Error", id="broken"
        ),
        pytest.param(
            OVSNodeStatus(
                bridges=(Bridge(name="br-int", status="Active"),),
                conditions=(condition("OVNControllerConnected", "False", "Away", "no answer"),),
            ),
            "Away: no answer",
            id="without its controller",
        ),
        pytest.param(
            OVSNodeStatus(
                bridges=(Bridge(name="br-int", status="Active"),),
                conditions=(
                    condition("Other", "False"),
                    condition("AllBridgesHealthy", "True"),
                    condition("OVNControllerConnected", "True"),
                ),
            ),
            "",
            id="with its controller, and a condition that does not matter",
        ),
        pytest.param(
            OVSNodeStatus(bridges=(Bridge(name="br-int", status="Active"),)), "", id="healthy"
        ),
        pytest.param(
            OVSNodeStatus(
                bridges=(Bridge(name="br-int", status="Active"),),
                conditions=(condition("Ready", "False", "BondDegraded", "bond0 is degraded"),),
            ),
            "",
            id="healthy, and something else is not",
        ),
        pytest.param(
            OVSNodeStatus(
                bridges=(Bridge(name="br-int", status="Active"),),
                conditions=(
                    condition("AllBridgesHealthy", "True"),
                    condition("Ready", "Unknown", "AgentSilent", "not renewed for 40 s"),
                ),
            ),
            "its agent's last report: not renewed for 40 s",
            id="healthy by an agent that is silent",
        ),
    ],
)
def test_check_requires_a_healthy_integration_bridge(status: OVSNodeStatus, expected: str) -> None:
    switch = OVSNode(
        metadata=ObjectMeta(name="kvm-a", namespace="agents"),
        spec=OVSNodeSpec(nodeRef=NodeReference(name="kvm-a")),
        status=status,
    )
    text = unmet(GOOD, node(), switch, LifecycleSettings())
    assert expected in text
    assert bool(text) is bool(expected)


@pytest.mark.parametrize(
    ("given", "of", "expected"),
    [
        pytest.param(STORED, POOL, "", id="all are true"),
        pytest.param(STORED, node(), "the node has no condition example.org/Pool", id="no probe"),
        pytest.param(STORED, None, "the node has no condition example.org/Pool", id="no Node"),
        pytest.param(
            STORED,
            node(reports("example.org/Pool", "False")),
            "condition example.org/Pool is False (because)",
            id="a probe fails",
        ),
        pytest.param(
            STORED,
            node(reports("example.org/Pool", "Unknown")),
            "condition example.org/Pool is Unknown",
            id="the node reports Unknown",
        ),
        pytest.param(
            GOOD,
            POOL,
            "the hypervisor has no condition SharedDirectory",
            id="the second is checked",
        ),
        pytest.param(
            facts(REPORTING, CONNECTED, replace(SHARED, status="False"), libVirtVersion="9.0.0"),
            POOL,
            "the hypervisor's condition SharedDirectory is False",
            id="the second fails",
        ),
        pytest.param(
            GOOD,
            node(reports("example.org/Pool"), reports("SharedDirectory")),
            "the hypervisor has no condition SharedDirectory",
            id="the Node's word does not count for the Hypervisor",
        ),
    ],
)
def test_check_requires_the_conditions_of_the_storage_probes(
    given: LifecycleFacts, of: Node | None, expected: str
) -> None:
    text = unmet(given, of, None, PROBES)
    assert expected in text
    assert bool(text) is bool(expected)


async def test_switch_is_that_of_the_namespace_of_the_agents() -> None:
    switch = OVSNode(
        metadata=ObjectMeta(name="kvm-a", namespace="agents"),
        spec=OVSNodeSpec(nodeRef=NodeReference(name="kvm-a")),
    )

    class Cluster:
        async def get(self, kind: type[OVSNode], name: str, namespace: str) -> OVSNode:
            assert (kind, name, namespace) == (OVSNode, "kvm-a", "agents")
            return switch

    kube = cast("Kube", Cluster())
    assert await read_switch(kube, "kvm-a", "agents") is switch
    assert await read_switch(kube, "kvm-a", "") is None


def test_condition_of_the_probe_counts_among_many() -> None:
    others = facts(REPORTING, CONNECTED, SHARED, condition("Z", "False"), libVirtVersion="9.0.0")
    assert unmet(others, POOL, None, PROBES) == ""


def test_probes_are_given_with_commas() -> None:
    flags = LifecycleFlags(storage_probes=" node:example.org/Pool, ,hypervisor:SharedDirectory,")
    assert flags.settings(TestFlags()).storage_probes == PROBES.storage_probes
    assert LifecycleFlags().settings(TestFlags()).storage_probes == ()


@pytest.mark.parametrize("wrong", ["Pool", "node:", "pod:Pool", ":", "hypervisor", "node Pool"])
def test_a_probe_that_is_none_is_refused_at_the_start(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="--storage-probes"):
        LifecycleFlags(storage_probes=f"node:Pool,{wrong}").settings(TestFlags())
