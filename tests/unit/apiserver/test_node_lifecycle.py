"""What silence does to a Node, and when a Node counts as silent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hypercobalt.apiserver.node_lifecycle import Mark, NodeReports, silenced, tainted

NOW = "2026-11-22T10:00:00Z"
BORN = "2026-11-01T00:00:00Z"
UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"

Object = dict[str, Any]


def condition(type_: str, status: str) -> Object:
    return {
        "type": type_,
        "status": status,
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": BORN,
        "lastTransitionTime": BORN,
    }


def node(*conditions: Object, taints: tuple[Object, ...] = (), **spec: object) -> Object:
    if taints:
        spec["taints"] = list(taints)
    meta = {"name": "kvm-1", "creationTimestamp": BORN}
    return {"metadata": meta, "spec": spec, "status": {"conditions": list(conditions)}}


def test_silent_node_is_unknown_in_everything_that_its_kubelet_reports() -> None:
    network = condition("NetworkUnavailable", "False")
    found = silenced(node(condition("Ready", "True"), network), NOW)["status"]
    assert isinstance(found, dict)
    assert found["conditions"] == [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": BORN,
            "lastTransitionTime": NOW,
        },
        network,  # the control plane's, not the kubelet's
        *(
            {
                "type": type_,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": BORN,
                "lastTransitionTime": NOW,
            }
            for type_ in ("MemoryPressure", "DiskPressure", "PIDPressure")
        ),
    ]


def test_silence_is_written_once() -> None:
    once = silenced(node(condition("Ready", "False")), NOW)
    assert silenced(once, "2026-11-22T11:00:00Z") == once


def taint(key: str, effect: str, **more: str) -> Object:
    return {"key": key, "effect": effect, **more}


OTHERS = taint("kvm.cloud.sap/offboarding", "NoExecute")
BY_HAND = taint(NOT_READY, "PreferNoSchedule")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(node(condition("Ready", "True")), [], id="ready-has-none"),
        pytest.param(
            node(condition("Ready", "Unknown")),
            [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
            id="unknown-is-unreachable",
        ),
        pytest.param(
            node(condition("Ready", "False"), taints=(taint(UNREACHABLE, "NoExecute"),)),
            [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
            id="not-ready-takes-the-place-of-unreachable",
        ),
        pytest.param(
            node(condition("Ready", "True"), condition("DiskPressure", "True")),
            [("node.kubernetes.io/disk-pressure", "NoSchedule")],
            id="pressure-keeps-pods-off",
        ),
        pytest.param(
            node(condition("Ready", "True"), condition("DiskPressure", "Unknown")),
            [],
            id="unknown-pressure-is-none",
        ),
        pytest.param(
            node(condition("Ready", "True"), unschedulable=True),
            [("node.kubernetes.io/unschedulable", "NoSchedule")],
            id="cordon-keeps-pods-off",
        ),
        pytest.param(
            node(condition("Ready", "True"), taints=(OTHERS, taint(UNREACHABLE, "NoSchedule"))),
            [("kvm.cloud.sap/offboarding", "NoExecute")],
            id="taints-of-others-stay",
        ),
        pytest.param(
            node(condition("Ready", "True"), taints=(BY_HAND,)),
            [(NOT_READY, "PreferNoSchedule")],
            id="own-key-with-a-foreign-effect-stays",
        ),
        pytest.param(node(), [], id="never-reported-has-none"),
    ],
)
def test_taints_follow_the_conditions(given: Object, wanted: list[tuple[str, str]]) -> None:
    found = tainted(given, NOW)
    spec = found["spec"]
    assert isinstance(spec, dict)
    held: Any = spec.get("taints", [])
    assert [(one["key"], one["effect"]) for one in held] == wanted
    assert tainted(found, "2026-11-22T11:00:00Z") == found, "a taint keeps the time of its begin"


GRACE = 50.0


def test_a_node_is_silent_once_its_time_has_run_out() -> None:
    reports = NodeReports(GRACE)
    reports.note("a", Mark("1"), 0.0)
    reports.note("b", Mark("1"), 10.0)
    reports.note("a", Mark("2"), 20.0)  # renewed
    reports.note("b", Mark("1"), 30.0)  # seen again, as it was
    assert reports.next_silent() == ("b", 60.0)
    assert not reports.is_silent("b", 59.9)
    assert reports.is_silent("b", 60.0)
    assert reports.next_silent() == ("a", 70.0)


def test_a_silent_node_stays_silent_until_it_reports() -> None:
    reports = NodeReports(GRACE)
    reports.note("a", Mark("1"), 0.0)
    assert reports.is_silent("a", GRACE)
    reports.note("a", Mark("1"), 51.0)
    assert reports.is_silent("a", 51.0)
    reports.note("a", Mark("0"), 52.0)  # a clock that went back reports as well
    assert not reports.is_silent("a", 52.0)


@given(st.floats(0, 1e6))
@example(255.069)  # to which the grace period is added inexactly
def test_a_node_is_silent_at_the_time_announced(seen: float) -> None:
    reports = NodeReports(GRACE)
    reports.note("a", Mark("1"), seen)
    _, at_time = reports.next_silent() or ("", 0.0)
    assert reports.is_silent("a", at_time)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.floats(0, 30))))
def test_the_first_to_run_out_is_the_one_that_reported_longest_ago(
    steps: list[tuple[str, int, float]],
) -> None:
    reports, now = NodeReports(GRACE), 0.0
    last: dict[str, tuple[int, float]] = {}
    for name, mark, passed in steps:
        now += passed
        reports.note(name, Mark(str(mark)), now)
        if name not in last or last[name][0] != mark:
            last[name] = (mark, now)
    by_age = {name: seen + GRACE for name, (_, seen) in last.items()}
    first = reports.next_silent()
    assert (first[1] if first else None) == min(by_age.values(), default=None)
    for name, until in by_age.items():
        assert reports.is_silent(name, now) == (now >= until)
