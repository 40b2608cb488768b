"""docs/ovs-agent.md names every condition, reason and code."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from hypercobalt.adapters.ovs.packet import FIELDS, PROTOCOLS
from hypercobalt.api import ovsnode_reasons as reasons
from hypercobalt.api.ovsnode import OVSNodeConditionType

PAGE = Path(__file__).parents[3] / "docs" / "ovs-agent.md"
KINDS = (
    OVSNodeConditionType,
    reasons.OVSDBReason,
    reasons.VswitchdReason,
    reasons.ControllerReason,
    reasons.BridgesReason,
    reasons.BondsReason,
    reasons.PortsReason,
    reasons.FlowsReason,
    reasons.ReadyReason,
    reasons.UnknownReason,
    reasons.IssueCode,
)


@pytest.mark.parametrize("kind", KINDS)
def test_page_names_every_value(kind: type[StrEnum]) -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", PAGE.read_text()))
    assert {one.value for one in kind} - named == set()


def test_page_names_every_field_of_a_traced_packet() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    assert FIELDS.keys() - named == set()
    assert set(PROTOCOLS) - named == set()
