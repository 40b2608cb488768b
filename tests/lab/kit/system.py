"""A host's systemd, logind and how it goes down."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

from hypercobalt.api.eviction import Eviction
from hypercobalt.lab import processes
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube

LIBVIRTD = "libvirtd.service"
LIMIT = timedelta(seconds=90)
LOGIND = f"[Login]\nInhibitDelayMaxSec={LIMIT.total_seconds():g}\n"
DEADLINE = 60.0  # seconds; an agent starts in one, and in 20 on a slow machine with other rings


def root(host: Host) -> Path:
    return Path(f"/proc/{host.leader_pid}/root")


def bus(host: Host) -> str:
    return f"unix:path={root(host)}/run/dbus/system_bus_socket"


async def evict(api: Kube, host: Host) -> Eviction:
    """The Eviction of the host, once there is one."""
    async with (
        asyncio.timeout(DEADLINE),
        api.watch(Eviction, fields=f"metadata.name={host.name}") as events,
    ):
        async for event in events:
            if event.object is not None:
                return event.object
    raise AssertionError("the watch ended")


async def is_held_back(host: Host) -> bool:
    """Whether a shutdown that has been announced waits for an inhibitor.

    logind starts the shutdown in systemd right after the announcement, or else when the last
    inhibitor lets go. A call to systemd after the announcement comes after logind's.
    """
    logind = "org.freedesktop.login1"
    manager = ("/org/freedesktop/login1", f"{logind}.Manager", "PreparingForShutdown")
    announced = await host.run("busctl", "get-property", logind, *manager)
    begun = await host.run("systemctl", "list-jobs", "--plain", "--no-legend")
    return announced.strip() == "b true" and "poweroff.target" not in begun


async def off(host: Host) -> float:
    """Wait until the host is off, and return the time then."""
    leader = host.leader_pid
    assert leader is None or await processes.ended(leader, LIMIT)
    return time.monotonic()
