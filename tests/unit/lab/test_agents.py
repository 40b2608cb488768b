from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from hypercobalt.agent.settings import LEASE
from hypercobalt.lab import state as records
from hypercobalt.lab.agents import SHORT_LEASE, lease_of, node_agent_unit, ovs_agent_unit

COBALT = Path("/usr/bin/cobalt")


@pytest.mark.parametrize("definitions", [True, False])
def test_only_where_the_operator_starts_guests_itself_are_definitions_stored(
    *, definitions: bool
) -> None:
    unit = node_agent_unit(COBALT, "kvm-1", definitions=definitions)
    assert ("--store-definitions" in unit) is definitions


def test_agents_of_a_lab_whose_waits_are_short_have_a_short_lease() -> None:
    units = (node_agent_unit, ovs_agent_unit)
    for unit in units:
        assert "--lease-duration 16s" in unit(COBALT, "kvm-1", lease=SHORT_LEASE)
        assert "--lease-duration" not in unit(COBALT, "kvm-1")


def test_lease_is_short_in_quick_labs_where_no_nova_has_to_miss_a_host_within_it() -> None:
    patient = records.new(0, records.NODE_GRACE)
    quick = records.new(0, timedelta(seconds=4))
    with_nova = msgspec.structs.replace(quick, openstack="/programs")
    leases = [lease_of(state) for state in (patient, quick, with_nova)]
    assert leases == [LEASE, SHORT_LEASE, LEASE]
