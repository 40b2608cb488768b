"""A host that no device switches off: cut off from its storage, evacuated, given it back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.operator.conftest import until
from tests.integration.operator.dying import Dying
from tests.integration.operator.failing import (
    Host,
    Site,
    evictions_of,
    failing_site,
    fencing,
    gone,
    recovered,
    recovering,
    run_until_death,
    start,
)
from tests.integration.operator.lifecycle import message
from tests.integration.runtime.scripted import eventually

from hypercobalt.adapters.fencing.fake import FakeFenceDevice
from hypercobalt.adapters.fencing.port import FenceError, FenceFailure, PowerState
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.runtime import Kube

OFF, ON = PowerState.OFF, PowerState.ON
BLOCKED = "RecoveryBlocked"
AWAY = FenceError("bmc: no route to host", FenceFailure.FAILED)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]


def with_storage(site: Site, name: str) -> FakeFenceDevice:
    """A storage device for a host whose BMC has lost its power."""
    site.fences.by_node[name].failure = AWAY
    site.fences.power_lasts = timedelta(seconds=3)  # an attempt without an end is waited out
    return site.fences.add_storage(name)


async def evacuated(site: Site, dead: Host) -> None:
    """The host dies, is cut off from its storage, and its servers run elsewhere."""
    await dead.dies()
    fenced = await dead.until("Fenced", "True/Proven")
    assert (is_fenced(fenced), fencing(fenced).method) == (True, "Storage")
    assert "bmc: no route to host" in fencing(fenced).evidence[-2]
    await recovered(site, dead.name)


async def test_host_whose_bmc_is_dead_is_cut_off_evacuated_and_gets_its_storage_back(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name, servers=2)
    storage = with_storage(site, name)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
        await evacuated(site, dead)
        assert (storage.orders, storage.state) == ([OFF], OFF)

        site.compute.moves.clean(name)
        storage.failure = FenceError("san: switch is rebooting", FenceFailure.FAILED)
        await dead.comes_back()
        held = await until(
            kube, Hypervisor, name, lambda hv: "switch is rebooting" in message(hv, BLOCKED)
        )
        assert message(held, BLOCKED).startswith("The host is back, but not its access to the")
        assert (held.spec.maintenance, fencing(held).storageDevice) == ("ha", storage.name)
        assert site.compute.world.hosts[name].forced_down
        storage.failure = None
        back = await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
        assert (storage.state, fencing(back).phase) == (ON, "Released")
        assert fencing(back).storageDevice is None
        await dead.until("Ready", "True/Ready")
        assert not site.compute.world.hosts[name].forced_down
    assert storage.orders == [OFF, ON, ON]
    assert dead.device.orders == []


async def test_host_that_lives_behind_its_storage_fence_gets_nothing_back_before_it_reboots(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    site = failing_site(kube, name)
    storage = with_storage(site, name)
    site.compute.moves.disabled.update(host.name for host in site.hosts)  # nowhere to go
    async with recovering(kubeconfig, site.compute, site.fences):
        cut_off = await start(site)
        await cut_off.dies()
        await cut_off.until("Fenced", "True/Proven")
        await eventually(lambda: site.compute.world.hosts[name].forced_down)
        await cut_off.reports("True")  # in the same boot
        found = await until(
            kube, Hypervisor, name, lambda hv: "reboot the host" in message(hv, BLOCKED)
        )
        assert found.spec.maintenance == "ha"
        await gone(kube, name)
        assert (storage.orders, len(site.compute.moves.on(name))) == ([OFF], 1)
        cut_off.device.failure = None
        await cut_off.comes_back()
        await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
    assert storage.orders == [OFF, ON]


@pytest.mark.parametrize("writes", [5, 8, 11])
async def test_operator_that_dies_after_any_write_cuts_off_once_and_gives_back_once(
    kube: Kube, kubeconfig: Path, name: str, writes: int
) -> None:
    site = failing_site(kube, name)
    storage = with_storage(site, name)
    async with recovering(kubeconfig, site.compute, site.fences):
        dead = await start(site)
    await dead.dies()
    async with site.agents():
        await run_until_death(kubeconfig, site, Dying(writes))
    async with site.agents(), recovering(kubeconfig, site.compute, site.fences):
        await dead.until("Fenced", "True/Proven")
        await recovered(site, name)
        assert len(await evictions_of(kube, name)) == 1
        assert storage.orders == [OFF]
        site.compute.moves.clean(name)
        await dead.comes_back()
        await until(kube, Hypervisor, name, lambda hv: not hv.spec.maintenance)
    assert storage.orders == [OFF, ON]
