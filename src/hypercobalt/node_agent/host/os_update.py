"""Installs the operating system version that `spec.version` names, by the host's systemd-sysupdate.

`is_due` decides whether an update is due; one attempt runs a unit of the host and judges its end.
A version has three attempts; another version, or none for a while, resets them. The agent never
writes the spec. After a restart the agent reads its progress from the status.

A reboot is requested only right after an installation. If the host comes up with the old version
again, it is not rebooted once more.

Source: kvm-node-agent, internal/controller (units, reasons, counters); systemd-sysupdate(8).
"""

from __future__ import annotations

import asyncio
import re
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.host.model import UnitState, check_unit_name
from hypercobalt.adapters.host.port import HostError, Units
from hypercobalt.api.conditions import Condition, ConditionStatus, get_condition
from hypercobalt.api.duration import short_duration
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, UpdateReason
from hypercobalt.api.hypervisor_host import HyperVisorUpdateStatus
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

LATEST: Final = "latest"
LATEST_UNIT: Final = "systemd-sysupdate.service"
REBOOT_UNIT: Final = "systemd-sysupdate-reboot.target"
ATTEMPTS: Final = 3
TIME_LIMIT: Final = timedelta(hours=1)
"""How long one attempt may take."""

PAUSE: Final = timedelta(seconds=30)
"""Time between attempts."""

UNKNOWN: Final = "unknown"
"""Value of `installed` before the first installation."""

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.^~+-]*", re.ASCII)
_ESCAPED = re.compile(r"[~^+]")  # allowed in versions, not in units' names
_CONDITION: Final = HypervisorConditionType.OPERATING_SYSTEM_UPDATE
_BUSY: Final = frozenset({"activating", "reloading", "deactivating", "refreshing"})


class VersionError(HypercobaltError, ValueError):
    """A version that cannot be part of a unit's name."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """How far the update to one version is.

    Args:
        version: the one that the counters are about; "" for none yet.
        retry: attempts that are left.
        installed: what was installed last, by this agent or its predecessor.
    """

    version: str = ""
    retry: int = ATTEMPTS
    in_progress: bool = False
    installed: str = UNKNOWN


def update_unit(version: str) -> str:
    """The unit that installs a version.

    Characters that versions may have and units' names may not are escaped as systemd does.

    Raises:
        VersionError: this cannot be a version.
    """
    if version == LATEST:
        return LATEST_UNIT
    escaped = _ESCAPED.sub(lambda found: rf"\x{ord(found[0]):02x}", version)
    unit = f"systemd-sysupdate@{escaped}.service"
    try:
        if not _VERSION.fullmatch(version):
            raise VersionError("a version begins with a letter or digit; then -._:+~^ may follow")
        check_unit_name(unit)
    except HypercobaltError as error:
        raise VersionError(f"no version: {error}") from error
    return unit


def recall(hypervisor: Hypervisor) -> Attempts:
    """How far the update is, by the status that was written last."""
    status = hypervisor.status.updateStatus or HyperVisorUpdateStatus()
    condition = get_condition(hypervisor.status.conditions, _CONDITION)
    return Attempts(
        version=status.version or _in_message(condition),
        retry=ATTEMPTS if status.retry is None else max(0, min(status.retry, ATTEMPTS)),
        in_progress=bool(status.inProgress),
        installed=status.installed or UNKNOWN,
    )


def _in_message(condition: Condition | None) -> str:
    """Where agents up to 0.1 have left the version."""
    return condition.message.partition(": ")[0] if condition else ""


def is_due(wanted: str, running: str | None, progress: Attempts) -> bool:
    """Whether an attempt should be made.

    Args:
        wanted: spec.version; "" for none.
        running: version of the running operating system; None: not known yet.
        progress: as far as known.
    """
    if not wanted or running is None or wanted in (running, progress.installed):
        return False
    # An attempt that was under way when the agent stopped is made again: to install what is
    # installed takes no time.
    return progress.version != wanted or progress.in_progress or progress.retry > 0


def is_busy(state: UnitState) -> bool:
    """Whether the unit is at work: a oneshot service activates, a simple one runs."""
    return state.active in _BUSY or (state.active, state.sub) == ("active", "running")


def judge(state: UnitState) -> str | None:
    """What is wrong with how an attempt's unit ended, None if nothing is."""
    if state.active == "failed":
        return f"{state.name} failed"
    if state.load != "loaded":
        return f"{state.name} is {state.load}"
    return None


class OsUpdate:
    """Keeps the operating system at the wanted version.

    Args:
        hypervisor: the own one.
        board: has the running version; gets the progress and the condition.
        pause: between attempts.
    """

    def __init__(
        self,
        units: Units,
        hypervisor: Latest[Hypervisor],
        board: Board,
        *,
        pause: timedelta = PAUSE,
        time_limit: timedelta = TIME_LIMIT,
    ) -> None:
        self._units, self._hypervisor, self._board = units, hypervisor, board
        self._pause, self._time_limit = pause, time_limit
        self._progress: Attempts | None = None

    async def run(self) -> None:
        """Update when it is due, until cancelled."""
        while True:
            hypervisor, parts = self._hypervisor.value, self._board.parts
            if hypervisor is None or not await self._act(hypervisor):
                await first(self._hypervisor.changed(hypervisor), self._board.changed(parts))

    async def _act(self, hypervisor: Hypervisor) -> bool:
        """Attempt an update if one is due; return whether there was an attempt."""
        progress = self._progress or recall(hypervisor)
        wanted, system = hypervisor.spec.version or "", self._board.parts.operating_system
        if not is_due(wanted, system.version if system else None, progress):
            if progress.in_progress:
                self._put(replace(progress, in_progress=False))
            return False
        if progress.version != wanted:
            progress = Attempts(wanted, installed=progress.installed)
        await self._attempt(progress)
        return True

    async def _attempt(self, progress: Attempts) -> None:
        version = progress.version
        try:
            unit = update_unit(version)
        except VersionError as error:
            self._put(replace(progress, in_progress=False, retry=0))
            self._report(ConditionStatus.FALSE, UpdateReason.STOPPED, f"{version[:64]}: {error}")
            return
        log.info("operating_system_update_started", unit=unit, attempts_left=progress.retry)
        self._put(replace(progress, in_progress=True))
        self._report(ConditionStatus.TRUE, UpdateReason.RUNNING, f"{version}: {unit} is running")
        problem = await self._run_unit(unit)
        if problem is None:
            self._put(Attempts(version, installed=version))
            then = await self._reboot()
            self._report(
                ConditionStatus.TRUE, UpdateReason.COMPLETED, f"{version}: installed; {then}"
            )
            return
        log.warning("operating_system_update_failed", unit=unit, error=problem)
        left = max(progress.retry - 1, 0)
        self._put(replace(progress, in_progress=False, retry=left))
        then = f"{left} more attempts" if left else "given up; set another spec.version"
        self._report(ConditionStatus.FALSE, UpdateReason.STOPPED, f"{version}: {problem}; {then}")
        if left:
            await asyncio.sleep(self._pause.total_seconds())

    async def _run_unit(self, unit: str) -> str | None:
        """Run the unit, or wait for its end if it is at work, and return what went wrong."""
        refusal: HostError | None = None
        try:
            async with asyncio.timeout(self._time_limit.total_seconds()):
                try:
                    if not is_busy(await self._units.state(unit)):
                        await self._units.start(unit, deadline=self._time_limit)
                except HostError as error:
                    refusal = error  # or the bus broke while the job goes on: its state decides
                state = await self._settled(unit)
        except TimeoutError:
            with suppress(HostError):
                await self._units.stop(unit)
            return f"{unit} did not finish within {short_duration(self._time_limit)}"
        return judge(state) or (str(refusal) if refusal else None)

    async def _settled(self, unit: str) -> UnitState:
        """The state of the unit once it is not at work."""
        async with aclosing(self._units.watch([unit])) as news:
            async for found in news:
                if isinstance(found, tuple) and not is_busy(found[0]):
                    return found[0]
        raise HostError(f"{unit}: systemd reports no more of it")

    async def _reboot(self) -> str:
        """Reboot if the spec requires it; return what was done."""
        hypervisor = self._hypervisor.value
        if hypervisor is None or not hypervisor.spec.reboot:
            return "reboot the host to activate it"
        log.info("reboot_started", unit=REBOOT_UNIT)
        try:
            await self._units.begin(REBOOT_UNIT)
        except HostError as error:
            return f"the reboot failed: {error}"
        return "rebooting"

    def _put(self, progress: Attempts) -> None:
        self._progress = progress
        update = HyperVisorUpdateStatus(
            inProgress=progress.in_progress,
            installed=progress.installed,
            retry=progress.retry,
            version=progress.version or None,
        )
        self._board.put(replace(self._board.parts, update=update))

    def _report(self, status: ConditionStatus, reason: UpdateReason, message: str) -> None:
        self._board.put_condition(_CONDITION, status, reason, message)
