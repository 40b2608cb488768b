"""The agent as a service of its host, through faults of that host: nothing crashes or is lost."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from hypercobalt.api.coordination import Lease
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab.agents import NAMESPACE, NODE_AGENT
from hypercobalt.lab.commands import execute
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import condition, connection_is, instances, kill_agent, ready, until
from tests.lab.kit.domains import document, make

pytestmark = pytest.mark.timeout(300)

DROP_IN = f"/run/systemd/system/{NODE_AGENT}.d/test.conf"
TLS = "TLSCertificateInstalled"
DAY = timedelta(days=1)
STEP = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  long seconds;
  FILE *step = clock == CLOCK_REALTIME ? fopen("/run/clock-step", "r") : NULL;
  if (step) {
    if (fscanf(step, "%ld", &seconds) == 1) now->tv_sec += seconds;
    fclose(step);
  }
  return failed;
}
"""
# Real mode, at the start of a disk.
FLOOD = bytes.fromhex("baf803 b078 ee ebfd")  # mov dx,0x3f8; mov al,'x'; out dx,al; jmp -3
RESET = bytes.fromhex("b0fe e664 ebfe")  # mov al,0xfe; out 0x64,al; jmp -2
PANIC = bytes.fromhex("ba0505 b001 ee fa f4 ebfd")  # mov dx,0x505; mov al,1; out dx,al; cli; hlt
GUEST = """<domain type='qemu'><name>{name}</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>
<on_crash>destroy</on_crash>
<devices>
<disk type='file'><driver name='qemu' type='raw'/><source file='/root/{name}.img'/>
<target dev='hda' bus='ide'/></disk>
<serial type='file'><source path='/var/log/libvirt/{name}.log'/></serial><panic model='isa'/>
</devices></domain>"""


@asynccontextmanager
async def environment(host: Host, *settings: str) -> AsyncIterator[None]:
    """The agent runs with these in its environment."""
    lines = "".join(f"Environment={setting}\n" for setting in settings)
    await host.run("mkdir", "-p", str(Path(DROP_IN).parent))
    await host.run("tee", DROP_IN, stdin=f"[Service]\n{lines}")
    try:
        await restart_agent(host)
        yield
    finally:
        await host.run("rm", DROP_IN)
        await restart_agent(host)


async def restart_agent(host: Host) -> None:
    await host.run("systemctl", "daemon-reload")
    await host.run("systemctl", "restart", NODE_AGENT)


async def put(host: Host, path: str, content: bytes) -> None:
    text = base64.b64encode(content).decode()
    await host.run("sh", "-c", f"base64 -d > {path}", stdin=text)


async def shown(host: Host, name: str) -> str:
    """A property of the agent's unit."""
    printed = await host.run("systemctl", "show", f"--property={name}", "--value", NODE_AGENT)
    return printed.strip()


async def test_an_agent_killed_at_any_point_reports_the_present_state_again(
    nodes: TakeHosts, api: Kube
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await make(host, *(document(f"busy-{n}") for n in range(3)), start=False)
    for step in range(12):
        for number in range(3):
            verb = "start" if (step + number) % 2 == 0 else "destroy"
            await host.run("sh", "-c", f"virsh -q {verb} busy-{number} || true")
        await kill_agent(host)
        await asyncio.sleep(step / 7)  # the next one is hit at another point of its start
    await host.run("virsh", "-q", "undefine busy-0")

    stored = await until(api, host, instances(2))
    running = (await host.run("virsh", "list", "--name")).split()
    stored = await until(api, host, lambda hv: active(hv) == sorted(running))
    assert connection_is("True")(stored)


def active(hypervisor: Hypervisor) -> list[str]:
    return sorted(one.name for one in hypervisor.status.instances if one.active)


async def test_a_clock_that_steps_stops_nothing(
    nodes: TakeHosts, api: Kube, tmp_path: Path
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    source, library = tmp_path / "step.c", tmp_path / "step.so"
    await asyncio.to_thread(source.write_text, STEP)
    built = await execute(("gcc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"))
    assert built.code == 0, built
    await put(host, "/root/step.so", await asyncio.to_thread(library.read_bytes))
    async with environment(host, "LD_PRELOAD=/root/step.so"):
        before = await renewed(api, host, lambda _: True)
        pid = await shown(host, "MainPID")
        for count, step in ((1, DAY), (2, -DAY)):
            await host.run("tee", "/run/clock-step", stdin=f"{step.total_seconds():.0f}\n")
            await make(host, document(f"after-step-{count}"), start=True)
            await until(api, host, instances(count), deadline=5)
            ahead = step * 0.9
            await renewed(
                api,
                host,
                lambda seconds, ahead=ahead: (seconds - before) / ahead.total_seconds() > 1,  # type: ignore[misc]
            )
        assert await shown(host, "MainPID") == pid
        await host.run("rm", "/run/clock-step")


async def renewed(api: Kube, host: Host, good: Callable[[float], bool]) -> float:
    """When the agent's Lease was renewed, by the agent's wall clock; waits until that is right."""
    async with asyncio.timeout(30):
        while True:
            lease = await api.get(Lease, f"node-agent-{host.name}", NAMESPACE)
            if lease is not None and lease.spec.renewTime is not None:
                seconds = lease.spec.renewTime.timestamp()
                if good(seconds):
                    return seconds
            await asyncio.sleep(0.2)


async def test_guests_that_flood_reset_and_panic_cost_no_write_but_for_their_incidents(
    nodes: TakeHosts, api: Kube
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    sectors = {"flood": FLOOD, "reset": RESET, "panic": PANIC}
    for name, code in sectors.items():
        await put(host, f"/root/{name}.img", code.ljust(510, b"\0") + b"\x55\xaa" + bytes(2**16))
    await make(host, *(GUEST.format(name=name) for name in sectors), start=True)
    try:
        stored = await until(api, host, lambda hv: active(hv) == ["flood", "reset"])
        storm = ("--event", "reboot", "--loop", "--timeout", "5", "--domain", "reset")
        events = await host.run("sh", "-c", f"virsh event {' '.join(storm)} || true")
        after = await api.get(Hypervisor, host.name)
    finally:
        await host.run("virsh", "-q", "destroy flood; destroy reset")

    assert events.count("event 'reboot'") > 3
    assert after is not None
    assert replace(after.status, incidents=()) == replace(stored.status, incidents=())
    assert {one.type for one in after.status.incidents} <= {"Crash", "Rebooting", "RebootLoop"}
    assert len(after.status.incidents) <= len(sectors)
    await until(api, host, instances(0))


async def test_an_agent_reports_that_the_bus_is_away_and_comes_back_with_it(
    nodes: TakeHosts, api: Kube
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    pid = await shown(host, "MainPID")
    bus, libvirtd = ("dbus.socket", "dbus.service"), "libvirtd.service"

    # Masked: a connection to the socket of libvirtd, as of the agent, would start the bus.
    await host.run("systemctl", "mask", "--runtime", *bus)
    await host.run("systemctl", "stop", *bus)
    try:
        away = await until(api, host, lambda hv: condition(hv, libvirtd).status == "Unknown")
        assert condition(away, libvirtd).reason == "SystemdUnreachable"
        assert "system bus" in condition(away, libvirtd).message
    finally:
        await host.run("systemctl", "unmask", "--runtime", *bus)
        await host.run("systemctl", "start", *bus, libvirtd)  # libvirtd ends with the bus

    back = await until(api, host, lambda hv: condition(hv, libvirtd).status == "True")
    assert condition(back, libvirtd).reason == "Running"
    await make(host, document("after"), start=True)
    await until(api, host, instances(1))
    assert await shown(host, "MainPID") == pid
    await host.run("virsh", "-q", "destroy after")
