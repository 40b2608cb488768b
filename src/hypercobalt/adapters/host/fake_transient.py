"""Transient units that live in memory, for tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from signal import SIGKILL, SIGTERM
from typing import Final

from hypercobalt.adapters.host.fake_service import FakeService
from hypercobalt.adapters.host.model import check_unit_name
from hypercobalt.adapters.host.port import JOB_DEADLINE, HostError
from hypercobalt.adapters.host.transient_model import (
    NOT_EXECUTED,
    TransientUnit,
    UnitExistsError,
    UnitRun,
)

_FIRST_PID: Final = 1000


class FakeTransientUnits(FakeService):
    """Units whose programs run until a test or `remove` ends them.

    Attributes:
        units: by name, as they were started; removed ones are not among them.
        on_start: gives the exit code with which a program ends at once, one of NOT_EXECUTED
            for one that cannot be executed, None for one that runs on.
        on_reload: gives the exit code with which a program ends by its reload command; None: it
            runs on.
        on_stop: gives the exit code of a program that is stopped; None: SIGTERM ends it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.units: dict[str, TransientUnit] = {}
        self.on_start: Callable[[TransientUnit], int | None] = lambda _: None
        self.on_reload: Callable[[TransientUnit], int | None] = lambda _: None
        self.on_stop: Callable[[TransientUnit], int | None] = lambda _: None
        self._runs: dict[str, UnitRun] = {}
        self._last_pid = _FIRST_PID

    def end(self, name: str, *, exit_code: int | None = None, signal: int | None = None) -> None:
        """Have a running program end."""
        result = "signal" if signal is not None else "exit-code" if exit_code else "success"
        self._runs[name] = replace(
            self._runs[name],
            active="active" if result == "success" else "failed",
            sub="exited" if result == "success" else "failed",
            pid=0,
            result=result,
            exit_code=exit_code,
            signal=signal,
            ended=datetime.now(UTC),
        )
        self._notify()

    async def start(self, unit: TransientUnit, *, deadline: timedelta = JOB_DEADLINE) -> None:
        del deadline
        self._check()
        if unit.name in self._runs:
            raise UnitExistsError(f"unit {unit.name} exists; remove it first")
        self._last_pid += 1
        now = datetime.now(UTC)
        run = UnitRun(
            name=unit.name, active="active", sub="running", pid=self._last_pid, started=now
        )
        self.units[unit.name], self._runs[unit.name] = unit, run
        self._notify()
        code = self.on_start(unit)
        if code is not None:
            self.end(unit.name, exit_code=code)
        if code in NOT_EXECUTED:
            raise HostError(f"StartTransientUnit {unit.name}: the job ended with failed")

    async def kill(self, name: str) -> None:
        check_unit_name(name)
        self._check()
        run = self._runs.get(name)
        if run and not run.over:
            self.end(name, signal=SIGKILL)

    async def reload(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> None:
        del deadline
        check_unit_name(name)
        self._check()
        run = self._runs.get(name)
        if run is None or run.over:
            return
        if not self.units[name].reload_command:
            raise HostError(f"ReloadUnit {name}: the unit has no reload command")
        code = self.on_reload(self.units[name])
        if code is not None:
            self.end(name, exit_code=code)

    async def remove(self, name: str, *, deadline: timedelta = JOB_DEADLINE) -> UnitRun | None:
        del deadline
        check_unit_name(name)
        self._check()
        run = self._runs.get(name)
        if run is None:
            return None
        if not run.over:
            code = self.on_stop(self.units[name])
            self.end(name, exit_code=code, signal=SIGTERM if code is None else None)
        del self.units[name]
        run = self._runs.pop(name)
        self._notify()
        clean = run.signal == SIGTERM  # systemd.service(5): no failure
        return replace(run, active="inactive", result="success") if clean else run

    def watch(self, prefix: str) -> AsyncGenerator[tuple[UnitRun, ...] | HostError]:
        check_unit_name(f"{prefix}.service")
        return self._each(lambda: self._away or self._named(prefix))

    def _named(self, prefix: str) -> tuple[UnitRun, ...]:
        named = sorted(name for name in self._runs if name.startswith(prefix))
        return tuple(self._runs[name] for name in named)
