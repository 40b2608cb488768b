"""Any host: whatever conditions and spec it may have."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from msgspec.structs import replace as with_fields
from tests.reasons import REASONS
from tests.unit.operator.lifecycle.facts import HOST, ON
from tests.unit.operator.samples import condition

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import HypervisorSpec
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as Type
from hypercobalt.compute.model import Host
from hypercobalt.operator.lifecycle import ha_enabled, onboarding

TYPES = (
    *(Type.ONBOARDING, Type.EVICTING, Type.HA_ENABLED, Type.REGISTERED, Type.AGGREGATES_UPDATED),
    *(Type.TRAITS_UPDATED, Type.LIBVIRT_CONNECTION, Type.AGENT_REPORTING, Type.NODE_HEALTHY),
    *(Type.AGENT_PODS_EVICTED, Type.HYPERVISOR_DISABLED, Type.OFFBOARDED),
)
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
    for type_ in TYPES:
        status = draw(st.sampled_from(["", "True", "False", "Unknown"]))
        if status:
            reason, words = draw(st.sampled_from(list(REASONS[type_]))), draw(WORDS)
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
