"""A service that is made by a call and lives until it is removed, and how its program ended.

Source: org.freedesktop.systemd1(5), systemd.service(5), systemd.exec(5),
systemd.resource-control(5); `bus_unit_set_transient_property` of systemd 252 for the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from hypercobalt.adapters.host.model import check_unit_name
from hypercobalt.errors import HypercobaltError

PAIRS: Final = "a(ss)"
SIGNATURES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Delegate", "NoNewPrivileges", "PrivateMounts", "PrivateTmp"), "b"),
    **dict.fromkeys(("KillSignal", "OOMScoreAdjust"), "i"),
    **dict.fromkeys(("CPUQuotaPerSecUSec", "CPUShares", "CPUWeight"), "t"),
    **dict.fromkeys(("MemoryMax", "MemorySwapMax", "TasksMax"), "t"),
    **dict.fromkeys(("LimitCORE", "LimitMEMLOCK", "LimitNOFILE"), "t"),
    **dict.fromkeys(("TimeoutStartUSec", "TimeoutStopUSec"), "t"),
    **dict.fromkeys(("Description", "Slice", "SyslogIdentifier", "WorkingDirectory"), "s"),
    **dict.fromkeys(("DevicePolicy", "KillMode", "NetworkNamespacePath", "OOMPolicy"), "s"),
    **dict.fromkeys(("StandardOutputFileToAppend", "StandardErrorFileToAppend"), "s"),
    **dict.fromkeys(("After", "Before", "BindsTo", "Environment", "PartOf", "Requires"), "as"),
    "DeviceAllow": PAIRS,
}
"""What can be set: systemd's name on D-Bus (bytes, microseconds), and its D-Bus type there."""

Setting = bool | int | str | tuple[str, ...]
NOT_EXECUTED: Final = range(200, 246)
"""Exit codes by which systemd shows that it could not execute a program: systemd.exec(5)."""

_LARGEST: Final = {"i": 2**31 - 1, "t": 2**64 - 1}
_SERVICE: Final = ".service"


class UnitSettingError(HypercobaltError, ValueError):
    """A transient unit that systemd would refuse or misread."""


class UnitExistsError(HypercobaltError):
    """A unit of that name is there already, running or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransientUnit:
    """A service without a unit file.

    It stays known after its program has ended, however it did, until it is removed: so an end
    during a restart of who watches it is not missed.

    Args:
        name: `NAME.service`.
        command: program, as an absolute path, and arguments, which are passed on as they are.
        stop_command: runs first when the unit is removed, for as long as TimeoutStopUSec lets it;
            `$MAINPID` in it is the program's process id. Without one, SIGTERM goes to all its
            processes, and SIGKILL once the first has ended.
        reload_command: what `reload` runs, with `$MAINPID` as well; without one that is refused.
        settings: by the names of `SIGNATURES`; DeviceAllow as `PATH MODES`.

    Raises:
        UnitNameError: the name is none.
        UnitSettingError: something else is not valid; the message names it.
    """

    name: str
    command: tuple[str, ...]
    stop_command: tuple[str, ...] = ()
    reload_command: tuple[str, ...] = ()
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])

    def __post_init__(self) -> None:
        check_unit_name(self.name)
        if not self.name.endswith(_SERVICE):
            raise UnitSettingError(f"transient unit {self.name}: must end with {_SERVICE}")
        self._check_command("command", self.command)
        if self.stop_command:
            self._check_command("stop_command", self.stop_command)
        if self.reload_command:
            self._check_command("reload_command", self.reload_command)
        for key, value in self.settings.items():
            if problem := _problem(key, value):
                raise UnitSettingError(f"transient unit {self.name}: {key} {problem}")

    def _check_command(self, field_: str, command: tuple[str, ...]) -> None:
        if not command or not PurePosixPath(command[0]).is_absolute():
            shown = command[0][:64] if command else ""
            raise UnitSettingError(
                f"transient unit {self.name}: {field_} {shown!r} must begin with an absolute path"
            )
        if any("\0" in word for word in command):
            raise UnitSettingError(f"transient unit {self.name}: {field_} has a NUL character")


def _problem(key: str, value: Setting) -> str:
    """What is wrong with a setting, "" if nothing is."""
    signature = SIGNATURES.get(key)
    if signature is None:
        return "is not a setting that is known here; add it to SIGNATURES with its type on D-Bus"
    if signature in _LARGEST:
        largest = _LARGEST[signature]
        fine = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
        return "" if fine else f"{value!r} must be a number from 0 to {largest}"
    if signature == "b":
        return "" if isinstance(value, bool) else f"{value!r} must be true or false"
    if signature == "s":
        fine = isinstance(value, str) and "\0" not in value
        return "" if fine else f"{value!r} must be a text without NUL characters"
    if not isinstance(value, tuple) or any("\0" in text for text in value):
        return f"{value!r} must be texts without NUL characters"
    if signature == PAIRS and not all(" " in text for text in value):
        return f"{value!r} must be texts such as `/dev/kvm rw`"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRun:
    """A transient unit, in systemd's words.

    Args:
        name: `NAME.service`.
        active: ActiveState: activating, active, deactivating, failed, inactive.
        sub: SubState: running, stop-sigterm, …; exited: the program ended without a fault.
        pid: of its program while it runs, else 0.
        result: of the unit: success, exit-code, signal, core-dump, timeout, oom-kill, resources.
        exit_code: of the program, unless it runs or a signal ended it. 200 to 245: systemd could
            not execute it; systemd.exec(5) lists the reasons.
        signal: that ended the program.
        started: when the program was started, UTC; None: never.
        ended: when the program ended; None: it has not, or was never started.
    """

    name: str
    active: str
    sub: str
    pid: int = 0
    result: str = "success"
    exit_code: int | None = None
    signal: int | None = None
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def executed(self) -> bool:
        """Whether its program was executed, as far as its exit code shows."""
        never = self.exit_code is None and self.signal is None and self._is_dead
        return not never and (self.exit_code is None or self.exit_code not in NOT_EXECUTED)

    @property
    def over(self) -> bool:
        """Whether its program has ended for good and nothing more is done for it.

        A unit is inactive from the moment it is made until its program is started.
        """
        waits = self.active == "inactive" and self.started is None
        return self._is_dead and not waits

    @property
    def _is_dead(self) -> bool:
        return self.active in {"failed", "inactive"} or self.sub == "exited"
