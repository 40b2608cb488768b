"""The charts give a process the time that its end may take."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta

import pytest
from tests.pages import ROOT

from hypercobalt.agent.process import STOP_DEADLINE
from hypercobalt.runtime.manager import LAST, SERVICES_STOP, Manager

OPERATOR: timedelta = inspect.signature(Manager).parameters["stop_deadline"].default


@pytest.mark.parametrize(
    ("template", "stop_deadline"),
    [
        ("hypercobalt-operator/templates/deployment.yaml", OPERATOR),
        ("hypercobalt-node-agent/templates/daemonset.yaml", STOP_DEADLINE),
        ("hypercobalt-ovs-agent/templates/daemonset.yaml", STOP_DEADLINE),
    ],
)
def test_a_pod_is_not_killed_before_its_process_would_end_itself(
    template: str, stop_deadline: timedelta
) -> None:
    text = (ROOT / "charts" / template).read_text()
    (seconds,) = re.findall(r"^ +terminationGracePeriodSeconds: (\d+)", text, re.MULTILINE)
    assert timedelta(seconds=int(seconds)) > stop_deadline + SERVICES_STOP + LAST
