"""What the tests do to guests of the whole that no API does."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from hypercobalt.lab import processes
from hypercobalt.lab.host import Host
from hypercobalt.lab.openstack import metadata
from tests.openstack.whole.site import PATIENT, Site

MEMORY: Final = Path("/sys/fs/cgroup/memory")
"""The hierarchy of memory by itself, in which a lab's hosts have a group each."""
_HOG: Final = "head --bytes=96M /dev/zero | tail --lines=1 | wc --bytes"
_FIRST_VICTIM, _SECOND_VICTIM, _NO_LIMIT = "1000", "900", "-1"
"""Ranks by proc(5), oom_score_adj: what wants more memory goes second; cgroup-v1/memory.rst."""


def kill_qemu(site: Site, server: str) -> int:
    """Kill the only QEMU of a server, and give its process id."""
    (emulator,) = site.emulators(server)
    os.kill(emulator.pid, signal.SIGKILL)
    return emulator.pid


async def kill_metadata_agent(host: Host) -> None:
    """Kill the metadata agent of a host and its haproxies, as the kernel's OOM killer does."""
    await host.run("pkill", "--signal=KILL", "--exact", "haproxy")
    await host.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", metadata.SERVICE)


async def run_out_of_memory(site: Site, server: str, host: Host) -> int:
    """Have the kernel's OOM killer end the only QEMU of a server, and give its process id.

    The host has no memory left but what it has, and wants more: for a moment, since every other
    process of it waits meanwhile.
    """
    (emulator,) = site.emulators(server)
    Path(f"/proc/{emulator.pid}/oom_score_adj").write_text(_FIRST_VICTIM)
    group = MEMORY / host.machine
    limit = group / "memory.limit_in_bytes"
    await asyncio.to_thread((group / "memory.force_empty").write_text, "0")
    try:
        limit.write_text((group / "memory.usage_in_bytes").read_text())
        unit = f"systemd-run --quiet --wait --collect --property=OOMScoreAdjust={_SECOND_VICTIM}"
        hog = f"{unit} --property=OOMPolicy=continue bash -c '{_HOG}'"
        # Whichever process of it the kernel ends: only the guest's end counts.
        await host.run("bash", "-c", f"{hog}; true", within=PATIENT)
    finally:
        limit.write_text(_NO_LIMIT)
    assert await processes.ended(emulator.pid, PATIENT)
    return emulator.pid
