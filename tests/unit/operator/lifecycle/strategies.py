"""Any host: whatever conditions and spec it may have."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from msgspec.structs import replace as with_fields
from tests.unit.operator.lifecycle.facts import HOST, ON
from tests.unit.operator.samples import condition

from hypercobalt.api import hypervisor_conditions
from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle import ha_enabled, onboarding

REASONS = {
    "Onboarding": hypervisor_conditions.OnboardingReason,
    "Evicting": hypervisor_conditions.SyncReason,
    "HaEnabled": hypervisor_conditions.HaEnabledReason,
    "Registered": hypervisor_conditions.RegisteredReason,
    "AggregatesUpdated": hypervisor_conditions.AggregatesReason,
    "TraitsUpdated": hypervisor_conditions.SyncReason,
    "LibVirtConnection": hypervisor_conditions.LibvirtConnectionReason,
    "AgentReporting": hypervisor_conditions.AgentReportingReason,
    "NodeHealthy": hypervisor_conditions.NodeHealthyReason,
    "AgentPodsEvicted": hypervisor_conditions.AgentPodsReason,
    "HypervisorDisabled": hypervisor_conditions.DisabledReason,
    "Offboarded": hypervisor_conditions.OffboardedReason,
}
WORDS = st.sampled_from(
    [
        onboarding.LIFECYCLE_OFF,
        onboarding.TERMINATION,
        onboarding.MAINTENANCE,
        ha_enabled.ENABLED,
        ha_enabled.SILENT,
        "Evicting",
        "Evicting again: 1 server came when the host was empty: i1",
        "Waiting for checks of the host: no bridge, since 2026-11-21T00:00:00Z",
        "by the service",
    ]
)


@st.composite
def conditions(draw: st.DrawFn) -> tuple[Condition, ...]:
    """Any conditions of a host, with words that operators have used."""
    made = []
    for type_, reasons in REASONS.items():
        status = draw(st.sampled_from(["", "True", "False", "Unknown"]))
        if status:
            reason, words = draw(st.sampled_from(list(reasons))), draw(WORDS)
            generation = draw(st.sampled_from([None, 2, 3]))
            one = condition(type_, status, reason, words)
            made.append(with_fields(one, observedGeneration=generation))
    return tuple(made)


@st.composite
def hosts(draw: st.DrawFn) -> tuple[HypervisorSpec, Host]:
    """Any spec that matters here, of a host with and without servers."""
    spec = with_fields(
        ON,
        maintenance=draw(st.sampled_from([None, "manual", "auto", "ha", "termination"])),
        lifecycleEnabled=draw(st.booleans()),
        highAvailability=draw(st.booleans()),
    )
    return spec, replace(HOST, servers=draw(st.sampled_from([(), ("i1",)])))
