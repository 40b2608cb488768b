"""One capture at a time on a host, and which errors are a person's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.unit.ovs_agent.diagnostics import networks
from tests.unit.ovs_agent.diagnostics.networks import facts, switch
from tests.unit.ovs_agent.switches import mirrored, without

from hypercobalt.adapters.capture import tcpdump
from hypercobalt.adapters.capture.filters import FilterError
from hypercobalt.adapters.capture.order import CaptureOrder
from hypercobalt.adapters.capture.pcap import CaptureError
from hypercobalt.adapters.ovs.links import Link
from hypercobalt.adapters.ovs.mirror_tags import EXPIRES, OWNER
from hypercobalt.adapters.ovs.mirrors import Mirrors
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import MirrorRow
from hypercobalt.agent.diagnostics.use import BusyError, RefusedUseError, Use, UseRequest
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.ovs_agent.diagnostics.captures import Captures, keep_swept
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.runtime import FakeClock, SystemClock
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.routes import Requester, Stream


class Tcpdump:
    """Stands in for the program: listens, or fails with an error."""

    def __init__(self, error: HypercobaltError | None = None) -> None:
        self.error, self.orders, self.ended = error, list[CaptureOrder](), 0

    async def capture(self, order: CaptureOrder) -> AsyncGenerator[bytes]:
        self.orders.append(order)
        try:
            if self.error is not None:
                raise self.error
            yield b""
            yield b"packet"
        finally:
            self.ended += 1


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Tcpdump:
    made = Tcpdump()
    monkeypatch.setattr(tcpdump, "capture", made.capture)
    return made


def offered(known: SwitchFacts | None = None) -> dict[str, Use]:
    fake = switch()
    fake.devices = {"tap1": Link("tap1", 7, admin_up=True, is_tap=True)}
    captures = Captures(
        lambda: known or facts(),
        fake,
        Mirrors(Path("/nonexistent/db.sock"), "kvm-1"),
        SystemClock(),
        by_mirror=False,
    )
    return {one.name: one for one in captures.uses()}


async def begun(use: Use, port: str = "tap1") -> Stream:
    answer = await use.handle(UseRequest({"port": port, "filter": "icmp"}, b"", Requester("jane")))
    assert isinstance(answer, Stream)
    return answer


def test_capture_of_a_port_of_no_instance_has_a_right_of_its_own() -> None:
    assert {(one.name, one.method, one.right) for one in offered().values()} == {
        ("capture", "POST", "capture"),
        ("capture-uplink", "POST", "capture-uplink"),
    }


async def test_a_second_capture_waits_for_the_end_of_the_first(program: Tcpdump) -> None:
    uses = offered()
    first = await begun(uses["capture"])
    for other in uses.values():
        with pytest.raises(BusyError, match="port tap1 is being captured; one capture at a time"):
            await begun(other)
    await first.chunks.aclose()
    assert program.ended == 1
    second = await begun(uses["capture-uplink"])
    assert [chunk async for chunk in second.chunks] == [b"packet"]
    assert [order.device for order in program.orders] == ["tap1", "tap1"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (FilterError("filter 'x': syntax error"), RefusedUseError),
        (CaptureError("tcpdump is not installed"), CaptureError),
    ],
)
async def test_a_capture_that_does_not_start_frees_the_host(
    program: Tcpdump, error: HypercobaltError, raised: type[HypercobaltError]
) -> None:
    use, program.error = offered()["capture"], error
    with pytest.raises(raised, match=re.escape(str(error))):
        await begun(use)
    program.error = None
    await (await begun(use)).chunks.aclose()


async def test_a_port_that_is_not_there_is_refused_and_holds_nothing(program: Tcpdump) -> None:
    use = offered()["capture"]
    with pytest.raises(RefusedUseError, match=r"no such port; ports of instances: .*tap1"):
        await begun(use, "tap77")
    assert program.orders == []


async def test_without_ovsdb_no_port_is_known(program: Tcpdump) -> None:
    with pytest.raises(TransientError, match="ovsdb-server does not answer"):
        await begun(offered(SwitchFacts())["capture"])
    assert program.orders == []


class Left(Mirrors):
    """Mirrors that are removed when they have expired; `faults` sweeps fail before that."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Path("/nonexistent/db.sock"), "kvm-1")
        self.clock, self.expiry, self.faults = clock, dict[str, float](), 0
        self.swept: list[float] = []
        self.facts = Observable(facts())

    async def sweep(self, now: float) -> float | None:
        self.swept.append(self.clock.monotonic())
        if self.faults:
            self.faults -= 1
            raise SwitchError(ProducerFault.TIMEOUT, "ovsdb-server does not answer")
        for name in [name for name, expires in self.expiry.items() if expires <= now]:
            self.remove(name)
        return min(self.expiry.values(), default=None)

    def add(self, name: str, seconds: float) -> None:
        self.expiry[name] = self.clock.now().timestamp() + seconds
        self._push()

    def remove(self, name: str) -> None:
        del self.expiry[name]
        self._push()

    def _push(self) -> None:
        rows = (
            MirrorRow(name, name, external_ids={OWNER: "kvm-1", EXPIRES: f"{expires:.0f}"})
            for name, expires in self.expiry.items()
        )
        self.facts.set(facts(mirrored(networks.rows(), "br-int", *rows)))


@asynccontextmanager
async def swept(kind: type[Left] = Left) -> AsyncGenerator[Left]:
    clock = FakeClock(source=asyncio.get_running_loop().time)
    left = kind(clock)
    task = asyncio.create_task(keep_swept(left, left.facts, clock))
    try:
        yield left
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.looptime
async def test_mirror_that_its_capture_could_not_remove_goes_at_its_expiry() -> None:
    async with swept() as left:
        await asyncio.sleep(100)
        left.add("m1", 70)
        await asyncio.sleep(69)
        assert list(left.expiry) == ["m1"]
        await asyncio.sleep(2)
        assert left.expiry == {}


@pytest.mark.looptime
async def test_sweep_is_repeated_until_ovsdb_server_answers() -> None:
    async with swept() as left:
        left.faults = 3
        left.add("m1", -1)
        await asyncio.sleep(14)
        assert list(left.expiry) == ["m1"]
        await asyncio.sleep(2)
        assert left.expiry == {}


@pytest.mark.looptime
async def test_mirrors_are_not_swept_while_no_capture_makes_rows() -> None:
    async with swept() as left:
        await asyncio.sleep(1)
        for _ in range(50):
            left.facts.set(facts())
            await asyncio.sleep(10)
        assert left.swept == [0.0]


@pytest.mark.looptime
async def test_mirror_that_never_goes_is_swept_once_a_second_at_most() -> None:
    class Stuck(Left):
        def remove(self, name: str) -> None:
            """Leave it."""

    async with swept(Stuck) as left:
        left.add("m1", -1)
        await asyncio.sleep(100)
        assert len(left.swept) <= 102


@pytest.mark.looptime
async def test_mirrors_are_not_swept_while_ovsdb_server_is_away() -> None:
    async with swept() as left:
        await asyncio.sleep(1)
        left.facts.set(without(facts(), "database"))
        await asyncio.sleep(1000)
        assert left.swept == [0.0]
