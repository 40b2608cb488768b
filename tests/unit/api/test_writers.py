"""The table of writers, what follows from it, and that the code keeps to it."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from hypercobalt.api import writers
from hypercobalt.api.crd import KINDS
from hypercobalt.api.fields import fields_of
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    NODE_AGENT_TYPES,
    UNIT_TYPE,
)
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as Type
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.ovsnode import OVSNode, OVSNodeConditionType
from hypercobalt.api.schema import CustomObject, Writer
from hypercobalt.operator.agents import reporting
from hypercobalt.operator.ha.devices import check
from hypercobalt.operator.ha.recording import conditions
from hypercobalt.operator.lifecycle import reconciler
from hypercobalt.operator.nodes import hypervisor
from hypercobalt.operator.shared.status_writer import FIELDS, TYPES
from hypercobalt.ovs_agent.rules.conditions import OWN
from hypercobalt.ovs_agent.status.compose import FIELDS as OVS_FIELDS

CHARTS = Path(__file__).resolve().parents[3] / "charts"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "status" in fields_of(kind)])
def test_each_field_of_a_status_has_a_writer(kind: type[CustomObject]) -> None:
    status = fields_of(kind)["status"][0]
    assert isinstance(status, type)
    assert writers.writers(kind).keys() == fields_of(status).keys()


class LaterStatus(HypervisorStatus, frozen=True):
    more: str | None = None


class Later(Hypervisor, frozen=True):
    status: LaterStatus = LaterStatus()


def test_a_field_without_a_word_about_its_writer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Later\.status\.more has no writer"):
        writers.writers(Later)


def test_the_ovs_agent_writes_the_fields_and_types_of_its_table() -> None:
    assert set(writers.written_by(OVSNode, Writer.OVS_AGENT)) == set(OVS_FIELDS)
    assert set(OVSNodeConditionType) == set(OWN)


def test_each_part_of_the_operators_status_has_one_controller() -> None:
    """`Ready`, `Tainted` and `NetworkHealthy` follow from the rest, in the writer itself."""
    computed = {Type.READY, Type.TAINTED, Type.NETWORK_HEALTHY}
    of_controllers = [
        hypervisor.TYPES,
        reporting.TYPES,
        reconciler.TYPES,
        conditions.TYPES,
        check.TYPES,
    ]
    assert sorted((*computed, *chain(*of_controllers))) == sorted(TYPES)


def test_lifecycle_writes_fields_of_the_operator() -> None:
    assert set(reconciler.FIELDS) < set(FIELDS)


def test_no_type_has_two_writers() -> None:
    assert not TYPES & set(NODE_AGENT_TYPES)
    assert not any(re.search(UNIT_TYPE, type_) for type_ in (*TYPES, *NODE_AGENT_TYPES))


@pytest.mark.parametrize("name", ["libvirtd.service", "getty.tty1.service", "a.b-c_d.mount"])
def test_units_have_types_of_their_own(name: str) -> None:
    assert re.search(UNIT_TYPE, name)


@pytest.mark.parametrize(
    "name",
    ["Ready", "HaEnabled", "service", ".service", "a.b/c.service", "x.service.y", "x.Service"],
)
def test_other_types_are_no_units(name: str) -> None:
    assert not re.search(UNIT_TYPE, name)


def test_generated_lists_of_the_policies_are_current() -> None:
    found = {path: (CHARTS / path).read_text(encoding="utf-8") for path in writers.templates()}
    assert found == writers.templates(), "run scripts/generate"
