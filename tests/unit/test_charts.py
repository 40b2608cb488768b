"""What the charts give a process: the time that its end may take, the ports it is reached by."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta

import pytest
from tests.pages import ROOT

from hypercobalt.agent.process import STOP_DEADLINE
from hypercobalt.runtime.manager import LAST, SERVICES_STOP, Manager
from hypercobalt.virt.api.webhooks import MUTATING, VALIDATING, WEBHOOKS

OPERATOR: timedelta = inspect.signature(Manager).parameters["stop_deadline"].default


@pytest.mark.parametrize(
    ("template", "stop_deadline"),
    [
        ("hypercobalt-operator/templates/deployment.yaml", OPERATOR),
        ("hypercobalt-node-agent/templates/daemonset.yaml", STOP_DEADLINE),
        ("hypercobalt-ovs-agent/templates/daemonset.yaml", STOP_DEADLINE),
        ("hypercobalt-virt/templates/api.yaml", OPERATOR),
        ("hypercobalt-virt/templates/controller.yaml", OPERATOR),
    ],
)
def test_a_pod_is_not_killed_before_its_process_would_end_itself(
    template: str, stop_deadline: timedelta
) -> None:
    text = (ROOT / "charts" / template).read_text()
    (seconds,) = re.findall(r"^ +terminationGracePeriodSeconds: (\d+)", text, re.MULTILINE)
    assert timedelta(seconds=int(seconds)) > stop_deadline + SERVICES_STOP + LAST


def test_chart_registers_every_webhook_of_virt_api() -> None:
    text = (ROOT / "charts/hypercobalt-virt/templates/webhooks.yaml").read_text()
    found = re.findall(r'- name: (\S+)\n +\{\{- include "virt.webhook" \(list \. (.*)\) \|', text)
    assert found == [(one.name, f'"{one.path}" "{", ".join(one.operations)}"') for one in WEBHOOKS]
    assert re.findall(r"^  name: (.*)", text, re.MULTILINE) == [MUTATING, VALIDATING]


@pytest.mark.parametrize("port", ["health", "diagnostics"])
def test_node_agent_listens_at_the_address_of_its_host(port: str) -> None:
    """Peers probe `/healthz` there, and the Hypervisor has that address for diagnostics."""
    text = (ROOT / "charts/hypercobalt-node-agent/templates/daemonset.yaml").read_text()
    assert "hostNetwork" not in text
    assert re.search(rf"- name: {port}\n +containerPort: (\d+)\n +hostPort: \1\n", text)
