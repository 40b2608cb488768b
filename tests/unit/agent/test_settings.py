"""The duration of an agent's Lease is bounded, whichever agent it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hypercobalt.agent.lease import LOOK
from hypercobalt.agent.settings import LONGEST_LEASE, SHORTEST_LEASE, lease_duration
from hypercobalt.cli.node_agent import NodeAgentFlags
from hypercobalt.cli.ovs_agent import OVSAgentFlags
from hypercobalt.errors import ConfigurationError
from hypercobalt.operator.agents import leases

A_MOMENT = timedelta(milliseconds=1)


@pytest.mark.parametrize("given", [SHORTEST_LEASE - A_MOMENT, LONGEST_LEASE + A_MOMENT])
def test_a_lease_too_short_or_too_long_is_refused_with_the_flag_and_the_limits(
    given: timedelta,
) -> None:
    for agent in (NodeAgentFlags, OVSAgentFlags):
        with pytest.raises(ConfigurationError, match=r"--lease-duration .*s: must be 8 to 600 s"):
            agent(lease_duration=given).settings({}, "kvm-1")


def test_the_limits_leave_time_to_try_again_and_are_counted_by_the_operator() -> None:
    assert lease_duration(SHORTEST_LEASE) >= 4 * LOOK
    assert lease_duration(LONGEST_LEASE) <= leases.LONGEST
