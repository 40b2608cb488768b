"""docs/operations.md and the code name the same conditions, reasons, checks, phases and flags."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.pages import ROOT, broken_links, first_cells, flag_rows, flags, section, shown
from tests.reasons import REASONS
from tests.unit.operator.samples import hypervisor as sample

from hypercobalt.api import hypervisor_conditions
from hypercobalt.api.eviction import (
    FINALIZER,
    CheckResult,
    ClaimedReason,
    EvictionConditionType,
    EvictionMode,
    EvictionReason,
    EvictionSpec,
    InstancePhase,
)
from hypercobalt.api.ha_switch import PAUSE
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as Type
from hypercobalt.cli.operator import operator
from hypercobalt.compute.model import Host, ServerStatus
from hypercobalt.operator.election import lease_name
from hypercobalt.operator.eviction.assessing.course import INSTANCE_TRIGGERS
from hypercobalt.operator.eviction.model.policy import Doubt, Policy
from hypercobalt.operator.eviction.planning.preflight import of_host, of_instances, of_recovery
from hypercobalt.operator.ha.planning.evictions import recovery
from hypercobalt.operator.lifecycle import holding
from hypercobalt.operator.network.fleet_check import FleetCode
from hypercobalt.operator.nodes.from_node import RECORD
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    OFFBOARDING_TAINT,
    TRAITS_ANNOTATION,
    ZONE_LABEL,
)
from hypercobalt.operator.shared.status_writer import TYPES

PATH = ROOT / "docs/operations.md"
PAGE = PATH.read_text()

SYNCED = {hypervisor_conditions.SyncReason.SUCCEEDED, hypervisor_conditions.SyncReason.FAILED}
OF_OPERATOR = [type_ for type_ in REASONS if type_ in {*TYPES, Type.HA_ENABLED}]
EVICTION_REASONS: dict[str, set[str]] = {
    EvictionConditionType.EVICTING: set(EvictionReason),
    EvictionConditionType.PREFLIGHT_CHECKS_SUCCEEDED: {*SYNCED},
    EvictionConditionType.MIGRATING_INSTANCE: {*SYNCED},
    EvictionConditionType.INSTANCE_CLAIMED: set(ClaimedReason),
}


def reasons(text: str) -> set[str]:
    return {cell.partition("/")[2] for cell in first_cells(text)}


def test_every_condition_that_the_operator_writes_is_explained() -> None:
    assert set(OF_OPERATOR) == {*TYPES, Type.HA_ENABLED}
    assert set(EVICTION_REASONS) == set(EvictionConditionType)


def test_conditions_of_others_are_named() -> None:
    text = section(PAGE, "### Of the node agent")
    assert [type_ for type_ in Type if type_ not in OF_OPERATOR and f"`{type_}`" not in text] == []


@pytest.mark.parametrize("type_", OF_OPERATOR)
def test_reasons_of_a_hypervisor_are_those_of_the_code(type_: Type) -> None:
    known = SYNCED if type_ is Type.TRAITS_UPDATED else set(REASONS[type_])
    assert reasons(section(PAGE, f"### `{type_}`")) == known


@pytest.mark.parametrize("type_", EVICTION_REASONS)
def test_reasons_of_an_eviction_are_those_of_the_code(type_: str) -> None:
    assert reasons(section(PAGE, f"#### `{type_}`")) == EVICTION_REASONS[type_]


def paused() -> Hypervisor:
    found = sample()
    return replace(found, metadata=replace(found.metadata, annotations={PAUSE: "test"}))


def test_checks_are_those_of_the_code() -> None:
    host = Host("kvm-1", "hypervisor", "service", enabled=True)
    specs = [EvictionSpec(hypervisor="kvm-1", reason="test", mode=mode) for mode in EvictionMode]
    of_hosts = [check for spec in specs for check in of_host(sample(), host, spec)]
    off = of_recovery(recovery(sample(), EvictionMode.LIVE, None), paused())
    made = (*of_hosts, *off, *of_instances((), {}, Doubt.WARN))
    text = section(PAGE, "### Checks")
    assert set(first_cells(text)) == {check.name for check in made}
    assert [result for result in CheckResult if f"`{result}`" not in text] == []


def test_modes_of_an_eviction_are_those_of_the_code() -> None:
    text = section(PAGE, "### Modes")
    assert [mode for mode in EvictionMode if f"`{mode}`" not in text] == []
    assert [trigger for trigger in INSTANCE_TRIGGERS if f"`{trigger}`" not in text] == []
    policy = Policy()
    times = (policy.restarts, len(policy.restart_waits) + 1, policy.restart_waits[-1].seconds)
    assert times == (2, 4, 120), "the page has them in words"


def test_phases_and_states_of_instances_are_those_of_the_code() -> None:
    text = section(PAGE, "### Instances")
    assert [phase for phase in InstancePhase if f"| `{phase}` |" not in text] == []
    assert [status for status in ServerStatus if f"`{status}`" not in text] == []


def test_modes_of_maintenance_are_those_of_the_code() -> None:
    named = set(first_cells(section(PAGE, "### Maintenance"))) - {"maintenanceReason"}
    assert named == {mode for mode in Maintenance if mode}


def test_findings_of_the_network_check_are_those_of_the_code() -> None:
    assert set(first_cells(section(PAGE, "### The network check"))) == set(FleetCode)


def test_names_are_those_of_the_code() -> None:
    names = (
        *(HYPERVISOR_LABEL, LIFECYCLE_LABEL, HOSTNAME_LABEL, ZONE_LABEL, RECORD),
        *(FINALIZER, holding.FINALIZER),
        *(AGGREGATES_ANNOTATION, TRAITS_ANNOTATION, OFFBOARDING_TAINT.key, lease_name("")),
    )
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_flags_are_those_of_the_code_with_their_defaults() -> None:
    known, named = flags(operator), set[str]()
    for cells in flag_rows(section(PAGE, "### Flags")):
        here = re.findall(r"`(--[a-z0-9-]+)`", cells[0])
        named.update(here)
        if len(here) > 1:
            continue  # those that change nothing
        default, env = known[here[0]]
        assert cells[1].strip("`") == shown(default), here
        if here != ["--kubeconfig"]:
            assert cells[2].strip("`") == env, here
    assert named == set(known)


def test_links_of_the_page_resolve() -> None:
    assert broken_links(PATH) == []
