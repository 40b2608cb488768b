"""The power of hosts that count as dead, read again before more is begun by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.ha.made import DOWN, hypervisor
from tests.unit.operator.samples import NOW

from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import (
    Cuts,
    FenceDevice,
    FenceError,
    FenceFailure,
    PowerState,
)
from hypercobalt.api.core import Node, NodeStatus, NodeSystemInfo
from hypercobalt.api.fencing import ASSERTED_DEAD, Fencing, FencingMethod
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.recovery import Recovery, RecoveryPhase
from hypercobalt.ha.host_failure.doubts import PowerReport
from hypercobalt.ha.host_failure.facts import FenceSetup
from hypercobalt.operator.ha.devices.power import PowerReader
from hypercobalt.operator.shared.proofs import Proofs
from hypercobalt.runtime import Cache, FakeClock, Kube
from hypercobalt.runtime.write_cache import WriteCache

pytestmark = pytest.mark.asyncio

BY_AGENT = replace(DOWN, method=FencingMethod.AGENT)
AWAY = FenceError("bmc: no route to host", FenceFailure.FAILED)


class Counting(FakeFenceDevice):
    """Counts its calls."""

    reads = 0

    async def power(self, *, within: timedelta) -> PowerState:
        self.reads += 1
        return await super().power(within=within)


@dataclass
class Site:
    """One host, its device, and what the API has of it."""

    hypervisor: Hypervisor
    device: Counting = field(default_factory=lambda: Counting("bmc", PowerState.OFF))
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    requested: list[Cuts] = field(default_factory=list[Cuts])

    def __post_init__(self) -> None:
        self.power = PowerReader(
            self, cast(WriteCache[Hypervisor], self), cast(Cache[Node], {}), self.clock
        )

    def get(self, _: str) -> Hypervisor:
        return self.hypervisor

    def setup(self, node: Node) -> FenceSetup:
        raise NotImplementedError

    async def devices(self, node: Node, cuts: Cuts) -> Sequence[tuple[FenceDevice, timedelta]]:
        del node
        self.requested.append(cuts)
        return [(self.device, timedelta(seconds=60))]

    async def version(self, node: Node) -> str:
        raise NotImplementedError

    async def after(self, seconds: float) -> PowerReport:
        self.clock.advance(timedelta(seconds=seconds))
        return await self.power.of("kvm-a")


def site(fencing: Fencing | None = DOWN) -> Site:
    return Site(hypervisor(fencing, mode="ha"))


async def test_power_is_read_again_before_more_is_begun() -> None:
    dead = site()
    assert (await dead.after(15), dead.device.reads) == (PowerReport.OFF, 0), "just proven"
    assert (await dead.after(1), dead.device.reads) == (PowerReport.OFF, 1)
    assert (await dead.after(14), dead.device.reads) == (PowerReport.OFF, 1), "just read"
    dead.device.state = PowerState.ON
    assert await dead.after(2) is PowerReport.ON
    assert await dead.after(1) is PowerReport.ON, "for the next caller, too"
    dead.device.failure = AWAY
    assert await dead.after(16) is PowerReport.OFF, "it was read as off two minutes ago"
    reads = dead.device.reads
    assert (await dead.after(1), dead.device.reads) == (PowerReport.OFF, reads), (
        "left alone for a while"
    )
    assert await dead.after(120) is PowerReport.UNKNOWN
    dead.device.failure, dead.device.state = None, PowerState.OFF
    assert await dead.after(16) is PowerReport.OFF


async def test_new_proof_counts_from_its_own_time() -> None:
    dead = site()
    dead.device.state = PowerState.ON
    assert await dead.after(60) is PowerReport.ON
    again = replace(DOWN, fencedAt=NOW + timedelta(seconds=60))
    dead.hypervisor = hypervisor(again, mode="ha")
    assert await dead.after(0) is PowerReport.OFF


async def test_proof_ahead_of_a_clock_that_has_gone_back_is_read_again() -> None:
    dead = site(replace(DOWN, fencedAt=NOW + timedelta(hours=1)))
    dead.device.failure = AWAY
    assert await dead.after(0) is PowerReport.UNKNOWN


@pytest.mark.parametrize(
    ("fencing", "claimed", "power"),
    [
        pytest.param(None, False, PowerReport.OFF, id="no host that counts as dead"),
        pytest.param(
            replace(DOWN, method=FencingMethod.AGENT), False, PowerReport.OFF, id="by its agent"
        ),
        pytest.param(replace(DOWN, livesSince=NOW), False, PowerReport.OFF, id="it has shown life"),
        pytest.param(
            replace(DOWN, method=FencingMethod.EXTERNAL), False, PowerReport.ON, id="asserted"
        ),
        pytest.param(None, True, PowerReport.ON, id="to be asserted"),
    ],
)
async def test_power_is_read_only_of_a_host_that_counts_as_dead(
    fencing: Fencing | None, *, claimed: bool, power: PowerReport
) -> None:
    host = site(fencing)
    if claimed:
        meta = replace(host.hypervisor.metadata, annotations={ASSERTED_DEAD: "b1"})
        host.hypervisor = replace(host.hypervisor, metadata=meta)
    host.device.state = PowerState.ON
    assert await host.after(60) is power
    assert bool(host.device.reads) is (power is PowerReport.ON)


BY_STORAGE = replace(DOWN, method=FencingMethod.STORAGE, device="san", storageDevice="san")


async def test_storage_of_a_host_that_was_cut_off_is_read_until_it_is_back() -> None:
    """Its guests may run on, and could write to disks that other guests write by now."""
    dead = site(BY_STORAGE)
    assert await dead.after(15) is PowerReport.OFF, "just proven"
    assert (await dead.after(1), dead.device.reads) == (PowerReport.OFF, 1)
    assert dead.requested == [Cuts.STORAGE]
    status = replace(dead.hypervisor.status, recovery=Recovery(RecoveryPhase.RECOVERED))
    dead.hypervisor = replace(dead.hypervisor, status=status)
    dead.device.failure = AWAY
    assert await dead.after(600) is PowerReport.OFF, "nothing more is to be begun by it"
    dead.device.failure, dead.device.state = None, PowerState.ON
    assert await dead.after(16) is PowerReport.ON


async def test_storage_device_that_is_gone_confirms_nothing() -> None:
    dead = site(BY_STORAGE)
    dead.device.failure = AWAY
    assert await dead.after(121) is PowerReport.UNKNOWN


async def test_assertion_counts_where_no_device_answers() -> None:
    host = site(replace(DOWN, method=FencingMethod.EXTERNAL))
    host.device.failure = AWAY
    assert await host.after(600) is PowerReport.OFF


@dataclass
class Stored:
    """The objects of the API server."""

    hypervisor: Hypervisor | None
    boot: str = "b1"
    power: PowerReport = PowerReport.OFF

    async def get(self, kind: type[Node] | type[Hypervisor], _: str) -> object:
        if kind is Hypervisor:
            return self.hypervisor
        return Node(status=NodeStatus(nodeInfo=NodeSystemInfo(bootID=self.boot)))

    async def read(self, _: str) -> PowerReport:
        return self.power


def shown_only(hypervisor: Hypervisor) -> Hypervisor:
    """Return the Hypervisor without records: its status is not the operator's."""
    return replace(hypervisor, metadata=replace(hypervisor.metadata, annotations={}))


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        pytest.param(Stored(hypervisor(DOWN)), "", id="proven"),
        pytest.param(Stored(None), "is no longer proven dead", id="gone"),
        pytest.param(Stored(hypervisor(DOWN, boot="b2")), "about its last boot", id="booted"),
        pytest.param(
            Stored(shown_only(hypervisor(DOWN))), "operator has no record", id="its own word"
        ),
        pytest.param(Stored(hypervisor(DOWN), boot="b2"), "reported boot b2", id="a later kubelet"),
        pytest.param(
            Stored(hypervisor(DOWN), power=PowerReport.ON), "power as on", id="switched on"
        ),
        pytest.param(
            Stored(hypervisor(DOWN), power=PowerReport.UNKNOWN),
            "no longer confirms that",
            id="no answer",
        ),
    ],
)
async def test_contradicted_proof_starts_no_evacuation(stored: Stored, why: str) -> None:
    missing = await Proofs(cast(Kube, stored), stored.read).missing("kvm-a")
    assert (why in missing) if why else not missing


async def test_power_of_a_host_on_which_nothing_is_left_is_not_read() -> None:
    host = site()
    status = replace(host.hypervisor.status, recovery=Recovery(RecoveryPhase.RECOVERED))
    host.hypervisor = replace(host.hypervisor, status=status)
    host.device.state = PowerState.ON
    assert (await host.after(600), host.device.reads) == (PowerReport.OFF, 0)
