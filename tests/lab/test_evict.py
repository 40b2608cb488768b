"""`cobalt evict` on real hosts with real guests, by the operator of a lab; and its crashes."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.eviction import (
    Eviction,
    EvictionConditionType,
    EvictionReason,
    EvictionSpec,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.request import VMRequest
from tests.lab.kit.served import served_lab
from tests.lab.kit.site import HOSTS, Site, visited
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def served(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts with everything that a lab has."""
    yield from served_lab(tmp_path_factory.mktemp("served"), hosts=len(HOSTS))


@pytest.fixture
async def site(served: Lab) -> AsyncIterator[Site]:
    async with visited(served) as found:
        yield found


async def test_a_host_is_emptied_and_its_guests_stay_reachable(site: Site) -> None:
    made = await site.vms.add(
        VMRequest(name="a", host="kvm-1", disk="local"),
        VMRequest(name="b", host="kvm-1", disk="shared"),
        VMRequest(name="c", host="kvm-1", disk="shared"),
        VMRequest(name="d", host="kvm-2"),
    )
    await site.vms.stop("c")
    written = {name: await site.vms.order(name, "write-disk 4") for name in "ab"}
    address = {vm.name: vm.title.split()[1] for vm in made}
    await site.vms.order("d", f"ping {address['a']} 10 0.2")
    await site.pings("d", 1)
    await site.vms.order("d", f"ping {address['a']} 150 0.1")

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
        assert await site.vms.order(name, "read-disk 4") == written[name]
    sent, received = await site.pings("d", 2)
    assert sent == 150
    assert received >= 140
    found = await site.kube.get(Hypervisor, "kvm-1")
    assert found is not None
    assert found.status.evicted

    code, printed = await site.cobalt("resume", "kvm-1")
    assert code == 0, printed
    await until(lambda: site.is_ready("kvm-1"))


async def test_instance_that_cannot_move_is_named_and_the_others_leave(site: Site) -> None:
    await site.vms.add(
        VMRequest(name="a", host="kvm-1", kind="boot", disk="local"),
        VMRequest(name="b", host="kvm-1", kind="boot", disk="shared"),
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


async def _requested(site: Site) -> bool:
    return bool((await site.kube.list(Eviction)).items)


async def _moving(site: Site) -> bool:
    return await site.moves("a")


async def _arrived(site: Site) -> bool:
    return any(
        name == "a" and host != "kvm-1" and state == "running"
        for name, host, state in await site.where()
    )


@pytest.mark.parametrize("point", [_requested, _moving, _arrived])
async def test_an_operator_that_is_killed_loses_and_doubles_nothing(
    site: Site, point: Callable[[Site], Awaitable[bool]]
) -> None:
    await site.vms.add(
        VMRequest(name="a", host="kvm-1", disk="local"),
        VMRequest(name="b", host="kvm-1", kind="boot", disk="shared"),
    )
    await site.vms.host("kvm-1").run("virsh", "destroy", "b")
    written = await site.vms.order("a", "write-disk 4")
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
    assert await site.vms.order("a", "read-disk 4") == written


async def test_a_target_that_dies_costs_another_attempt(site: Site) -> None:
    await site.vms.add(VMRequest(name="a", host="kvm-1"))
    await site.make_slow("a")

    await site.cobalt("evict", "kvm-1")
    await until(lambda: site.moves("a"))
    (target,) = [host for name, host, _ in await site.where() if host != "kvm-1"]
    await site.vms.host(target).crash()

    await until(lambda: _is_empty(site), 200)
    (third,) = {*HOSTS} - {"kvm-1", target}
    assert await _alive(site, "a") == [third]


async def test_a_libvirtd_that_dies_in_the_middle_loses_nothing(site: Site) -> None:
    await site.vms.add(VMRequest(name="a", host="kvm-1", disk="shared"))
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
    await site.vms.add(VMRequest(name="a", host="kvm-1", kind="boot", disk="shared"))
    await until(lambda: _is_reported(site))
    await until(lambda: _is_held(site))

    await site.vms.host("kvm-1").shutdown()

    (moved,) = await site.where()
    assert moved[0] == "a"
    assert moved[1] in HOSTS[1:]
    assert moved[2] == "running"


async def _is_held(site: Site) -> bool:
    """Whether the agent holds up a shutdown."""
    listed = ("systemd-inhibit", "--list", "--no-legend", "--no-pager")
    return "hypercobalt" in await site.vms.host("kvm-1").run(*listed)


async def _has_ended(site: Site) -> bool:
    found = await site.kube.get(Eviction, "kvm-1")
    conditions = found.status.conditions if found else ()
    evicting = get_condition(conditions, EvictionConditionType.EVICTING)
    return evicting is not None and evicting.reason == EvictionReason.SUCCEEDED


async def _is_reported(site: Site) -> bool:
    found = await site.kube.get(Hypervisor, "kvm-1")
    return found is not None and found.status.numInstances == 1


async def _alive(site: Site, name: str) -> list[str]:
    return [host for vm, host, state in await site.where() if (vm, state) == (name, "running")]


async def _is_empty(site: Site) -> bool:
    """The Eviction has ended well, and kvm-1 has nothing.

    The API is asked first: each look at the domains starts a virsh on every host.
    """
    found = await site.kube.get(Hypervisor, "kvm-1")
    if found is None or not found.status.evicted:
        return False
    return all(host != "kvm-1" for _, host, _ in await site.where())
