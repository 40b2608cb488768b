"""Calls to OpenStack of a leader that has lost its lease."""

from __future__ import annotations

import pytest
from tests.integration.compute.conftest import Adapter

from hypercobalt.errors import TransientError


class Lease:
    """A lease that this process holds until it is lost."""

    held = True

    def __call__(self) -> None:
        if not self.held:
            raise TransientError("the lease is another's")


async def test_a_process_that_may_not_act_reads_and_changes_nothing(adapter: Adapter) -> None:
    adapter.guard = lease = Lease()
    lease.held = False
    nova, script = adapter.nova(), adapter.simulation.script
    host = await nova.hosts.get("node1")
    assert host is not None
    for _ in range(10):  # no fault of Nova's, for a circuit breaker to count
        with pytest.raises(TransientError, match="another's"):
            await nova.hosts.disable(host, "stale")
    assert await nova.hosts.get("node1", fresh=True) == host
    assert adapter.simulation.world.hosts["node1"].enabled
    assert script.count("compute PUT /os-services/{id}") == 0
    assert nova.trouble == ""


async def test_a_lease_that_is_lost_while_a_token_is_fetched_stops_the_call(
    adapter: Adapter,
) -> None:
    adapter.guard = lease = Lease()
    nova, script = adapter.nova(), adapter.simulation.script
    host = await nova.hosts.get("node1")
    assert host is not None
    adapter.simulation.tokens.revoke_all()
    script.before("identity POST /auth/tokens", lambda _: setattr(lease, "held", False))
    with pytest.raises(TransientError, match="another's"):
        await nova.hosts.disable(host, "stale")
    assert adapter.simulation.world.hosts["node1"].enabled
