"""Transient units: the fake, and what is refused before systemd is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest
from dbus_fast import Message, MessageType
from tests.contracts.transient_units import (
    ABSENT,
    CONTRACTS,
    ENDS,
    ENDS_WHEN_RELOADED,
    ENDS_WHEN_STOPPED,
    FAILS,
    FAILS_WHEN_RELOADED,
)

from hypercobalt.adapters.host.bus import CALL_DEADLINE, Handler, Service
from hypercobalt.adapters.host.fake_transient import FakeTransientUnits
from hypercobalt.adapters.host.model import UnitNameError
from hypercobalt.adapters.host.port import HostError, TransientUnits
from hypercobalt.adapters.host.transient import _WatchedRuns, properties
from hypercobalt.adapters.host.transient_model import Setting, TransientUnit, UnitSettingError

RUNS = ("/bin/sleep", "infinity")


def units() -> FakeTransientUnits:
    made = FakeTransientUnits()
    ends = {ENDS: 0, FAILS: 3, ABSENT: 203}
    made.on_start = lambda unit: ends.get(unit.command)
    reloaded: dict[tuple[str, ...], int] = {ENDS_WHEN_RELOADED: 0, FAILS_WHEN_RELOADED: 3}
    made.on_reload = lambda unit: reloaded.get(unit.command)
    made.on_stop = lambda unit: 7 if unit.command == ENDS_WHEN_STOPPED else None
    return made


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
async def test_fake_transient_units_keep_the_contract(
    contract: Callable[[TransientUnits], Awaitable[None]],
) -> None:
    await contract(units())


async def test_a_fake_systemd_that_is_away_answers_nothing() -> None:
    fake = units()
    fake.leave()
    with pytest.raises(HostError):
        await fake.start(TransientUnit(name="a.service", command=RUNS))
    assert isinstance(await anext(fake.watch("a")), HostError)
    fake.come_back()
    assert await anext(fake.watch("a")) == ()


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"ExecStartPre": "x"}, "SIGNATURES"),
        ({"MemoryMax": -1}, "from 0 to"),
        ({"MemoryMax": 2**64}, "from 0 to"),
        ({"MemoryMax": True}, "from 0 to"),
        ({"KillSignal": 2**31}, "from 0 to"),
        ({"Delegate": 1}, "true or false"),
        ({"Slice": "a\0b"}, "NUL"),
        ({"Environment": "A=b"}, "texts"),
        ({"Environment": ("A=\0",)}, "texts"),
        ({"DeviceAllow": ("/dev/kvm",)}, "/dev/kvm rw"),
    ],
)
def test_a_setting_that_systemd_would_not_take_is_refused(
    settings: dict[str, Setting], shown: str
) -> None:
    with pytest.raises(UnitSettingError, match=shown):
        TransientUnit(name="a.service", command=RUNS, settings=settings)


@pytest.mark.parametrize("command", [(), ("sleep",), ("/bin/sleep", "a\0")])
def test_a_command_that_cannot_be_executed_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(UnitSettingError, match="command"):
        TransientUnit(name="a.service", command=command)
    if command:
        with pytest.raises(UnitSettingError, match="stop_command"):
            TransientUnit(name="a.service", command=RUNS, stop_command=command)
        with pytest.raises(UnitSettingError, match="reload_command"):
            TransientUnit(name="a.service", command=RUNS, reload_command=command)


def test_a_name_that_is_no_service_is_refused() -> None:
    with pytest.raises(UnitSettingError, match=r"must end with \.service"):
        TransientUnit(name="a.slice", command=RUNS)
    with pytest.raises(UnitNameError):
        TransientUnit(name="../a.service", command=RUNS)


def test_arguments_are_not_expanded_by_systemd() -> None:
    unit = TransientUnit(
        name="a.service",
        command=("/bin/echo", "$HOME"),
        settings={"DeviceAllow": ("/dev/kvm rw",), "MemoryMax": 1},
    )
    given = {str(name): value for name, value in properties(unit)}
    assert getattr(given["ExecStartEx"], "value", None) == [
        ["/bin/echo", ["/bin/echo", "$HOME"], ["no-env-expand"]]
    ]
    assert getattr(given["DeviceAllow"], "value", None) == [["/dev/kvm", "rw"]]


async def test_unit_that_starts_while_it_is_read_is_not_over() -> None:
    """Systemd's list is older than the properties that are read after it."""
    started = {
        "ActiveState": "active",
        "SubState": "running",
        "MainPID": 7,
        "Result": "success",
        "ExecMainStartTimestamp": 1_700_000_000_000_000,
    }
    watched = _WatchedRuns(_Systemd(listed=("inactive", "dead"), properties=started), "a*.service")

    (run,) = await watched.read()

    assert (run.active, run.sub, run.pid, run.over) == ("active", "running", 7, False)


async def test_unit_whose_listed_state_has_changed_is_read_again() -> None:
    systemd = _Systemd(
        listed=("active", "running"), properties={"ActiveState": "active", "SubState": "running"}
    )
    watched = _WatchedRuns(systemd, "a*.service")
    await watched.read()
    systemd.listed = ("failed", "failed")
    systemd.values = {
        "ActiveState": "failed",
        "SubState": "failed",
        "ExecMainCode": 2,
        "ExecMainStatus": 9,
        "ExecMainStartTimestamp": 1_700_000_000_000_000,
    }

    (run,) = await watched.read()

    assert (run.over, run.signal) == (True, 9)


class _Systemd(Service):
    """A systemd with one unit, that lists it in one state and shows it in another."""

    def __init__(self, *, listed: tuple[str, str], properties: dict[str, object]) -> None:
        self.listed, self.values = listed, properties

    async def call(
        self,
        path: str,
        method: str,
        signature: str = "",
        body: Sequence[object] = (),
        *,
        deadline: timedelta = CALL_DEADLINE,
    ) -> Message:
        row = ("a.service", "", "loaded", *self.listed, "", "/unit/a", 0, "", "/")
        return Message(
            message_type=MessageType.METHOD_RETURN,
            reply_serial=1,
            signature="a(ssssssouso)",
            body=[[row]],
        )

    async def properties(self, path: str, interface: str) -> dict[str, object]:
        return self.values

    async def listen(
        self,
        signal: str,
        *,
        path: str | None = None,
        arg: tuple[int, str] | None = None,
        handler: Handler | None = None,
    ) -> None:
        """Announce nothing."""
