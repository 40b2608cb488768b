"""Which Node a pod gets, and kube-scheduler's words where it gets none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hypercobalt.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
)
from hypercobalt.api.core import Node, NodeSpec, NodeStatus, Taint
from hypercobalt.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from hypercobalt.api.pods import ResourceRequirements
from hypercobalt.api.quantity import Quantity
from hypercobalt.api.workloads import Container, Pod, PodSpec, Toleration
from hypercobalt.lab.pods.placing.place import Cluster, Unplaced, place

GI = 2**30
KVM = "devices.kubevirt.io/kvm"
NONE_HELPS = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."


WEB = {"app": "web"}
ZONE = "topology.kubernetes.io/zone"


def amounts(given: dict[str, str]) -> dict[str, Quantity]:
    return {name: Quantity.lazy(text) for name, text in given.items()}


def node(
    name: str = "a",
    *,
    taints: tuple[Taint, ...] = (),
    cordoned: bool = False,
    labels: dict[str, str] | None = None,
    **have: str,
) -> Node:
    given = {"cpu": "4", "memory": "8Gi", "pods": "10", KVM: "2", **have}
    hostname = {"kubernetes.io/hostname": name}
    return Node(
        metadata=ObjectMeta(name=name, labels={**hostname, **(labels or {})}),
        spec=NodeSpec(taints=taints, unschedulable=cordoned),
        status=NodeStatus(allocatable=amounts(given)),
    )


def pod(
    name: str = "p",
    on: str = "",
    *,
    limits: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    affinity: Affinity | None = None,
    selector: dict[str, str] | None = None,
    tolerations: tuple[Toleration, ...] = (),
    **wants: str,
) -> Pod:
    resources = ResourceRequirements(requests=amounts(wants), limits=amounts(limits or {}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="lab", uid=name, labels=labels or {}),
        spec=PodSpec(
            nodeName=on,
            nodeSelector=selector or {},
            affinity=affinity,
            tolerations=tolerations,
            containers=(Container(name="compute", resources=resources),),
        ),
    )


def chosen(wanted: Pod, nodes: list[Node], pods: list[Pod] | None = None) -> str:
    """Name of the Node, or the message."""
    found = place(wanted, Cluster(nodes, pods or []))
    return found.message if isinstance(found, Unplaced) else found.metadata.name


def test_message_has_each_reason_with_its_count_and_the_sentence_about_preemption() -> None:
    control = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    nodes = [node("a"), node("b", taints=(control,)), node("c", taints=(control,))]
    full = pod("full", "a", memory="7Gi")
    assert chosen(pod(memory="2Gi"), nodes, [full]) == (
        "0/3 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint "
        "{node-role.kubernetes.io/control-plane: }. preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for "
        "scheduling."
    )


def test_no_nodes_at_all() -> None:
    assert chosen(pod(), []) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("wanted", "given", "reasons"),
    [
        pytest.param(pod(cpu="5"), node(), "1 Insufficient cpu", id="cpu"),
        pytest.param(pod(memory="9Gi"), node(), "1 Insufficient memory", id="memory"),
        pytest.param(
            pod(cpu="5", memory="9Gi"),
            node(),
            "1 Insufficient cpu, 1 Insufficient memory",
            id="two-resources",
        ),
        pytest.param(
            pod(limits={KVM: "3"}), node(), f"1 Insufficient {KVM}", id="limit-is-a-request"
        ),
        pytest.param(
            pod(limits={"vendor.example/gpu": "1"}),
            node(),
            "1 Insufficient vendor.example/gpu",
            id="device-of-no-plugin",
        ),
        pytest.param(pod(), node(pods="0"), "1 Too many pods", id="pods"),
        pytest.param(pod(), node(cordoned=True), "1 node(s) were unschedulable", id="cordoned"),
        pytest.param(
            pod(selector={"disk": "ssd"}),
            node(),
            "1 node(s) didn't match Pod's node affinity/selector",
            id="selector",
        ),
        pytest.param(
            pod(cpu="5", selector={"disk": "ssd"}),
            node(cordoned=True, taints=(Taint(key="k", value="v", effect="NoExecute"),)),
            "1 node(s) were unschedulable",
            id="first-filter-counts",
        ),
        pytest.param(
            pod(selector={"disk": "ssd"}),
            node(taints=(Taint(key="k", value="v", effect="NoExecute"),)),
            "1 node(s) had untolerated taint {k: v}",
            id="taint-before-selector",
        ),
    ],
)
def test_reason_that_other_pods_have_no_part_in(wanted: Pod, given: Node, reasons: str) -> None:
    expected = f"0/1 nodes are available: {reasons}. {NONE_HELPS.format(1)}"
    assert chosen(wanted, [given]) == expected


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        (Taint(key="k", value="v", effect="NoSchedule"), Toleration(key="k", value="v"), True),
        (Taint(key="k", value="v", effect="NoSchedule"), Toleration(key="k", value="w"), False),
        (Taint(key="k", value="v", effect="NoExecute"), Toleration(operator="Exists"), True),
        (
            Taint(key="k", effect="NoSchedule"),
            Toleration(key="k", operator="Exists", effect="NoExecute"),
            False,
        ),
        (Taint(key="k", effect="NoSchedule"), Toleration(key="other", operator="Exists"), False),
        (Taint(key="k", effect="PreferNoSchedule"), Toleration(key="x"), True),
        (Taint(key="k", effect="NoSchedule"), Toleration(), False),
    ],
)
def test_taints(taint: Taint, toleration: Toleration, *, fits: bool) -> None:
    found = chosen(pod(tolerations=(toleration,)), [node(taints=(taint,))])
    assert (found == "a") is fits


def test_cordoned_node_takes_a_pod_that_tolerates_it() -> None:
    tolerated = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")
    assert chosen(pod(tolerations=(tolerated,)), [node(cordoned=True)]) == "a"


def requires(*expressions: NodeSelectorRequirement, name: str = "") -> Affinity:
    fields = (NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)),)
    term = NodeSelectorTerm(matchExpressions=expressions, matchFields=fields if name else ())
    return Affinity(
        nodeAffinity=NodeAffinity(
            requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=(term,))
        )
    )


def test_term_by_the_name_of_the_node() -> None:
    assert chosen(pod(affinity=requires(name="b")), [node("a"), node("b")]) == "b"


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ("x", "5"), True),
        ("In", ("x",), False),
        ("NotIn", ("x",), True),
        ("NotIn", ("5",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("4",), True),
        ("Gt", ("5",), False),
        ("Lt", ("6",), True),
        ("Lt", ("5",), False),
        ("Gt", ("many",), False),
        ("Gt", (), False),
        ("Like", ("5",), False),
    ],
)
def test_operators_of_a_term(operator: str, values: tuple[str, ...], *, fits: bool) -> None:
    one = NodeSelectorRequirement(key="n", operator=operator, values=values)
    found = chosen(pod(affinity=requires(one)), [node(labels={"n": "5"})])
    assert (found == "a") is fits


def test_operators_where_the_label_is_missing() -> None:
    for operator, fits in (("NotIn", True), ("DoesNotExist", True), ("In", False), ("Gt", False)):
        one = NodeSelectorRequirement(key="n", operator=operator, values=("5",))
        assert (chosen(pod(affinity=requires(one)), [node()]) == "a") is fits, operator


def test_term_without_requirements_matches_no_node() -> None:
    assert chosen(pod(affinity=requires()), [node()]) != "a"


def prefers(**weights: int) -> Affinity:
    """Affinity to Nodes with these labels."""
    terms = tuple(
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm(
                matchExpressions=(NodeSelectorRequirement(key=key, operator="Exists"),)
            ),
        )
        for key, weight in weights.items()
    )
    to_nodes = NodeAffinity(preferredDuringSchedulingIgnoredDuringExecution=terms)
    return Affinity(nodeAffinity=to_nodes)


def test_preferred_node_wins_over_the_emptier_one() -> None:
    affinity = prefers(disk=50)
    nodes = [node("a"), node("b", labels={"disk": "ssd"})]
    busy = pod("busy", "b", cpu="2", memory="4Gi")
    assert chosen(pod(affinity=affinity), nodes, [busy]) == "b"
    assert chosen(pod(), nodes, [busy]) == "a"


def test_node_with_a_soft_taint_is_the_last_choice() -> None:
    nodes = [node("a", taints=(Taint(key="k", effect="PreferNoSchedule"),)), node("b")]
    busy = pod("busy", "b", cpu="3")
    assert chosen(pod(), nodes, [busy]) == "b"


def test_soft_taint_that_is_tolerated_or_hard_one_of_another_node_weighs_nothing() -> None:
    soft, hard = (Taint(key="k", effect=one) for one in ("PreferNoSchedule", "NoSchedule"))
    tolerated = (Toleration(key="k", operator="Exists"),)
    busy = pod("busy", "b", cpu="1")
    for taint in (soft, hard):
        assert (
            chosen(pod(tolerations=tolerated), [node("a", taints=(taint,)), node("b")], [busy])
            == "a"
        )


def test_soft_taint_weighs_more_than_a_preference_and_that_more_than_room() -> None:
    soft = Taint(key="k", effect="PreferNoSchedule")
    nodes = [node("a", taints=(soft,), labels={"disk": "ssd"}), node("b")]
    assert chosen(pod(affinity=prefers(disk=50)), nodes) == "b"
    company = with_company(prefers(disk=50), WEB)
    there = pod("one", "b", labels=WEB)
    nodes = [node("a", labels={"disk": "ssd"}), node("b")]
    assert chosen(pod(affinity=company), nodes, [there]) == "a"  # as much as company: by name
    both = [node("a"), node("b", taints=(soft,), labels={"disk": "ssd"})]
    assert chosen(pod(affinity=company), both, [there]) == "b"  # but less than both together


@pytest.mark.parametrize(("second", "expected"), [(90, "b"), (10, "a")])
def test_preference_weighs_by_its_share_of_the_strongest(second: int, expected: str) -> None:
    """Twice (100 - 90) is less than the 50 of an empty Node, and twice (100 - 10) is more."""
    nodes = [node("a", labels={"first": ""}), node("b", labels={"second": ""})]
    half = pod("half", "a", cpu="2", memory="4Gi")
    affinity = prefers(first=100, second=second)
    assert chosen(pod(affinity=affinity), nodes, [half]) == expected


@pytest.mark.parametrize("full", ["a", "b"])
def test_preference_that_weighs_as_much_as_room_leaves_it_to_the_name(full: str) -> None:
    """Twice (100 - 75) is the 50 of an empty Node."""
    nodes = [node(name, labels={"first": ""} if name == full else {"second": ""}) for name in "ab"]
    half = pod("half", full, cpu="2", memory="4Gi")
    assert chosen(pod(affinity=prefers(first=100, second=75)), nodes, [half]) == "a"


def test_empty_preference_weighs_nothing() -> None:
    empty = PreferredSchedulingTerm(weight=100, preference=NodeSelectorTerm())
    given = prefers(first=20, second=18).nodeAffinity
    assert given is not None
    terms = (empty, *given.preferredDuringSchedulingIgnoredDuringExecution)
    to_nodes = replace(given, preferredDuringSchedulingIgnoredDuringExecution=terms)
    nodes = [node("a", labels={"second": ""}), node("b", labels={"first": ""})]
    some = pod("some", "b", cpu="0.5", memory="1Gi")
    # Twice (100 - 90) is more than the 12.5 of room, and with 100 for both would be 3.3.
    assert chosen(pod(affinity=Affinity(nodeAffinity=to_nodes)), nodes, [some]) == "b"


def test_soft_taints_weigh_by_their_number() -> None:
    """Three times 100/4 is less than what an empty Node has more, and three times 100/2 is not."""
    soft = tuple(Taint(key=key, effect="PreferNoSchedule") for key in "wxyz")
    full = pod("full", "a", cpu="3.5", memory="7Gi")
    for few, many, expected in ((3, 4, "b"), (1, 2, "a")):
        nodes = [node("a", taints=soft[:few]), node("b", taints=soft[:many])]
        assert chosen(pod(), nodes, [full]) == expected


def test_node_that_is_left_with_more_is_taken_whatever_its_size() -> None:
    nodes = [node("a", cpu="2", memory="4Gi"), node("b", cpu="8", memory="16Gi")]
    assert chosen(pod(cpu="1", memory="2Gi"), nodes) == "b"
    assert chosen(pod(cpu="1", memory="2Gi"), nodes, [pod("x", "b", cpu="6", memory="12Gi")]) == "a"


def test_node_without_amounts_is_the_last_choice() -> None:
    nothing = replace(node("a"), status=NodeStatus(allocatable=amounts({"pods": "10"})))
    assert chosen(pod(), [nothing, node("b")]) == "b"
    assert chosen(pod(), [nothing]) == "a"


def only(name: str, **have: str) -> Node:
    """A Node with no other amounts."""
    return replace(node(name), status=NodeStatus(allocatable=amounts({"pods": "10", **have})))


def test_full_node_is_no_better_than_one_without_amounts() -> None:
    full = pod("full", "a", cpu="4", memory="8Gi")
    assert chosen(pod(), [node("a"), only("b")], [full]) == "a"
    also = pod("also", "b", cpu="4")
    assert chosen(pod(), [node("a"), only("b", cpu="4")], [full, also]) == "a"


def test_pod_without_requests_fills_no_node() -> None:
    assert chosen(pod(), [node("a", cpu="2"), node("b", cpu="8")]) == "a"


def test_node_that_gave_away_too_much_has_nothing_left() -> None:
    placed = [pod("x", "a", cpu="5", memory="8Gi"), pod("y", "b", cpu="3.5", memory="8Gi")]
    assert chosen(pod(), [node("a"), node("b")], placed) == "b"


def test_node_lacks_what_it_does_not_name() -> None:
    assert f"Insufficient {KVM}" in chosen(pod(limits={KVM: "1"}), [only("a", cpu="4")])
    unnamed = replace(node("a"), status=NodeStatus(allocatable=amounts({"cpu": "4"})))
    assert "Too many pods" in chosen(pod(), [unnamed])


def test_last_place_of_a_node_is_taken() -> None:
    there = pod("one", "a")
    assert chosen(pod(), [node(pods="2")], [there]) == "a"
    assert "Too many pods" in chosen(pod(), [node(pods="1")], [there])


def test_toleration_of_one_effect_covers_it() -> None:
    taint = Taint(key="k", value="v", effect="NoSchedule")
    one = Toleration(key="k", value="v", effect="NoSchedule")
    assert chosen(pod(tolerations=(one,)), [node(taints=(taint,))]) == "a"


def test_one_of_several_terms_is_enough() -> None:
    terms = tuple(
        NodeSelectorTerm(matchExpressions=(NodeSelectorRequirement(key=key, operator="Exists"),))
        for key in ("missing", "disk")
    )
    required = NodeSelector(nodeSelectorTerms=terms)
    affinity = Affinity(
        nodeAffinity=NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=required)
    )
    assert chosen(pod(affinity=affinity), [node(labels={"disk": "ssd"})]) == "a"


def test_equal_nodes_are_taken_by_name_and_the_emptier_one_first() -> None:
    nodes = [node("b"), node("a")]
    assert chosen(pod(cpu="1"), nodes) == "a"
    assert chosen(pod(cpu="1"), nodes, [pod("x", "a", cpu="1")]) == "b"


def test_device_units_run_out() -> None:
    users = [pod(f"u{number}", "a", limits={KVM: "1"}) for number in range(2)]
    assert chosen(pod(limits={KVM: "1"}), [node()], users) == (
        f"0/1 nodes are available: 1 Insufficient {KVM}. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )


def test_init_containers_count_as_the_most_that_runs_at_once() -> None:
    def container(cpu: str, restart: str = "") -> Container:
        resources = ResourceRequirements(requests=amounts({"cpu": cpu}))
        return Container(name=cpu, resources=resources, restartPolicy=restart)

    def wants(*init: Container) -> Pod:
        spec = replace(pod().spec, initContainers=init, containers=(container("1"),))
        return replace(pod(), spec=spec)

    given = [node(cpu="2")]
    assert chosen(wants(container("2")), given) == "a"
    assert chosen(wants(container("1", "Always")), given) == "a"
    assert "Insufficient cpu" in chosen(wants(container("3")), given)
    assert "Insufficient cpu" in chosen(wants(container("1", "Always"), container("2")), given)
    assert "Insufficient cpu" in chosen(wants(container("1.5", "Always")), given)
    spec = replace(pod().spec, initContainers=(container("0.5"),))
    assert chosen(replace(pod(), spec=spec), [node(cpu="0.7")]) == "a"


@pytest.mark.parametrize("text", ["1e999999", "nonsense", "-5"])
def test_amounts_that_cannot_be_read_are_nothing(text: str) -> None:
    assert chosen(pod(cpu=text), [node()]) == "a"
    assert "Insufficient cpu" in chosen(pod(cpu="1"), [node(cpu=text)])


def beside(
    labels: dict[str, str], *, key: str = "kubernetes.io/hostname", namespaces: tuple[str, ...] = ()
) -> PodAffinityTerm:
    selector = LabelSelector(matchLabels=labels)
    return PodAffinityTerm(topologyKey=key, labelSelector=selector, namespaces=namespaces)


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(podAffinity=PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=terms))


def with_company(affinity: Affinity, labels: dict[str, str]) -> Affinity:
    term = WeightedPodAffinityTerm(weight=100, podAffinityTerm=beside(labels))
    terms = PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=(term,))
    return replace(affinity, podAffinity=terms)


def away(term: PodAffinityTerm) -> Affinity:
    terms = PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,))
    return Affinity(podAntiAffinity=terms)


def test_pods_that_avoid_each_other_go_to_other_nodes() -> None:
    nodes = [node("a"), node("b")]
    first = pod("one", "a", labels=WEB, affinity=away(beside(WEB)))
    second = pod("two", labels=WEB, affinity=away(beside(WEB)))
    assert chosen(second, nodes, [first]) == "b"
    assert chosen(second, nodes[:1], [first]) == (
        "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_pod_that_is_not_meant_may_be_beside_one_that_avoids_others() -> None:
    there = pod("one", "a", affinity=away(beside({"app": "db"})))
    assert chosen(pod(labels=WEB), [node("a")], [there]) == "a"


def test_pod_keeps_away_from_one_that_would_not_mind() -> None:
    there = pod("one", "a", labels=WEB)
    assert chosen(pod(affinity=away(beside(WEB))), [node("a")], [there]) == (
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_whole_zone_is_avoided() -> None:
    nodes = [node(name, labels={ZONE: zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    there = pod("one", "a", labels=WEB)
    assert chosen(pod(affinity=away(beside(WEB, key=ZONE))), nodes, [there]) == "c"


def test_pod_goes_where_its_company_is() -> None:
    nodes = [node("a"), node("b")]
    there = pod("one", "b", labels=WEB, cpu="3")
    assert chosen(pod(affinity=near(beside(WEB))), nodes, [there]) == "b"
    assert chosen(pod(affinity=near(beside(WEB))), nodes) == (
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. "
        + NONE_HELPS.format(2)
    )


def test_first_pod_of_a_group_may_be_placed() -> None:
    alone = pod(labels=WEB, affinity=near(beside(WEB)))
    assert chosen(alone, [node("a")]) == "a"
    zoned = pod(labels=WEB, affinity=near(beside(WEB, key=ZONE)))
    nodes = [node("a"), node("b", labels={ZONE: "1"})]
    assert chosen(zoned, nodes) == "b"  # a has no zone that others could follow into
    # One that is in no zone is no company to follow.
    assert chosen(zoned, nodes, [pod("one", "a", labels=WEB)]) == "b"


def test_company_is_pods_that_all_terms_mean() -> None:
    nodes = [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "1"})]
    both = {**WEB, "tier": "front"}
    terms = near(beside(WEB, key=ZONE), beside({"tier": "front"}))
    halves = [pod("one", "a", labels=WEB), pod("two", "b", labels={"tier": "front"})]
    assert "didn't match pod affinity rules" in chosen(pod(affinity=terms), nodes, halves)
    assert chosen(pod(affinity=terms), nodes, [*halves, pod("three", "b", labels=both)]) == "b"
    zoneless = [node("a"), node("b", labels={ZONE: "1"})]
    assert chosen(pod(labels=both, affinity=terms), zoneless) == "b"
    # The first of its group is one that all terms mean as well.
    assert chosen(pod(labels=both, affinity=terms), nodes, halves) == "a"
    half = pod(labels=WEB, affinity=terms)
    assert "didn't match pod affinity rules" in chosen(half, nodes, halves)


@pytest.mark.parametrize(("namespaces", "expected"), [((), "a"), (("other",), "b")])
def test_term_means_pods_of_its_namespaces(namespaces: tuple[str, ...], expected: str) -> None:
    there = pod("one", "a", labels=WEB)
    there = replace(there, metadata=replace(there.metadata, namespace="other"))
    wanted = pod(affinity=away(beside(WEB, namespaces=namespaces)))
    assert chosen(wanted, [node("a"), node("b")], [there]) == expected


def test_preferred_company_counts() -> None:
    term = WeightedPodAffinityTerm(weight=100, podAffinityTerm=beside(WEB))
    terms = PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=(term,))
    nodes, there = [node("a"), node("b")], pod("one", "b", labels=WEB, cpu="3", memory="6Gi")
    assert chosen(pod(affinity=Affinity(podAffinity=terms)), nodes, [there]) == "b"
    rather_not = pod(affinity=Affinity(podAntiAffinity=terms))
    emptier = pod("two", "a", cpu="3", memory="7Gi")
    assert chosen(rather_not, nodes, [there, emptier]) == "a"


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        (None, True),
        (LabelSelector(), False),
        (
            LabelSelector(
                matchExpressions=(
                    LabelSelectorRequirement(key="app", operator="In", values=("web",)),
                )
            ),
            False,
        ),
        (
            LabelSelector(
                matchExpressions=(LabelSelectorRequirement(key="app", operator="DoesNotExist"),)
            ),
            True,
        ),
    ],
)
def test_selectors_of_pods(selector: LabelSelector | None, *, fits: bool) -> None:
    term = PodAffinityTerm(topologyKey="kubernetes.io/hostname", labelSelector=selector)
    there = pod("one", "a", labels=WEB)
    assert (chosen(pod(affinity=away(term)), [node("a")], [there]) == "a") is fits
