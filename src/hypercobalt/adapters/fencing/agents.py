"""Fence devices behind the programs of the fence-agents collection: `fence_redfish` and 80 more.

Each program takes `key=value` lines on its standard input, so that no secret is in its arguments,
which others on the machine can read. fence_ipmilan passes the password on in ipmitool's arguments;
there it goes through the environment.

Source: fence-agents 4.12, lib/fencing.py.in (fence_action, process_input), doc/FenceAgentAPI.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.fencing import outlets, redfish
from hypercobalt.adapters.fencing.devices import TRUE, Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError, FenceFailure, PowerState
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN: Final = 300  # characters of what a program prints
_IPMI: Final = frozenset(
    {"fence_ipmilan", "fence_ipmilanplus", "fence_idrac", "fence_imm"}
    | {f"fence_ilo{version}" for version in (3, 4, 5)}
)
_GUID_BYTES: Final = 16
_REFUSALS: Final = (
    "You have to set login password",
    "does not have the correct privileges",
    "Can not find VM UUID",
    "Unable to get PowerState",  # fence_redfish: an answer without a system, as with 401 and 404
    "RAKP 2 HMAC is invalid",  # ipmitool: another password
    "unauthorized name",  # ipmitool: another user
    "nsufficient privilege",
)
"""Texts of agents about what a person has to correct. Source: `fail` in lib/fencing.py.in."""
_NO_OUTLET: Final = "Unable to obtain correct plug status or plug is not available"
"""After the login; but fence_ipmilan has no login, and prints this for whatever fails."""
_STATES: Final = {(0, "Status: ON"): PowerState.ON, (2, "Status: OFF"): PowerState.OFF}


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int
    out: str
    problem: str


class AgentDevice:
    """A device that a fence agent speaks to; a `FenceDevice`.

    Args:
        device: which, and how it is reached.
        credentials: those that it needs.
        path: directories of the programs, as in PATH.
    """

    def __init__(self, device: Device, credentials: Credentials, path: str = _PATH) -> None:
        self._device, self._credentials, self._path = device, credentials, path

    @property
    def name(self) -> str:
        return self._device.title

    @property
    def alternative(self) -> str:
        return self._device.alternative

    @property
    def connection(self) -> str:
        return outlets.connection(self._device)

    async def systems(self, *, within: timedelta) -> frozenset[str]:
        if self._device.agent == "fence_redfish":
            return await redfish.system_uuids(self._device, self._credentials, within)
        if self._device.agent not in _IPMI:
            return frozenset()
        ended = await self._call("ipmitool", _guid(self._device, self._credentials), b"", within)
        if ended.code:
            raise self._failed("UUID of the system", ended)
        return _orders_of(ended.out)

    async def power(self, *, within: timedelta) -> PowerState:
        ended = await self._run("status", within)
        # 2 is also what a program ends with whose options are wrong: both have to fit.
        lines = ended.out.splitlines() or [""]
        state = _STATES.get((ended.code, lines[-1].strip()))
        if state is None:
            raise self._failed("status", ended)
        return state

    async def off(self, *, within: timedelta) -> None:
        await self._order(PowerState.OFF, within)

    async def on(self, *, within: timedelta) -> None:
        await self._order(PowerState.ON, within)

    async def _order(self, wanted: PowerState, within: timedelta) -> None:
        """Order a state. The program reads the state itself, and ends once it is as ordered.

        Some end well before that. Each program takes a second or more to start, so callers read the
        state once, afterwards.
        """
        ended = await self._run(wanted.value, within)
        if ended.code:
            raise self._failed(wanted.value, ended)

    async def _run(self, action: str, within: timedelta) -> _Ended:
        given = _lines(action, self._device, self._credentials, within)
        return await self._call(self._device.agent, (), given, within, action)

    async def _call(
        self,
        program: str,
        arguments: Sequence[str],
        given: bytes,
        within: timedelta,
        action: str = "UUID of the system",
    ) -> _Ended:
        began = asyncio.get_running_loop().time()
        variables = {"PATH": self._path, "LC_ALL": "C", "PYTHONWARNINGS": "ignore"}
        if self._device.agent in _IPMI:
            variables["IPMITOOL_PASSWORD"] = self._credentials.password
        try:
            with _authority(self._device.authority) as more:
                ended = await _execute((program, *arguments), given, variables | more, within)
        except TimeoutError as error:
            text = f"{self.name}: {action}: no answer within {within.total_seconds():g} s"
            raise FenceError(text, FenceFailure.TIMED_OUT) from error
        except OSError as error:
            text = (
                f"{self.name}: {program} cannot be started: {error.strerror}; "
                "install the package fence-agents"
            )
            raise FenceError(text, FenceFailure.REFUSED) from error
        seconds = round(asyncio.get_running_loop().time() - began, 2)
        log.info(
            "fence_agent_ended", device=self.name, action=action, code=ended.code, seconds=seconds
        )
        return ended

    def _failed(self, action: str, ended: _Ended) -> FenceError:
        text = _complaint(ended)
        if self._credentials.password:
            text = text.replace(self._credentials.password, "[password]")
        failure = _failure(text, outlets=self._device.agent not in _IPMI)
        text = f"{self.name}: {action}: exit code {ended.code}: {text[:_SHOWN]}"
        return FenceError(text, failure)


def _failure(text: str, *, outlets: bool) -> FenceFailure:
    """What kind of failure an agent complains of."""
    if any(one.lower() in text.lower() for one in _REFUSALS) or (outlets and _NO_OUTLET in text):
        return FenceFailure.REFUSED
    if "timed out" in text.lower() or "Connection lost" in text:
        return FenceFailure.TIMED_OUT
    return FenceFailure.FAILED


def _complaint(ended: _Ended) -> str:
    """What a program complains of; its exit code is 1 whatever it is."""
    lines = ended.problem.strip().splitlines()
    errors = [text for line in lines if (text := line.partition("ERROR: ")[2])]
    named = [text for text in errors if not text.startswith("Please use '-h'")]
    return " ".join(named or lines or ended.out.split()) or "no output"


def _lines(action: str, device: Device, credentials: Credentials, within: timedelta) -> bytes:
    """What a program reads.

    `power_timeout` is how long it waits for a state it has ordered: not past our own deadline.
    """
    options = {**device.parameters, "action": action, "username": credentials.username}
    options.setdefault("power_timeout", str(max(int(within.total_seconds()) - 2, 1)))
    if device.agent in _IPMI:
        # Appended as it is to ipmitool's arguments: -E reads the password from the environment.
        options["ipmitool_timeout"] = f"{options.get('ipmitool_timeout', '2')} -E"
    else:
        options["password"] = credentials.password
    return "".join(f"{name}={value}\n" for name, value in options.items() if value).encode()


@contextlib.contextmanager
def _authority(certificates: str) -> Generator[dict[str, str]]:
    """The variables that have fence_redfish verify a device by these certificates."""
    if not certificates:
        yield {}
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificates)
        file.flush()
        yield {"REQUESTS_CA_BUNDLE": file.name}


def _guid(device: Device, credentials: Credentials) -> tuple[str, ...]:
    """Arguments by which ipmitool prints the bytes of the system's UUID; as fence_ipmilan's.

    Source: IPMI 2.0 rev. 1.1, 22.14, Get System GUID.
    """
    given = device.parameters
    lan = given.get("lanplus", "1" if device.agent != "fence_ipmilan" else "")
    options = {
        "-I": "lanplus" if lan.lower() in TRUE else "lan",
        "-H": given.get("ip", ""),
        "-p": given.get("ipport", ""),
        "-U": credentials.username,
        "-A": given.get("auth", ""),
        "-C": given.get("cipher", ""),
        "-L": given.get("privlvl", ""),
        "-N": given.get("ipmitool_timeout", "2"),
    }
    set_ = [word for option, value in options.items() if value for word in (option, value)]
    return (*set_, "-E", "raw", "0x06", "0x37")


def _orders_of(printed: str) -> frozenset[str]:
    """The UUIDs that 16 bytes can mean: BMCs send them in any of three orders."""
    try:
        sent = bytes.fromhex("".join(printed.split()))
    except ValueError:
        return frozenset()
    if len(sent) != _GUID_BYTES or len(set(sent)) == 1:
        return frozenset()
    found = (uuid.UUID(bytes=sent), uuid.UUID(bytes_le=sent), uuid.UUID(bytes=sent[::-1]))
    return frozenset(map(str, found))


async def _execute(
    command: Sequence[str], given: bytes, variables: Mapping[str, str], within: timedelta
) -> _Ended:
    """Run a program to its end.

    Raises:
        TimeoutError: it took too long; it and its children are killed.
        OSError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=variables, start_new_session=True
    )
    try:
        async with asyncio.timeout(within.total_seconds()):
            out, problem = await process.communicate(given)
    finally:
        await _kill(process)
    return _Ended(
        process.returncode or 0, out.decode(errors="replace"), problem.decode(errors="replace")
    )


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
        await asyncio.shield(process.wait())
