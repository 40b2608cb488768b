"""Which refusals of locks are read of a host that counts as dead."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.ha.made import DOWN, S, hypervisor
from tests.unit.operator.samples import NOW

from hypercobalt.api.fencing import Fencing, FencingMethod
from hypercobalt.compute.errors import UnreachableError
from hypercobalt.compute.model import Move, MoveKind
from hypercobalt.compute.port import ComputeService
from hypercobalt.ha.host_failure.doubts import LockRefusal, held, unconfirmed
from hypercobalt.operator.ha.observing.locks import lock_refusals

WHY = 'Failed to get "write" lock'


class Compute:
    """The moves away from one host, newest first; None: they cannot be read."""

    def __init__(self, found: tuple[Move, ...] | None, *, counts: bool = False) -> None:
        self.found, self.counts_servers = found, counts
        self.service = cast("ComputeService", self)

    @property
    def moves(self) -> Moves:
        return Moves(self.found)


class Moves:
    def __init__(self, found: tuple[Move, ...] | None) -> None:
        self.found = found

    async def moves(self, host: str) -> tuple[Move, ...]:
        assert host == "kvm-a"
        if self.found is None:
            raise UnreachableError("503")
        return self.found


def tried(seconds: int, target: str, *, status: str = "error", in_use: bool = True) -> Move:
    at = NOW + seconds * S
    return Move(
        f"{target}-{seconds}", "vm-1", MoveKind.EVACUATION, status, "kvm-a", target,
        created=at, updated=at, message=WHY, in_use=in_use,
    )  # fmt: skip


REFUSED = (tried(190, "kvm-c"), tried(130, "kvm-b"))


@pytest.mark.parametrize(
    "fencing",
    [
        pytest.param(None, id="not fenced"),
        pytest.param(replace(DOWN, livesSince=NOW), id="not dead any more"),
        pytest.param(replace(DOWN, confirmedBy="pdu"), id="dead by two ways"),
        pytest.param(replace(DOWN, method=FencingMethod.EXTERNAL), id="dead by a person's word"),
        pytest.param(replace(DOWN, fencedAt=None), id="of a record without a time"),
    ],
)
async def test_locks_are_read_only_of_a_host_that_one_device_alone_has_proven_dead(
    fencing: Fencing | None,
) -> None:
    assert await lock_refusals(hypervisor(fencing), Compute(REFUSED).service) == ()


async def test_service_that_gives_no_reason_or_no_answer_shows_no_lock() -> None:
    stored = hypervisor(DOWN)
    assert await lock_refusals(stored, Compute(REFUSED, counts=True).service) == ()
    assert await lock_refusals(stored, Compute(None).service) == ()


async def test_refusals_of_all_targets_count_until_the_instance_was_started() -> None:
    """Also while another attempt is under way, and after one that has failed otherwise."""
    stored = hypervisor(DOWN)
    expected = tuple(
        LockRefusal("vm-1", target, seconds * S, WHY)
        for seconds, target in ((190, "kvm-c"), (130, "kvm-b"))
    )
    for later in ((), (tried(250, "kvm-b", status="running", in_use=False),)):
        assert await lock_refusals(stored, Compute((*later, *REFUSED)).service) == expected
    failed = tried(250, "kvm-b", in_use=False)
    found = await lock_refusals(stored, Compute((failed, *REFUSED)).service)
    assert (bool(held(found)), unconfirmed(found)) == (True, None)
    started = tried(250, "kvm-b", status="done", in_use=False)
    assert await lock_refusals(stored, Compute((started, *REFUSED)).service) == ()


async def test_target_that_alone_refuses_leaves_the_proof() -> None:
    found = await lock_refusals(hypervisor(DOWN), Compute(REFUSED[1:]).service)
    assert held(found) == ()
    assert unconfirmed(found) == LockRefusal("vm-1", "kvm-b", 130 * S, WHY)
