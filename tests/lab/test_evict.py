"""`cobalt evict` on real hosts with real guests, by the operator of a lab; and its crashes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hypercobalt.api.conditions import get_condition, is_true
from hypercobalt.api.eviction import (
    Eviction,
    EvictionConditionType,
    EvictionReason,
    EvictionSpec,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab import processes
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab, Wish
from hypercobalt.lab.operator import ROLE
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Request
from hypercobalt.runtime import Kube
from tests.contracts.direct import until
from tests.lab.kit.served import served_lab

pytestmark = pytest.mark.timeout(300)

COBALT = str(Path(sys.executable).parent / "cobalt")
HOSTS = ("kvm-1", "kvm-2", "kvm-3")
SLOW = "8"  # MiB a second: a guest takes 8 s


@dataclass(frozen=True, slots=True)
class Site:
    """A lab with its operator, VMs, and an administrator's client."""

    lab: Lab
    vms: Fleet
    kube: Kube

    async def cobalt(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output of a command."""
        process = await asyncio.create_subprocess_exec(
            *(COBALT, *arguments),
            env=os.environ | {"KUBECONFIG": str(self.lab.control.kubeconfig)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await process.communicate())[0].decode()
        return process.returncode or 0, printed

    async def where(self) -> list[tuple[str, str, str]]:
        """Name, host and state of every domain."""
        vms = (await self.vms.inventory()).vms
        return sorted((vm.name, vm.host, vm.state) for vm in vms)

    async def emulators(self, name: str) -> list[str]:
        """Hosts with a process of this VM, once for each process; libvirt is not asked."""
        found: list[str] = []
        for host in self.lab.hosts:
            count = await host.run("sh", "-c", f"pgrep -fc 'guest[=]{name},' || :")
            found += [host.name] * int(count)
        return found

    async def is_ready(self, host: str) -> bool:
        found = await self.kube.get(Hypervisor, host)
        return found is not None and is_true(found.conditions, HypervisorConditionType.READY)

    async def are_ready(self) -> bool:
        return all([await self.is_ready(host) for host in HOSTS])

    async def is_in_maintenance(self, host: str) -> bool:
        found = await self.kube.get(Hypervisor, host)
        return found is not None and bool(found.spec.maintenance)

    async def moves(self, name: str) -> bool:
        """Whether a VM is leaving kvm-1 now."""
        try:
            printed = await self.vms.host("kvm-1").run("virsh", "domjobinfo", name)
        except LabError:
            return False
        return "Outgoing migration" in printed and "Memory remaining" in printed

    async def make_slow(self, name: str) -> None:
        await self.vms.host("kvm-1").run("virsh", "migrate-setspeed", name, SLOW)

    async def kill_operator(self) -> None:
        (operator,) = processes.find(self.lab.state.id, ROLE)
        processes.send(operator, self.lab.state.id, signal.SIGKILL)
        await until(self._has_no_operator)

    async def _has_no_operator(self) -> bool:
        return not self.lab.operator.is_running


@pytest.fixture(scope="module")
def served(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts with everything that a lab has."""
    yield from served_lab(tmp_path_factory.mktemp("served"), hosts=len(HOSTS))


@pytest.fixture
async def site(served: Lab) -> AsyncIterator[Site]:
    async with served.control.client() as kube:
        site = Site(served, Fleet(served), kube)
        await until(site.are_ready)
        yield site
        await served.up(Wish())
        hosts = [host for host in HOSTS if await site.is_in_maintenance(host)]
        await asyncio.gather(*(site.cobalt("resume", host) for host in hosts))
        vms = {name for name, _, _ in await site.where()}
        await asyncio.gather(*(site.vms.remove(vm) for vm in vms))


async def test_a_host_is_emptied_and_its_guests_stay_reachable(site: Site) -> None:
    made = await site.vms.add(
        Request(name="a", host="kvm-1", disk="local"),
        Request(name="b", host="kvm-1", disk="shared"),
        Request(name="c", host="kvm-1", disk="shared"),
        Request(name="d", host="kvm-2"),
    )
    await site.vms.stop("c")
    written = {name: await site.vms.tell(name, "write-disk 4") for name in "ab"}
    address = {vm.name: vm.title.split()[1] for vm in made}
    await site.vms.tell("d", f"ping {address['a']} 10 0.2")
    await _pings(site, "d", 1)
    await site.vms.tell("d", f"ping {address['a']} 150 0.1")

    code, printed = await site.cobalt("evict", "kvm-1", "--watch")

    assert code == 0, printed
    assert "3 instances left kvm-1" in printed
    there = await site.where()
    assert [name for name, host, _ in there if host == "kvm-1"] == []
    assert {name: state for name, _, state in there} == {
        "a": "running",
        "b": "running",
        "c": "shut off",
        "d": "running",
    }
    for name in "ab":
        assert await site.vms.tell(name, "read-disk 4") == written[name]
    sent, received = await _pings(site, "d", 2)
    assert sent == 150
    assert received >= 140
    found = await site.kube.get(Hypervisor, "kvm-1")
    assert found is not None
    assert found.status.evicted

    code, printed = await site.cobalt("resume", "kvm-1")
    assert code == 0, printed
    await until(lambda: site.is_ready("kvm-1"))


async def test_what_cannot_move_is_named_and_the_others_go(site: Site) -> None:
    await site.vms.add(
        Request(name="a", host="kvm-1", kind="boot", disk="local"),
        Request(name="b", host="kvm-1", kind="boot", disk="shared"),
    )
    await site.vms.host("kvm-1").run("virsh", "destroy", "a")

    code, printed = await site.cobalt("evict", "kvm-1", "--watch")

    assert code != 0
    assert "a " in printed
    assert "it is off and has disks on the host itself" in printed
    _, printed = await site.cobalt("explain", "eviction/kvm-1")
    assert "Given up (1):" in printed
    assert re.search(r"- a \(.*it is off and has disks on the host itself: .*start it", printed), (
        printed
    )
    assert "cobalt evict kvm-1" in printed
    assert ("a", "kvm-1", "shut off") in await site.where()
    assert [host for name, host, _ in await site.where() if name == "b"] != ["kvm-1"]


async def _asked(site: Site) -> bool:
    return bool((await site.kube.list(Eviction)).items)


async def _moving(site: Site) -> bool:
    return await site.moves("a")


async def _arrived(site: Site) -> bool:
    return any(
        name == "a" and host != "kvm-1" and state == "running"
        for name, host, state in await site.where()
    )


@pytest.mark.parametrize("point", [_asked, _moving, _arrived])
async def test_an_operator_that_is_killed_loses_and_doubles_nothing(
    site: Site, point: Callable[[Site], Awaitable[bool]]
) -> None:
    await site.vms.add(
        Request(name="a", host="kvm-1", disk="local"), Request(name="b", host="kvm-1")
    )
    await site.vms.stop("b")
    written = await site.vms.tell("a", "write-disk 4")
    await site.make_slow("a")

    await site.cobalt("evict", "kvm-1")
    await until(lambda: point(site))
    await site.kill_operator()
    await site.lab.operator.start()

    await until(lambda: _is_empty(site), 120)
    assert [(name, state) for name, _, state in await site.where()] == [
        ("a", "running"),
        ("b", "shut off"),
    ]
    assert len(await site.emulators("a")) == 1
    assert await site.emulators("b") == []
    assert await site.vms.tell("a", "read-disk 4") == written


async def test_a_target_that_dies_costs_another_attempt(site: Site) -> None:
    await site.vms.add(Request(name="a", host="kvm-1"))
    await site.make_slow("a")

    await site.cobalt("evict", "kvm-1")
    await until(lambda: site.moves("a"))
    (target,) = [host for name, host, _ in await site.where() if host != "kvm-1"]
    await site.vms.host(target).crash()

    await until(lambda: _runs_on(site, {*HOSTS} - {"kvm-1", target}), 200)
    assert len(await _alive(site, "a")) == 1


async def test_a_libvirtd_that_dies_in_the_middle_loses_nothing(site: Site) -> None:
    await site.vms.add(Request(name="a", host="kvm-1", disk="shared"))
    await site.make_slow("a")

    await site.cobalt("evict", "kvm-1")
    await until(lambda: site.moves("a"))
    await site.vms.host("kvm-1").run("pkill", "-KILL", "-x", "libvirtd")

    await until(lambda: _is_empty(site), 200)
    assert [(name, state) for name, _, state in await site.where()] == [("a", "running")]
    assert len(await site.emulators("a")) == 1


async def test_an_old_eviction_of_a_host_does_not_let_its_shutdown_take_the_guests_along(
    site: Site,
) -> None:
    spec = EvictionSpec(hypervisor="kvm-1", reason="weeks ago", trigger="Manual")
    await site.kube.create(Eviction(metadata=ObjectMeta(name="kvm-1"), spec=spec))
    await until(lambda: _has_ended(site))
    await site.vms.add(Request(name="a", host="kvm-1"))
    await until(lambda: _is_reported(site))

    await site.vms.host("kvm-1").shutdown()

    (moved,) = await site.where()
    assert moved[0] == "a"
    assert moved[1] in HOSTS[1:]
    assert moved[2] == "running"


async def _has_ended(site: Site) -> bool:
    found = await site.kube.get(Eviction, "kvm-1")
    conditions = found.status.conditions if found else ()
    evicting = get_condition(conditions, EvictionConditionType.EVICTING)
    return evicting is not None and evicting.reason == EvictionReason.SUCCEEDED


async def _is_reported(site: Site) -> bool:
    found = await site.kube.get(Hypervisor, "kvm-1")
    return found is not None and found.status.numInstances == 1


async def _runs_on(site: Site, hosts: set[str]) -> bool:
    there = await site.where()
    return any(host in hosts and state == "running" for _, host, state in there)


async def _alive(site: Site, name: str) -> list[str]:
    return [host for vm, host, state in await site.where() if (vm, state) == (name, "running")]


async def _is_empty(site: Site) -> bool:
    """The Eviction has ended well, and kvm-1 has nothing."""
    found = await site.kube.get(Hypervisor, "kvm-1")
    nothing = [host for _, host, _ in await site.where() if host == "kvm-1"] == []
    return nothing and found is not None and bool(found.status.evicted)


async def _pings(site: Site, name: str, number: int) -> tuple[int, int]:
    """Sent and received, as the guest counted them the last time."""
    log = site.vms.log(name)

    async def are_there() -> bool:
        return len(_PINGED.findall(log.read_text())) >= number

    await until(are_there)
    sent, received = _PINGED.findall(log.read_text())[number - 1]
    return int(sent), int(received)


_PINGED = re.compile(r"pinged \S+ (\d+) packets transmitted, (\d+) packets received")
