"""The chart's alerts go by metrics and states that exist, can fire, and link to a section."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.pages import ROOT, section
from tests.unit.operator.samples import condition, hypervisor

from hypercobalt.adapters.openstack.metrics import OpenStackMetrics
from hypercobalt.api.eviction import Eviction, EvictionInstance, EvictionSpec, EvictionStatus
from hypercobalt.api.ha_switch import HA_ENABLED, PAUSE
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import Incident, IncidentType
from hypercobalt.compute.direct.connecting import report_exposures
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.operator.eviction.metrics import EvictionMetrics
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.metrics import HA_STATES, HaState, Overview, ha_states
from hypercobalt.runtime import Metrics

CHART = ROOT / "charts/hypercobalt-operator/templates"
PAGE = (ROOT / "docs/alerts.md").read_text()
VALUES = yaml.safe_load((CHART.parent / "values.yaml").read_text())["prometheusRule"]
SELECTED = re.compile(r'(\w+)\{job="[^"]+",(state|type)=~?"([^"]+)"\}')
NAMES = r"\b((?:hypercobalt|controller_runtime|ha)_\w+)"


def rules() -> list[dict[str, Any]]:
    """The alerts, without what Helm fills in."""
    text = (CHART / "alerts.yaml").read_text()
    text = text.replace("{{ $job }}", VALUES["job"])
    text = text.replace("{{ $.Values.prometheusRule.nodeAgentJob }}", VALUES["nodeAgentJob"])
    text = re.sub(r"\{\{- /\*.*?\*/\}\}\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*\{\{[^}]*\}\}\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{\{ (\$book|[^}]*) \}\}", "filled", text)
    groups = yaml.safe_load(text)["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


RULES = rules()
STATES = sorted(
    {
        (metric, label, state)
        for rule in RULES
        for metric, label, states in SELECTED.findall(rule["expr"])
        for state in states.split("|")
    }
)


def ha_conditions(state: str) -> list[tuple[str, str, str]]:
    """Type, status and reason of the conditions that are a state of high availability."""
    one_each = {type_: why for (type_, why), found in HA_STATES.items() if found == state}
    return [(type_, "True", why) for type_, why in one_each.items()]


def registry(state: str = "") -> CollectorRegistry:
    """Return the metrics of an operator with one host and one Eviction in a state."""
    found = Metrics().registry
    OpenStackMetrics(found)
    HaMetrics(found)
    EvictionMetrics(found)
    IncidentMetrics(found)  # of the node agents, which the same Prometheus scrapes
    report_exposures(DirectSettings(), found)
    incidents = (
        Incident(id=one, type=one, severity="Warning") for one in IncidentType if one == state
    )
    network = ("NetworkHealthy", "False", state or "Healthy")
    stored = ("DefinitionsStored", "False", state or "Stored")
    if state == "NotReported":  # by an agent of before
        stored = ("HaEnabled", "True", "Succeeded")
    conditions = (("Ready", "False", state or "Ready"), network, stored, *ha_conditions(state))
    status = HypervisorStatus(
        conditions=tuple(condition(*one) for one in conditions),
        incidents=tuple(incidents),
        definitionsKey="published",
    )
    host = hypervisor(status=status)
    eviction = Eviction(
        spec=EvictionSpec(hypervisor="kvm-a", reason="test"),
        status=EvictionStatus(
            conditions=(condition("Evicting", "False", state or "Running"),),
            instances=(EvictionInstance(id="a", phase=state or "Pending"),),
        ),
    )
    found.register(Overview(lambda: [host], lambda: [eviction]))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_goes_by_metrics_that_the_operator_has(rule: dict[str, Any]) -> None:
    known = {
        name
        for family in registry().collect()
        for name in (family.name, f"{family.name}_total", *(s.name for s in family.samples))
    }
    named = set(re.findall(NAMES, rule["expr"]))
    assert named
    assert named <= known


@pytest.mark.parametrize(("metric", "label", "state"), STATES)
def test_an_alert_fires_for_its_state(metric: str, label: str, state: str) -> None:
    assert registry(state).get_sample_value(metric, {label: state}) == 1.0
    assert registry().get_sample_value(metric, {label: state}) in {0.0, 1.0}


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        pytest.param(HypervisorSpec(maintenance="manual"), {}, id="manual"),
        pytest.param(HypervisorSpec(maintenance="auto"), {}, id="auto"),
        pytest.param(HypervisorSpec(highAvailability=False), {}, id="switched off"),
        pytest.param(HypervisorSpec(lifecycleEnabled=False), {}, id="not managed"),
        pytest.param(HypervisorSpec(), {PAUSE: "test"}, id="paused"),
        pytest.param(HypervisorSpec(), {HA_ENABLED: "false"}, id="switched off by a controller"),
    ],
)
def test_recovery_that_was_switched_off_is_not_blocked(
    spec: HypervisorSpec, annotations: dict[str, str]
) -> None:
    seen = (condition("RecoveryBlocked", "True", "GatesClosed"), condition("Fenced", "x", "Failed"))
    serves = hypervisor(*seen)
    assert list(ha_states(serves)) == [HaState.GATES_CLOSED, HaState.UNFENCED]
    found = ha_states(hypervisor(*seen, spec=spec, annotations=annotations))
    assert list(found) == [HaState.UNFENCED]


PARTS = ["Means", "Affected", "Do", "Over"]
SPANS = {
    **{f"{minutes}m": f"{minutes} minutes" for minutes in (2, 5, 10, 15)},
    "1h": "an hour",
    "2h": "two hours",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_its_meaning_what_to_do_and_its_end(rule: dict[str, Any]) -> None:
    notes, name = rule["annotations"], rule["alert"]
    assert notes["runbook_url"].partition("#")[2] == name.lower()
    text = section(PAGE, f"### {name}")
    assert re.findall(r"^- \*\*(\w+):\*\*", text, re.MULTILINE) == PARTS
    if "for" in rule:
        assert SPANS[rule["for"]] in text.partition("**Affected:**")[0]
    assert notes["summary"].endswith(".")
    assert notes["command"].split()[0] in {"kubectl", "openstack"}
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_page_has_no_other_alert() -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]


def test_lines_of_the_log_that_a_command_finds_are_written() -> None:
    commands = " ".join(rule["annotations"]["command"] for rule in RULES)
    sought = re.findall(r"\| grep (\w+_\w+)", commands)
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert sought
    assert [word for word in sought if f'"{word}"' not in source] == []


def component(chart: str) -> str:
    """The label of a chart's Services, and so the job of what its ServiceMonitor has scraped."""
    templates = CHART.parents[1] / chart / "templates"
    assert "jobLabel: app.kubernetes.io/component" in (templates / "metrics.yaml").read_text()
    label = re.search(
        r"^app.kubernetes.io/component: (.*)$",
        (templates / "_helpers.tpl").read_text(),
        re.MULTILINE,
    )
    assert label is not None
    return label[1]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_counts_no_metrics_that_a_host_shows_for_the_operators(
    rule: dict[str, Any],
) -> None:
    """A captured host writes its own page of metrics, but not the job of what was scraped there."""
    jobs = re.findall(NAMES + r'\{job="([^"]+)"', rule["expr"])
    assert [name for name, _ in jobs] == re.findall(NAMES, rule["expr"])
    of_agents = {sample.name for family in _of_agents().collect() for sample in family.samples}
    for name, job in jobs:
        agent = name in of_agents
        chart = "hypercobalt-node-agent" if agent else "hypercobalt-operator"
        assert job == component(chart), name


def _of_agents() -> CollectorRegistry:
    found = CollectorRegistry()
    IncidentMetrics(found)
    return found


@pytest.mark.parametrize("chart", ["hypercobalt-node-agent", "hypercobalt-ovs-agent"])
def test_a_host_adds_a_bounded_number_of_series(chart: str) -> None:
    text = (CHART.parents[1] / chart / "templates/metrics.yaml").read_text()
    bounds = {"sampleLimit", "bodySizeLimit", "labelLimit"}
    bounds |= {"labelNameLengthLimit", "labelValueLengthLimit"}
    assert bounds <= set(re.findall(r"^  (\w+): \S", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("chart", "owner"),
    [
        ("hypercobalt-node-agent", "DaemonSet/"),
        ("hypercobalt-ovs-agent", "DaemonSet/"),
        ("hypercobalt-operator", "ReplicaSet/"),
    ],
)
def test_pod_that_a_kubelet_has_made_is_not_scraped(chart: str, owner: str) -> None:
    """The pod may have the labels of the chart's pods, but no owner other than its Node."""
    text = (CHART.parents[1] / chart / "templates/metrics.yaml").read_text()
    labels = "__meta_kubernetes_pod_controller_kind, __meta_kubernetes_pod_controller_name"
    keep = (
        f"- action: keep\n      sourceLabels: [{labels}]\n      separator: /\n      regex: {owner}"
    )
    assert keep in text
