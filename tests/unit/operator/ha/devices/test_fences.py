"""One attempt to switch a host off."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import (
    Cuts,
    FenceDevice,
    FenceError,
    FenceFailure,
    PowerState,
)
from hypercobalt.compute.leadership import unguarded
from hypercobalt.errors import TransientError
from hypercobalt.ha.host_failure.fencing_record import DeviceAnswer
from hypercobalt.operator.ha.devices.fences import (
    give_back,
    power_cycle,
    read_off,
    read_state,
    switch_off,
)

S = timedelta(seconds=1)


class Lying(FakeFenceDevice):
    """A device that takes the order, and reports the power on."""

    async def off(self, *, within: timedelta) -> None:
        self.orders.append(PowerState.OFF)


def broken(alternative: str = "") -> FakeFenceDevice:
    device = FakeFenceDevice("bmc 1", alternative=alternative)
    device.failure = FenceError("bmc 1: unreachable", FenceFailure.FAILED)
    return device


@pytest.mark.parametrize(
    ("devices", "off", "text", "orders"),
    [
        pytest.param(
            [FakeFenceDevice("bmc 1")], True, "bmc 1 has switched the power off", [1], id="is on"
        ),
        pytest.param(
            [FakeFenceDevice("bmc 1", PowerState.OFF)],
            True,
            "off already",
            [0],
            id="off already",
        ),
        pytest.param([broken()], False, "bmc 1: unreachable", [0], id="unreachable"),
        pytest.param(
            [broken("bmc"), FakeFenceDevice("pdu 2", alternative="pdu")],
            True,
            "pdu 2 has",
            [0, 1],
            id="an alternative does",
        ),
        pytest.param(
            [FakeFenceDevice("feed-a"), FakeFenceDevice("feed-b")],
            True,
            "feed-a has switched the power off and reports it off; feed-b has switched the power",
            [1, 1],
            id="both feeds",
        ),
        pytest.param(
            [FakeFenceDevice("feed-a"), broken()],
            False,
            "feed-a has switched the power off and reports it off; bmc 1: unreachable",
            [1, 0],
            id="one feed of two",
        ),
        pytest.param(
            [
                broken("bmc"),
                FakeFenceDevice("feed-a", alternative="pdu"),
                FakeFenceDevice("feed-b", alternative="pdu"),
            ],
            True,
            "feed-b has switched the power off",
            [0, 1, 1],
            id="an alternative of two feeds",
        ),
        pytest.param(
            [Lying("bmc 1", alternative="bmc"), FakeFenceDevice("pdu 2", alternative="pdu")],
            True,
            "pdu 2 has switched the power off and reports it off",
            [1, 1],
            id="an alternative of a device that does nothing",
        ),
        pytest.param([Lying("bmc 1")], False, "but reports it on", [1], id="stays on"),
        pytest.param([], False, "no fence device is set up", [], id="none"),
    ],
)
async def test_host_counts_as_off_only_when_a_device_reads_it_so(
    devices: list[FakeFenceDevice], off: bool, text: str, orders: list[int]
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    answer = await switch_off(given, Cuts.POWER, 10 * S, unguarded)
    assert answer.off is off
    assert text in answer.text
    assert [len(one.orders) for one in devices] == orders
    assert answer.already is (off and not any(orders))


def refusing(name: str = "feed-b") -> FakeFenceDevice:
    device = FakeFenceDevice(name)
    device.failure = FenceError(f"{name}: 401", FenceFailure.REFUSED)
    return device


class Deaf(FakeFenceDevice):
    """A device that reports its state, and does not answer orders."""

    async def off(self, *, within: timedelta) -> None:
        self.orders.append(PowerState.OFF)
        raise FenceError(f"{self.name}: no answer", FenceFailure.TIMED_OUT)


@pytest.mark.parametrize(
    ("devices", "late", "refused"),
    [
        pytest.param([refusing()], False, "feed-b: 401", id="refused at the first reading"),
        pytest.param([broken()], False, "", id="not reached"),
        pytest.param([Deaf("feed-a")], True, "", id="an order without an answer"),
        pytest.param([Lying("bmc 1")], True, "", id="an order without effect"),
        pytest.param(
            [FakeFenceDevice("feed-a"), refusing()], False, "feed-b: 401", id="one feed is off"
        ),
        pytest.param([Deaf("feed-a", alternative="a"), refusing()], True, "feed-b: 401", id="both"),
    ],
)
async def test_failed_attempt_names_what_is_refused_and_whether_an_order_may_act(
    devices: list[FakeFenceDevice], late: bool, refused: str
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    answer = await switch_off(given, Cuts.POWER, 10 * S, unguarded)
    assert (answer.off, answer.acts_late, answer.refused) == (False, late, refused)


@pytest.mark.parametrize(
    ("devices", "off", "text", "orders"),
    [
        pytest.param(
            [FakeFenceDevice("san 1"), FakeFenceDevice("san 2", PowerState.OFF)],
            True,
            "san 1 has switched the access to the storage off and reports it off; "
            "san 2 reports that the access to the storage is off already",
            [1, 0],
            id="both paths",
        ),
        pytest.param(
            [FakeFenceDevice("san 1"), broken()], False, "bmc 1: unreachable", [1, 0], id="only one"
        ),
        pytest.param(
            [broken(), FakeFenceDevice("san 2")], False, "bmc 1: unreachable", [0, 0], id="none"
        ),
        pytest.param([Lying("san 1")], False, "but reports it on", [1], id="stays open"),
        pytest.param([], False, "no fence device is set up", [], id="no device"),
    ],
)
async def test_host_is_cut_off_from_its_storage_where_every_device_reads_it_so(
    devices: list[FakeFenceDevice], off: bool, text: str, orders: list[int]
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    answer = await switch_off(given, Cuts.STORAGE, 10 * S, unguarded)
    assert answer.off is off
    assert text in answer.text
    assert [len(one.orders) for one in devices] == orders


def off(name: str, alternative: str, connection: str = "") -> FakeFenceDevice:
    device = FakeFenceDevice(name, PowerState.OFF, alternative=alternative)
    device.connection = connection or name
    return device


@pytest.mark.parametrize(
    ("devices", "second"),
    [
        pytest.param([off("bmc", "bmc")], "", id="one way"),
        pytest.param(
            [off("bmc", "bmc"), off("pdu", "pdu")],
            "pdu reports that the power is off, too",
            id="two ways",
        ),
        pytest.param(
            [off("redfish", "redfish", "192.0.2.1"), off("ipmi", "ipmi", "192.0.2.1")],
            "",
            id="one device by two protocols",
        ),
        pytest.param(
            [off("bmc", "bmc", "192.0.2.1"), off("a", "pdu", "192.0.2.1"), off("b", "pdu")],
            "",
            id="a way that shares a device",
        ),
        pytest.param(
            [off("bmc", "bmc"), off("a", "pdu"), FakeFenceDevice("b", alternative="pdu")],
            "",
            id="a second way with a feed that is on",
        ),
        pytest.param([off("bmc", "pdu"), broken("bmc")], "", id="a second way that is silent"),
        pytest.param([off("a", ""), off("b", "")], "", id="two feeds are one way"),
    ],
)
async def test_second_way_confirms_a_proof_where_all_of_it_is_off_by_itself(
    devices: list[FakeFenceDevice], second: str
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    answer = await switch_off(given, Cuts.POWER, 10 * S, unguarded)
    assert (answer.off, answer.second) == (True, second)


class StaysOff(FakeFenceDevice):
    """A device that takes the order to switch on, and reports the power off."""

    async def on(self, *, within: timedelta) -> None:
        self.orders.append(PowerState.ON)


@pytest.mark.parametrize(
    ("devices", "problem", "orders"),
    [
        pytest.param([FakeFenceDevice("bmc")], "", ["off on"], id="one device"),
        pytest.param(
            [FakeFenceDevice("a"), FakeFenceDevice("b")], "", ["off on", "off on"], id="two feeds"
        ),
        pytest.param(
            [FakeFenceDevice("bmc", alternative="bmc"), FakeFenceDevice("a", alternative="pdu")],
            "",
            ["off on", ""],
            id="one of two alternatives",
        ),
        pytest.param(
            [off("bmc", "")], "bmc does not report the power as on, though", [""], id="it lies"
        ),
        pytest.param(
            [FakeFenceDevice("a"), off("b", "")], "a, b does not report", ["", ""], id="one lies"
        ),
        pytest.param([broken()], "bmc 1 does not report", [""], id="it is silent"),
        pytest.param([], "none does not report", [], id="there is none"),
        pytest.param([Lying("bmc")], "not every device reports", ["off"], id="it does nothing"),
        pytest.param([StaysOff("bmc")], "the host is off: ", ["off on"], id="it stays off"),
    ],
)
async def test_host_is_rebooted_by_devices_that_report_its_power_as_it_is(
    devices: list[FakeFenceDevice], problem: str, orders: list[str]
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    found = await power_cycle(given, 10 * S, unguarded)
    assert found.problem.startswith(problem) if problem else not found.problem
    assert [" ".join(one.orders) for one in devices] == orders
    assert found.ordered is any(orders)


class OnAgain(FakeFenceDevice):
    """An outlet that is switched on again once the other one is off."""

    def __init__(self, other: FakeFenceDevice) -> None:
        super().__init__("feed-a")
        self._other = other

    async def power(self, *, within: timedelta) -> PowerState:
        if self._other.state is PowerState.OFF:
            self.state = PowerState.ON
        return await super().power(within=within)


async def test_feed_that_comes_on_again_before_the_other_is_off_leaves_no_proof() -> None:
    other = FakeFenceDevice("feed-b")
    given: list[tuple[FenceDevice, timedelta]] = [(OnAgain(other), S), (other, S)]
    answer = await switch_off(given, Cuts.POWER, 10 * S, unguarded)
    assert not answer.off
    assert answer.text.endswith("read again, not every device reports the power as off")


def opened(state: PowerState = PowerState.OFF, alternative: str = "") -> FakeFenceDevice:
    return FakeFenceDevice("san 1", state, alternative=alternative)


class Stuck(FakeFenceDevice):
    """A device that takes the order, and reports the access off."""

    async def on(self, *, within: timedelta) -> None:
        self.orders.append(PowerState.ON)


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        pytest.param([opened(), opened(PowerState.ON)], "", id="all of them do"),
        pytest.param([opened(), broken()], "bmc 1: unreachable", id="one does not answer"),
        pytest.param(
            [Stuck("san 1", PowerState.OFF)], "but reports it off", id="one does not do it"
        ),
        pytest.param([], "no fence device is set up", id="there is none"),
    ],
)
async def test_host_has_its_storage_back_where_every_device_reads_it_so(
    devices: list[FakeFenceDevice], problem: str
) -> None:
    given: list[tuple[FenceDevice, timedelta]] = [(one, S) for one in devices]
    found = await give_back(given, 10 * S, unguarded)
    assert (problem in found) if problem else not found
    assert problem or all(one.state is PowerState.ON for one in devices)


async def test_process_that_does_not_lead_any_more_gives_nothing_back() -> None:
    def lost() -> None:
        raise TransientError("the lease is another's")

    device = opened()
    with pytest.raises(TransientError):
        await give_back([(device, S)], S, lost)
    assert device.orders == []


@pytest.mark.parametrize(
    ("cuts", "states", "expected"),
    [
        (Cuts.POWER, "on off", "on"),
        (Cuts.POWER, "off off", "off"),
        (Cuts.POWER, "none off", None),
        (Cuts.POWER, "bmc:none pdu:off", "off"),
        (Cuts.POWER, "bmc:off pdu:off pdu:none", "off"),
        (Cuts.POWER, "bmc:none pdu:off pdu:none", None),
        (Cuts.POWER, "bmc:off pdu:on", "off"),
        (Cuts.POWER, "bmc:off pdu:off pdu:on", "off"),
        (Cuts.POWER, "bmc:none pdu:off pdu:on", "on"),
        (Cuts.POWER, "none on", "on"),
        (Cuts.POWER, "none", None),
        (Cuts.POWER, "", None),
        (Cuts.STORAGE, "off off", "off"),
        (Cuts.STORAGE, "off on", "on"),
        (Cuts.STORAGE, "none on", "on"),
        (Cuts.STORAGE, "none off", None),
        (Cuts.STORAGE, "", None),
    ],
)
async def test_state_of_a_host_follows_from_all_its_devices(
    cuts: Cuts, states: str, expected: str | None
) -> None:
    found = [
        broken(way) if state == "none" else opened(PowerState(state), way)
        for way, _, state in (one.rpartition(":") for one in states.split())
    ]
    assert await read_state([(one, S) for one in found], cuts) == expected


@pytest.mark.parametrize(
    ("state", "off", "text"),
    [
        (PowerState.OFF, True, "bmc reports that the power is off already"),
        (PowerState.ON, False, "bmc reports the power as on, and kvm-b alone reports that"),
        (None, False, "bmc does not answer, and kvm-b alone reports that"),
    ],
)
async def test_host_that_one_peer_reaches_gets_no_order(
    state: PowerState | None, text: str, *, off: bool
) -> None:
    device = FakeFenceDevice("bmc", state=state or PowerState.ON)
    if state is None:
        device.failure = FenceError("away", FenceFailure.FAILED)
    found = await read_off([(device, S)], Cuts.POWER, S, "kvm-b")
    assert (found.off, found.text.startswith(text), device.orders) == (off, True, [])


async def test_reading_of_a_device_that_hangs_ends_in_time() -> None:
    found = await read_off([(Hung("bmc"), S)], Cuts.POWER, 0.05 * S, "kvm-b")
    assert found == DeviceAnswer(
        False,
        "bmc does not answer, and kvm-b alone reports that the host answers: no order",
        acts_late=False,
    )


async def test_process_that_does_not_lead_any_more_gives_no_order() -> None:
    device = FakeFenceDevice()

    def lost() -> None:
        raise TransientError("the lease is another's")

    with pytest.raises(TransientError):
        await switch_off([(device, S)], Cuts.POWER, S, lost)
    assert device.orders == []


class Hung(FakeFenceDevice):
    """A device that never answers."""

    async def power(self, *, within: timedelta) -> PowerState:
        del within
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.looptime
async def test_device_that_never_answers_is_no_proof_and_named_with_what_came_before() -> None:
    given = [(broken("bmc"), S), (Hung("pdu 2", alternative="pdu"), S)]
    answer = await switch_off(given, Cuts.POWER, 5 * S, unguarded)
    text = "bmc 1: unreachable; no answer within 5 s"
    assert answer == DeviceAnswer(False, text, acts_late=False)


class HungOn(FakeFenceDevice):
    """A device that never ends an order."""

    async def on(self, *, within: timedelta) -> None:
        del within
        await asyncio.Event().wait()


@pytest.mark.looptime
async def test_storage_device_that_never_answers_gives_nothing_back() -> None:
    hung = await give_back([(HungOn("san 1", PowerState.OFF), S)], 5 * S, unguarded)
    assert hung == "no answer within 5 s"
