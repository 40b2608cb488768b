"""NICs of guests in pods of the kernel; the guest is a namespace on the pod's bridge."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.networks import BRIDGE, GUEST_NICS, LAUNCHER, MASQUERADE, PodWorld
from tests.integration.adapters.network.kit import (
    PYTHON,
    ask,
    cable,
    fresh,
    hold,
    links,
    run,
    serve,
)

from hypercobalt.adapters.network.commands import change_ip
from hypercobalt.adapters.network.guest_nics import KernelGuestNics
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.port import (
    ForwardedPort,
    GuestBinding,
    GuestNic,
    GuestNics,
    PortProtocol,
    WantedNic,
)

OUTSIDE = str(PodWorld.GATEWAY)
POD = str(PodWorld.ADDRESS.ip)
GUEST = "10.0.2.2"


_OPENS = """
import fcntl, os, socket, struct, sys
tun = os.open("/dev/net/tun", os.O_RDWR)  # a device of the pod's own, where it has one
os.setgroups([])
os.setresgid(*3 * [int(sys.argv[1])])
os.setresuid(*3 * [int(sys.argv[1])])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"k6t-eth0")
server.bind(("", 67))
try:
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH14x", b"tap0", 0x5002))
    print("opened")
except OSError as error:
    print(error.strerror)
"""


class PodsOfTheKernel(PodWorld):
    """Pods, each beside a namespace with its gateway, from which it is reached."""

    def __init__(self, stack: AsyncExitStack) -> None:
        super().__init__(KernelGuestNics())
        self._stack = stack
        self.outside = Path()

    async def bare(self) -> Path:
        return await fresh(self._stack)

    async def pod(self) -> Path:
        pod, self.outside = await fresh(self._stack), await fresh(self._stack)
        options = ("address", self.MAC, "mtu", str(self.MTU))
        await cable(self.outside, "pod", pod, "eth0", *options)
        length = self.ADDRESS.network.prefixlen
        await run(self.outside, "ip", "address", "add", f"{OUTSIDE}/{length}", "dev", "pod")
        await run(pod, "ip", "address", "add", str(self.ADDRESS), "dev", "eth0")
        await run(pod, "ip", "route", "add", "default", "via", OUTSIDE)
        return pod

    def restarted(self) -> GuestNics:
        return KernelGuestNics()

    async def guest(self, pod: Path, nic: GuestNic) -> Path:
        """A guest with what DHCP would give it."""
        guest = await fresh(self._stack)
        mac = ("address", nic.mac) if nic.mac else ()
        await cable(pod, "guest", guest, "ens1", "mtu", str(nic.mtu), *mac)
        await run(pod, "ip", "link", "set", "guest", "master", nic.bridge)
        await run(guest, "ip", "address", "add", str(nic.address), "dev", "ens1")
        await run(guest, "ip", "route", "add", "default", "via", str(nic.gateway), "dev", "ens1")
        return guest


@pytest.fixture
def world(stack: AsyncExitStack) -> PodsOfTheKernel:
    return PodsOfTheKernel(stack)


@pytest.mark.parametrize("contract", GUEST_NICS, ids=lambda contract: contract.__name__)
async def test_the_kernel_keeps_the_contract(
    world: PodsOfTheKernel, contract: Callable[[PodWorld], Awaitable[None]]
) -> None:
    await contract(world)


async def test_a_masqueraded_guest_is_reached_by_its_pods_address_and_has_it_outside(
    stack: AsyncExitStack, world: PodsOfTheKernel
) -> None:
    pod = await world.pod()
    guest = await world.guest(pod, await world.nics.connect(pod, MASQUERADE))
    await serve(stack, guest, "tcp", 80)
    await serve(stack, guest, "udp", 53)
    await serve(stack, world.outside, "tcp", 8080)

    assert await ask(world.outside, "tcp", POD, 80) == OUTSIDE
    assert await ask(world.outside, "udp", POD, 53) == OUTSIDE
    assert await ask(guest, "tcp", OUTSIDE, 8080) == POD
    assert await ask(pod, "tcp", OUTSIDE, 8080) == POD
    assert await ask(pod, "tcp", "127.0.0.1", 80) == "10.0.2.1"


async def test_only_named_ports_of_a_guest_are_reached(
    stack: AsyncExitStack, world: PodsOfTheKernel
) -> None:
    pod = await world.pod()
    ports = (ForwardedPort(80), ForwardedPort(53, PortProtocol.UDP))
    nic = await world.nics.connect(pod, replace(MASQUERADE, ports=ports))
    guest = await world.guest(pod, nic)
    for protocol, port in (("tcp", 80), ("udp", 53), ("tcp", 81)):
        await serve(stack, guest, protocol, port)

    assert await ask(world.outside, "tcp", POD, 80) == OUTSIDE
    assert await ask(world.outside, "udp", POD, 53) == OUTSIDE
    assert await ask(world.outside, "tcp", POD, 81) == "ConnectionRefusedError"
    assert await ask(pod, "tcp", GUEST, 81) == "10.0.2.1"  # the guest itself serves it


async def test_a_masqueraded_guest_cannot_send_under_another_address(
    stack: AsyncExitStack, world: PodsOfTheKernel
) -> None:
    pod = await world.pod()
    nic = await world.nics.connect(pod, MASQUERADE)
    guest = await world.guest(pod, nic)
    await serve(stack, world.outside, "tcp", 80)
    await run(world.outside, "ip", "route", "add", "10.0.2.0/24", "via", POD)
    assert await ask(guest, "tcp", OUTSIDE, 80) == POD

    await run(guest, "ip", "address", "delete", str(nic.address), "dev", "ens1")
    await run(guest, "ip", "address", "add", "10.0.2.3/24", "dev", "ens1")
    await run(guest, "ip", "route", "replace", "default", "via", "10.0.2.1")
    assert await ask(guest, "tcp", OUTSIDE, 80, within=0.5) == "TimeoutError"


async def test_a_bridged_guest_has_the_pods_address_outside_and_inside(
    stack: AsyncExitStack, world: PodsOfTheKernel
) -> None:
    pod = await world.pod()
    guest = await world.guest(pod, await world.nics.connect(pod, BRIDGE))
    await serve(stack, guest, "tcp", 80)
    await serve(stack, world.outside, "tcp", 8080)

    assert await ask(world.outside, "tcp", POD, 80) == OUTSIDE
    assert await ask(guest, "tcp", OUTSIDE, 8080) == POD
    neighbours = await run(world.outside, "ip", "neigh", "show", POD)
    assert world.MAC in neighbours
    found = await links(pod)
    assert found["eth0-nic"]["address"] != world.MAC
    assert found["eth0-nic"]["addr_info"] == [] or "inet " not in str(found["eth0-nic"])
    assert POD in str(found["eth0"]["addr_info"])


async def test_the_pod_does_not_answer_for_the_address_of_a_bridged_guest(
    world: PodsOfTheKernel,
) -> None:
    pod = await world.pod()
    await world.nics.connect(pod, BRIDGE)
    # Nobody but the guest has it, and there is no guest.
    assert await ask(world.outside, "tcp", POD, 80, within=1) in {"TimeoutError", "OSError"}
    assert world.MAC not in await run(world.outside, "ip", "neigh", "show", POD)


@pytest.mark.parametrize("wanted", [MASQUERADE, BRIDGE], ids=["masquerade", "bridge"])
async def test_only_the_launchers_user_opens_the_tap_and_serves_dhcp(
    world: PodsOfTheKernel, wanted: WantedNic
) -> None:
    pod = await world.pod()
    await world.nics.connect(pod, wanted)
    shown = [
        (await run(pod, PYTHON, "-c", _OPENS, str(LAUNCHER + more))).strip() for more in (0, 1)
    ]
    assert shown == ["opened", "Operation not permitted"]


async def test_a_bridge_that_was_cut_after_any_command_is_completed(
    world: PodsOfTheKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "hypercobalt.adapters.network.guest_nics.change_ip"
    step, cut = 0, True
    while cut:
        pod, cut = await world.pod(), False

        async def some(namespace: Path | None, lines: object, most: int = step) -> None:
            nonlocal cut
            assert hasattr(lines, "__iter__")
            found = list(lines)
            await change_ip(namespace, found[:most])
            cut = len(found) > most

        with monkeypatch.context() as patched:
            patched.setattr(module, some)
            await world.nics.connect(pod, BRIDGE)
        made = await world.restarted().connect(pod, BRIDGE)
        assert (made.mac, made.address, made.gateway) == (world.MAC, world.ADDRESS, world.GATEWAY)
        found = await links(pod)
        assert {"eth0", "eth0-nic", "k6t-eth0", "tap0"} <= found.keys()
        assert found["tap0"].get("master") == found["eth0-nic"].get("master") == "k6t-eth0"
        step += 2


async def test_what_is_no_namespace_is_an_error(stack: AsyncExitStack, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, why in ((file, "another file"), (tmp_path / "absent", "cannot be opened")):
        with pytest.raises(NetworkError, match=why):
            await KernelGuestNics().connect(path, MASQUERADE)


async def test_a_namespace_is_found_by_a_process_in_it(
    stack: AsyncExitStack, world: PodsOfTheKernel
) -> None:
    pod = await world.pod()
    process = await hold(stack, pod)
    made = await world.nics.connect(Path(f"/proc/{process}/ns/net"), MASQUERADE)
    assert made.tap in await links(pod)


_CONNECTS = """
import asyncio, subprocess
from pathlib import Path
from hypercobalt.adapters.network.guest_nics import KernelGuestNics
from hypercobalt.adapters.network.model import NetworkError
from hypercobalt.adapters.network.port import GuestBinding, WantedNic
wanted = WantedNic(binding=GuestBinding({binding!r}), owner=107)
for command in ("add eth0 type bridge", "set eth0 up", "add veth0 type veth peer name veth1"):
    subprocess.run(["ip", "link", *command.split()], check=True)
subprocess.run(["ip", "address", "add", "192.0.2.2/24", "dev", "eth0"], check=True)
try:
    asyncio.run(KernelGuestNics().connect(Path("/proc/self/ns/net"), wanted))
except NetworkError as error:
    print(error)
print(sorted(one.name for one in Path("/sys/class/net").iterdir()))
"""


@pytest.mark.parametrize("binding", GuestBinding)
async def test_network_of_the_host_is_left_as_it_is(binding: GuestBinding) -> None:
    """A launcher's process has ended, and its number is that of a process of the host.

    The host is a namespace of the test's own.
    """
    script = _CONNECTS.format(binding=str(binding))
    # /sys shows the namespace of who mounts it.
    shown = ("sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
    done = await run(None, "unshare", "--net", "--mount", *shown, sys.executable, "-c", script)

    assert "is this host's own, no pod's" in done
    assert "['eth0', 'lo', 'veth0', 'veth1']" in done
