"""One attempt to switch a host off, and the devices that a host has."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import cast

import pytest
from tests.unit.operator.samples import node

from hypercobalt.adapters.fencing.devices import Device, parse
from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import (
    Credentials,
    Cuts,
    FenceDevice,
    FenceError,
    FenceFailure,
    PowerState,
)
from hypercobalt.api.core import Secret
from hypercobalt.compute.leadership import unguarded
from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.ha.fencing_record import Answer
from hypercobalt.operator.ha.fences import (
    Setup,
    TemplateFences,
    give_back,
    read_state,
    switch_off,
)
from hypercobalt.runtime import Kube

S = timedelta(seconds=1)
TEMPLATES = parse(
    """
devices:
- {name: bmc, agent: fence_redfish, parameters: {ip: "{labels[bmc]}"}, secret: "bmc-{name}"}
"""
)


class Lying(FakeFenceDevice):
    """A device that takes the order, and reports the power on."""

    async def off(self, *, within: timedelta) -> None:
        self.orders.append(PowerState.OFF)


def broken() -> FakeFenceDevice:
    device = FakeFenceDevice("bmc 1")
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
            [broken(), FakeFenceDevice("pdu 2")], True, "pdu 2 has", [0, 1], id="the next one does"
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


def opened(state: PowerState = PowerState.OFF) -> FakeFenceDevice:
    return FakeFenceDevice("san 1", state)


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
        (Cuts.POWER, "on off", "off"),
        (Cuts.POWER, "none off", "off"),
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
    found = [broken() if one == "none" else opened(PowerState(one)) for one in states.split()]
    assert await read_state([(one, S) for one in found], cuts) == expected


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
    answer = await switch_off([(broken(), S), (Hung("pdu 2"), S)], Cuts.POWER, 5 * S, unguarded)
    assert answer == Answer(False, "bmc 1: unreachable; no answer within 5 s")


class HungOn(FakeFenceDevice):
    """A device that never ends an order."""

    async def on(self, *, within: timedelta) -> None:
        del within
        await asyncio.Event().wait()


class Secrets:
    """An API server with one Secret."""

    def __init__(self, data: dict[str, bytes] | None) -> None:
        self._data = data

    async def get(self, _type: type[Secret], name: str, namespace: str) -> Secret | None:
        assert (name, namespace) == ("bmc-kvm-a", "fencing")
        return Secret(data=self._data) if self._data is not None else None


def fences(data: dict[str, bytes] | None, given: list[Credentials]) -> TemplateFences:
    def opened(device: Device, credentials: Credentials) -> FenceDevice:
        given.append(credentials)
        return FakeFenceDevice(device.title)

    return TemplateFences(TEMPLATES, cast("Kube", Secrets(data)), "fencing", opened)


async def test_devices_of_a_host_have_their_credentials_from_its_secret() -> None:
    given: list[Credentials] = []
    found = fences({"username": b"ops", "password": b"secret"}, given)
    host = node(labels={"bmc": "192.0.2.9"})
    assert found.setup(host).power.devices == "bmc 192.0.2.9"
    assert found.setup(host).power.lasts == 100 * S  # and to read the power before and after
    ((device, within),) = await found.devices(host, Cuts.POWER)
    assert (device.name, within, given[0].username) == ("bmc 192.0.2.9", 60 * S, "ops")


async def test_missing_secret_is_named() -> None:
    with pytest.raises(ConfigurationError, match="Secret fencing/bmc-kvm-a does not exist"):
        await fences(None, []).devices(node(labels={"bmc": "192.0.2.9"}), Cuts.POWER)


def test_host_that_no_template_fits_cannot_be_fenced() -> None:
    assert "has no label bmc" in fences(None, []).setup(node()).problem
    none = TemplateFences((), cast("Kube", None), "", lambda *_: FakeFenceDevice())
    assert "no template" in none.setup(node()).problem
    assert Setup(problem="none").power.lasts == timedelta(0)


@pytest.mark.looptime
async def test_storage_device_that_never_answers_gives_nothing_back() -> None:
    hung = await give_back([(HungOn("san 1", PowerState.OFF), S)], 5 * S, unguarded)
    assert hung == "no answer within 5 s"


async def test_devices_of_one_kind_are_given_by_it() -> None:
    san = parse(
        """
devices:
- {name: bmc, agent: fence_redfish, parameters: {ip: 192.0.2.9}}
- {name: san, agent: fence_brocade, cuts: storage, parameters: {ip: 192.0.2.8}, timeoutSeconds: 9}
"""
    )
    found = TemplateFences(san, cast("Kube", None), "", lambda one, _: FakeFenceDevice(one.title))
    setup = found.setup(node())
    assert (setup.storage.devices, setup.storage.lasts) == ("san 192.0.2.8", 49 * S)
    assert setup.power.devices == "bmc 192.0.2.9"
    ((device, within),) = await found.devices(node(), Cuts.STORAGE)
    assert (device.name, within) == ("san 192.0.2.8", 9 * S)


def test_attempt_lasts_as_long_as_all_devices_of_the_host_may() -> None:
    two = parse(
        """
devices:
- {name: bmc, agent: fence_redfish, parameters: {ip: 192.0.2.9}, timeoutSeconds: 30}
- {name: pdu, agent: fence_apc_snmp, parameters: {ip: 192.0.2.10}, timeoutSeconds: 10}
"""
    )
    found = TemplateFences(two, cast("Kube", None), "", lambda *_: FakeFenceDevice())
    assert found.setup(node()).power.lasts == (30 + 40 + 10 + 40) * S
