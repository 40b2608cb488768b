"""What the existing operator documents of Nodes: their Hypervisors, agents, Gardener, and edits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.integration.operator.conftest import (
    AGENTS,
    add_node,
    address_of,
    let_go,
    operator,
    ready,
    reason,
    set_node_status,
    until,
)
from tests.integration.operator.documented import MANAGED, UNMANAGED, by_hand
from tests.integration.operator.lifecycle import message

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Node, NodeAddress, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import (
    Container,
    Deployment,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    PodStatus,
    Toleration,
)
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    LIFECYCLE_LABEL,
    OFFBOARDING_TAINT,
    TRAITS_ANNOTATION,
    is_offboarding,
)
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

GROUP = "worker.garden.sapcloud.io/group"
PLACE = "kube-system"
LEAVING = msgspec.structs.replace(UNMANAGED, maintenance=Maintenance.TERMINATION)


@pytest.mark.parametrize(
    ("labels", "annotations", "lifecycle", "lists"),
    [
        pytest.param({}, {}, (False, False), ((), ()), id="plain"),
        pytest.param(
            {}, {AGGREGATES_ANNOTATION: ""}, (False, False), (("zone-a",), ()), id="zone only"
        ),
        pytest.param(
            {},
            {AGGREGATES_ANNOTATION: " one,, two "},
            (False, False),
            (("one", "two", "zone-a"), ()),
            id="aggregates and zone",
        ),
        pytest.param({}, {TRAITS_ANNOTATION: ""}, (False, False), ((), ()), id="no traits"),
        pytest.param(
            {}, {TRAITS_ANNOTATION: "CUSTOM_A"}, (False, False), ((), ("CUSTOM_A",)), id="trait"
        ),
        pytest.param({LIFECYCLE_LABEL: "true"}, {}, (True, False), ((), ()), id="lifecycle"),
        pytest.param({LIFECYCLE_LABEL: "skip-tests"}, {}, (True, True), ((), ()), id="skip-tests"),
    ],
)
async def test_node_gives_its_hypervisor_labels_lifecycle_and_lists(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    *,
    labels: dict[str, str],
    annotations: dict[str, str],
    lifecycle: tuple[bool, bool],
    lists: tuple[tuple[str, ...], tuple[str, ...]],
) -> None:
    await add_node(kube, name, labels={**labels, GROUP: "blue"}, annotations=annotations)
    async with operator(kubeconfig):
        made = await until(kube, Hypervisor, name, lambda _: True)
    assert made.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"
    assert made.metadata.labels[GROUP] == "blue"
    assert made.spec.maintenance is None
    assert (made.spec.lifecycleEnabled, made.spec.skipTests) == lifecycle
    assert (made.spec.aggregates, made.spec.customTraits) == lists


async def test_label_and_address_that_a_node_gets_later_reach_its_hypervisor(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_node(kube, name, addresses=())
    async with operator(kubeconfig):
        made = await until(kube, Hypervisor, name, lambda _: True)
        assert made.status.internalIp is None
        await kube.merge_patch(Node, name, {"metadata": {"labels": {GROUP: "blue"}}})
        addresses = (
            NodeAddress(type="Hostname", address=name),
            NodeAddress(type="InternalIP", address="192.0.2.7"),
        )
        await set_node_status(kube, name, NodeStatus(addresses=addresses, conditions=ready()))
        await until(
            kube,
            Hypervisor,
            name,
            lambda hv: (
                hv.metadata.labels.get(GROUP) == "blue" and hv.status.internalIp == "192.0.2.7"
            ),
        )


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("deleted", [False, True], ids=["by its condition", "by its deletion"])
async def test_node_that_terminates_shows_and_only_a_new_hypervisor_begins_in_termination(
    kube: Kube, kubeconfig: Path, name: str, *, known: bool, deleted: bool
) -> None:
    if known:
        await by_hand(kube, name, spec=UNMANAGED)
    await add_node(kube, name, conditions=ready(**({} if deleted else {"Terminating": "True"})))
    if deleted:
        held = {"metadata": {"finalizers": ["tests.example.org/held"]}}
        await kube.merge_patch(Node, name, held)
        await kube.delete(Node, name)
    async with operator(kubeconfig):
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Terminating") == "True/Terminating"
        )
        assert found.spec.maintenance == (None if known else Maintenance.TERMINATION)
        assert reason(found, "Ready") == "False/Terminating"
    if deleted:
        await kube.merge_patch(Node, name, {"metadata": {"finalizers": None}})


@dataclass(frozen=True)
class Agent:
    """A pod on the Node, in one of the agents' namespaces or elsewhere."""

    name: str
    tolerates: bool = False
    seconds: int | None = None
    phase: str = "Running"
    held: bool = False
    elsewhere: bool = False
    namespace: str = AGENTS[0]


TOLERANT = Agent("tolerant", tolerates=True)
DONE = Agent("done", phase="Succeeded")
OTHERS = Agent("others", namespace="monsoon3")


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        pytest.param((), (), id="none"),
        pytest.param((TOLERANT, DONE, OTHERS), (), id="tolerant, done, of others"),
        pytest.param((Agent("away", elsewhere=True),), (), id="on another Node"),
        pytest.param((Agent("b"), Agent("a"), TOLERANT), ("a", "b"), id="two"),
        pytest.param((Agent("brief", tolerates=True, seconds=9),), ("brief",), id="for a while"),
        pytest.param((Agent("held", held=True),), ("held",), id="deleted and held"),
    ],
)
async def test_agents_pods_of_an_emptied_host_are_counted_and_named(
    kube: Kube, kubeconfig: Path, name: str, pods: tuple[Agent, ...], left: tuple[str, ...]
) -> None:
    await add_node(kube, name, labels={GROUP: "blue"}, conditions=ready(Terminating="True"))
    taint = {"key": OFFBOARDING_TAINT.key, "effect": OFFBOARDING_TAINT.effect}
    await kube.merge_patch(Node, name, {"spec": {"taints": [taint]}})
    await by_hand(kube, name, "Evicting=False/Succeeded", spec=LEAVING)
    for pod in pods:
        await add_pod(kube, name, pod)
    wanted = "False/AgentPodsRunning" if left else "True/NoAgentPods"
    async with operator(kubeconfig):
        found = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "AgentPodsEvicted") == wanted
        )
        await until(kube, Hypervisor, name, lambda hv: hv.metadata.labels.get(GROUP) == "blue")
    text = message(found, "AgentPodsEvicted")
    named = ", ".join(f"{AGENTS[0]}/{one}-{name}" for one in left)
    assert named in text
    assert not left or str(len(left)) in text
    assert found.status.internalIp == address_of(name)
    assert reason(found, "Terminating") == "True/Terminating"
    for pod in pods:
        await remove_pod(kube, f"{pod.name}-{name}", pod.namespace)


async def add_pod(kube: Kube, node: str, pod: Agent) -> None:
    toleration = Toleration(
        key=OFFBOARDING_TAINT.key, operator="Exists", tolerationSeconds=pod.seconds
    )
    if pod.seconds is not None:
        toleration = msgspec.structs.replace(toleration, effect=OFFBOARDING_TAINT.effect)
    meta = ObjectMeta(
        name=f"{pod.name}-{node}",
        namespace=pod.namespace,
        finalizers=("tests.example.org/held",) if pod.held else (),
    )
    spec = PodSpec(
        nodeName="elsewhere" if pod.elsewhere else node,
        containers=(Container(name="agent", image="agent"),),
        tolerations=(toleration,) if pod.tolerates else (),
    )
    made = await kube.create(Pod(metadata=meta, spec=spec))
    await kube.patch_status(made, PodStatus(phase=pod.phase))
    if pod.held:
        await kube.delete(Pod, meta.name, meta.namespace)


async def remove_pod(kube: Kube, name: str, namespace: str) -> None:
    await kube.delete(Pod, name, namespace, grace=timedelta(0))
    await kube.modify(Pod, name, let_go, namespace)


@dataclass(frozen=True)
class Signal:
    """What Gardener sees of a host: pods to keep, command of the probe, whether it is tainted."""

    kept: int
    probe: str
    tainted: bool = False


@pytest.mark.parametrize(
    ("spec", "conditions", "signal"),
    [
        pytest.param(MANAGED, (), Signal(1, "/bin/false"), id="new"),
        pytest.param(
            MANAGED, ("Onboarding=True/Testing",), Signal(1, "/bin/false"), id="onboarding"
        ),
        pytest.param(
            MANAGED, ("Onboarding=False/Succeeded",), Signal(1, "/bin/true"), id="onboarded"
        ),
        pytest.param(
            MANAGED,
            ("Onboarding=False/Succeeded", "Offboarded=True/Offboarded"),
            Signal(0, "/bin/true"),
            id="offboarded",
        ),
        pytest.param(
            msgspec.structs.replace(MANAGED, maintenance=Maintenance.TERMINATION),
            ("Onboarding=False/Aborted", "Evicting=False/Succeeded"),
            Signal(1, "/bin/true", tainted=True),
            id="emptied for good",
        ),
    ],
)
async def test_gardener_sees_budget_probe_and_taint(
    kube: Kube,
    kubeconfig: Path,
    name: str,
    *,
    spec: HypervisorSpec,
    conditions: tuple[str, ...],
    signal: Signal,
) -> None:
    mine = f"maint-{name}"
    await by_hand(kube, name, *conditions, spec=spec)
    await add_node(kube, name)
    async with operator(kubeconfig):
        held = await until(kube, Deployment, mine, lambda _: True, namespace=PLACE)
        budget = await until(kube, PodDisruptionBudget, mine, lambda _: True, namespace=PLACE)
    (container,) = held.spec.template.spec.containers
    probe = container.startupProbe
    assert probe is not None
    assert probe.exec is not None
    assert probe.exec.command == (signal.probe,)
    assert (held.spec.replicas, budget.spec.minAvailable) == (signal.kept, signal.kept)
    node = await kube.get(Node, name)
    assert node is not None
    assert is_offboarding(node) == signal.tainted
    assert len(node.spec.taints) == signal.tainted


async def test_host_without_lifecycle_has_no_signal_but_a_certificate(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await add_node(kube, name)
    async with operator(kubeconfig):
        made = await until(
            kube, Certificate, f"libvirt-{name}", lambda _: True, namespace="monsoon3"
        )
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Tainted") != "")
    assert made.spec.secretName == f"tls-libvirt-{name}"
    assert name in made.spec.dnsNames
    assert made.spec.issuerRef is not None
    assert made.spec.issuerRef.name == "nova-hypervisor-agents-ca-issuer"
    for type_ in (Deployment, PodDisruptionBudget):
        assert await kube.get(type_, f"maint-{name}", PLACE) is None


async def test_edit_by_kubectl_shows(kube: Kube, kubeconfig: Path, name: str) -> None:
    await by_hand(kube, name, spec=UNMANAGED)
    async with operator(kubeconfig):
        clean = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Tainted") == "False/NoKubectl"
        )
        assert message(clean, "Tainted") == "🟢"
        by_kubectl = kube.as_manager("kubectl-edit")
        await by_kubectl.merge_patch(Hypervisor, name, {"spec": {"skipTests": True}})
        edited = await until(
            kube, Hypervisor, name, lambda hv: reason(hv, "Tainted") == "True/Kubectl"
        )
        assert message(edited, "Tainted") == "⚠️"
