"""tcpdump on one device: the filter compiled first, then packets as a stream.

tcpdump runs as the user `nobody` with CAP_NET_RAW alone, and leaves the device as it is: it is not
made promiscuous, because a packet socket gets every frame of a tap anyway.

Source: tcpdump(1), pcap-filter(7), packet(7).
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters import child
from hypercobalt.adapters.capture.filters import FilterError, check_filter, is_device
from hypercobalt.adapters.capture.order import BYTES, SNAPLEN, CaptureOrder
from hypercobalt.adapters.capture.pcap import CaptureError, Records
from hypercobalt.adapters.child import Child
from hypercobalt.logs import get_logger

log = get_logger(__name__)

_COMPILE: Final = timedelta(seconds=3)
_START: Final = timedelta(seconds=5)
_CHUNK: Final = 64 * 1024
_SPARE: Final = timedelta(seconds=3)
_NEEDED: Final = {"KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "NET_RAW": 13}
_DROPPED: Final = re.compile(r"(\d+) packets? dropped by kernel")


async def compile_filter(expression: str, snaplen: int = SNAPLEN) -> None:
    """Have tcpdump compile a filter, without any rights and without a device.

    Raises:
        FilterError: it is refused; the message has tcpdump's reason.
        CaptureError: tcpdump is not installed, or cannot be started.
    """
    check_filter(expression)
    if missing := missing_capabilities():
        raise CaptureError(
            f"the agent lacks {', '.join(missing)}: set capture.enabled in the agent's chart"
        )
    command = ("tcpdump", "-d", "-y", "EN10MB", "-s", str(snaplen), "--", expression)
    argv = child.bounded(child.unprivileged(_installed(command)), _COMPILE + _SPARE)
    try:
        async with asyncio.timeout(_COMPILE.total_seconds()), child.running(argv) as compiler:
            await compiler.out.read()
            code, problem = await compiler.end(), await compiler.complaint()
    except TimeoutError as error:
        seconds = _COMPILE.total_seconds()
        raise FilterError(f"filter {expression!r}: not compiled within {seconds:g} s") from error
    except OSError as error:
        raise _not_started(error) from error
    program, _, reason = problem.partition(": ")
    if code and program != "tcpdump":
        raise CaptureError(f"tcpdump cannot be started: {problem or f'exit code {code}'}")
    if code:
        raise FilterError(f"filter {expression!r}: {reason}; see pcap-filter(7)")


async def capture(order: CaptureOrder) -> AsyncGenerator[bytes]:
    """Capture packets; the first item is empty and comes when tcpdump listens.

    tcpdump ends with the generator, and after `duration` however slow its reader is.

    Raises:
        FilterError: the filter is refused.
        CaptureError: tcpdump cannot be started or has failed, the device is gone.
    """
    if not is_device(order.device):
        raise CaptureError(f"{order.device!a} is not a name that tcpdump takes for a device")
    await compile_filter(order.expression, order.snaplen)
    records = Records(longest=order.snaplen, most=BYTES)
    argv = child.bounded(
        child.unprivileged(_installed(_command(order)), "net_raw"), order.duration + _SPARE
    )
    try:
        async with (
            child.running(argv) as tcpdump,
            aclosing(_packets(tcpdump, records, order)) as packets,
        ):
            async for data in packets:
                yield data
    except OSError as error:
        raise _not_started(error) from error


async def _packets(tcpdump: Child, records: Records, order: CaptureOrder) -> AsyncGenerator[bytes]:
    header = await _started(tcpdump, records, order.device)
    # Not asyncio.timeout: it would cancel the reader between two packets.
    loop = asyncio.get_running_loop()
    alarm = loop.call_later(order.duration.total_seconds(), tcpdump.send, signal.SIGTERM)
    try:
        yield b""
        yield header
        while not records.full and (data := await tcpdump.out.read(_CHUNK)):
            if whole := records.feed(data):
                yield whole
        over = loop.time() >= alarm.when() or records.full
        tcpdump.send(signal.SIGTERM)
        failed = bool(await tcpdump.end()) and not over
        await _report(tcpdump, order, records, failed=failed)
    finally:
        alarm.cancel()


async def _started(tcpdump: Child, records: Records, device: str) -> bytes:
    """The stream's header, which tcpdump prints once it listens."""
    header = b""
    try:
        async with asyncio.timeout(_START.total_seconds()):
            while not header and (data := await tcpdump.out.read(_CHUNK)):
                header = records.feed(data)
    except TimeoutError as error:
        text = f"tcpdump does not listen on {device} after {_START.total_seconds():g} s"
        raise CaptureError(text) from error
    if not header:
        await tcpdump.end()
        reason = (await tcpdump.complaint()).removeprefix("tcpdump: ")
        raise CaptureError(f"tcpdump cannot listen on {device}: {reason or 'it has ended'}")
    return header


async def _report(tcpdump: Child, order: CaptureOrder, records: Records, *, failed: bool) -> None:
    text = (await tcpdump.problems.read(_CHUNK)).decode(errors="replace")
    dropped = _DROPPED.search(text)
    log.info(
        "capture_ended",
        device=order.device,
        packets=records.packets,
        dropped=int(dropped[1]) if dropped else None,
        full=records.full,
    )
    if failed:
        reasons = [line for line in text.splitlines() if line.startswith("tcpdump: ")]
        reason = reasons[-1].removeprefix("tcpdump: ") if reasons else "tcpdump has ended"
        raise CaptureError(f"the capture on {order.device} has ended early: {reason}")


def _command(order: CaptureOrder) -> tuple[str, ...]:
    numbers = ("-c", str(order.packets), "-s", str(order.snaplen))
    # -p: not promiscuous; -n: no names; -U and immediate mode: each packet as it comes.
    how = ("-p", "-n", "-U", "--immediate-mode", "-w", "-")
    return ("tcpdump", "-i", order.device, *numbers, *how, "--", order.expression)


def missing_capabilities() -> tuple[str, ...]:
    """What this process lacks to start tcpdump and to end it, as `CAP_NET_RAW`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return tuple(f"CAP_{name}" for name, bit in _NEEDED.items() if not effective >> bit & 1)


def _installed(command: tuple[str, ...]) -> tuple[str, ...]:
    if shutil.which("tcpdump") is None:
        raise CaptureError("tcpdump is not installed where the agent runs: install tcpdump")
    return command


def _not_started(error: OSError) -> CaptureError:
    return CaptureError(f"tcpdump cannot be started: {error.strerror}; install util-linux")
