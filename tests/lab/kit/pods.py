"""Launcher pods on a host, as who looks at them from outside sees them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.api.workloads import Pod
from hypercobalt.lab.host import Host
from hypercobalt.lab.pods.running.settings import KUBELET
from hypercobalt.lab.pods.running.unit import unit_name
from hypercobalt.virt.wire.client import LauncherConnection, connect
from tests.waiting import Pause

_SECONDS = 60.0


@asynccontextmanager
async def launcher(host: Host, pod: Pod) -> AsyncIterator[LauncherConnection]:
    """The launcher of a pod, by its socket, whose path is longer than an address may be."""
    sockets = "volumes/kubernetes.io~empty-dir/sockets"
    folder = host.disk.root / KUBELET.lstrip("/") / "pods" / pod.metadata.uid / sockets
    handle = os.open(folder, os.O_PATH)
    try:
        path, pause = Path(f"/proc/self/fd/{handle}/launcher-sock"), Pause(0.05)
        async with asyncio.timeout(_SECONDS):
            while not path.exists():
                await pause()
        async with connect(path, uid=LAUNCHER_USER) as connection:
            yield connection
    finally:
        os.close(handle)


async def users_of(host: Host, pod: Pod) -> set[str]:
    """User IDs of the processes of a pod, but for the one that waits outside of it."""
    listed = await host.run("ps", "-eo", "uid=,comm=,unit=")
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    unit = unit_name(pod.metadata.uid)
    return {row[0] for row in rows if row[2:] == [unit] and row[1] != "unshare"}


async def cleared(host: Host, pod: Pod) -> None:
    """Wait until the host has nothing of a pod."""
    pause = Pause(0.1)
    async with asyncio.timeout(_SECONDS):
        while await traces(host, pod):
            await pause()


async def traces(host: Host, pod: Pod) -> list[str]:
    """What the host has of a pod."""
    uid = pod.metadata.uid
    listed = await host.run(
        "sh", "-c",
        f"systemctl list-units --all --plain --no-legend '{unit_name(uid)}'; ip netns list;"
        f" ip -oneline link; ls {KUBELET}/pods; grep {uid} /proc/mounts;"
        f" find /sys/fs/cgroup -name '*{uid}*'; :",
    )  # fmt: skip
    return [line for line in listed.splitlines() if uid in line]
