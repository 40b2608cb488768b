"""The events of a host's libvirt, as `virsh event` prints them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from datetime import timedelta
from types import TracebackType
from typing import Self

from hypercobalt.lab.host import Host

_WAIT = timedelta(seconds=60)
_PROBE = (
    "<domain type='qemu'><name>probe</name><memory>1024</memory><os><type>hvm</type></os></domain>"
)


class Events:
    """Every domain event of a host from `__aenter__` on."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.seen: list[str] = []

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._host.entering("stdbuf", "-oL", "virsh", "event", "--all", "--loop"),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        # virsh prints nothing when it listens: cause events until one comes.
        async with asyncio.timeout(_WAIT.total_seconds()):
            while True:
                await self._host.run("virsh", "define", "/dev/stdin", stdin=_PROBE)
                await self._host.run("virsh", "undefine", "probe")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._next("probe.*Undefined"), 0.2)
                    return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # nsenter has children
        await self._process.communicate()

    async def wait(self, *patterns: str) -> None:
        """Wait for events in this order, others in between.

        Raises:
            AssertionError: one did not come in time; the message has what came.
        """
        for pattern in patterns:
            try:
                async with asyncio.timeout(_WAIT.total_seconds()):
                    await self._next(pattern)
            except TimeoutError:
                raise AssertionError(f"no event like {pattern!r} in {self.seen}") from None

    async def _next(self, pattern: str) -> None:
        assert self._process.stdout
        while True:
            line = (await self._process.stdout.readline()).decode().strip()
            self.seen.append(line)
            if re.search(pattern, line):
                return
            assert line or not self._process.stdout.at_eof(), f"virsh ended: {self.seen}"
