"""Real hosts for tests: booted on request, reused while unchanged, then removed.

A host with a node agent is never kept: the agent remembers, and reports for minutes, what happened
to the instances of a test that is over, and its calls to libvirt show in other tests.

    pytest -p hypercobalt.lab.pytest_plugin

    async def test_x(hosts): first, second = await hosts(2); await first.crash()

Where the machine cannot boot hosts the tests are skipped, with the reason; with CI=true they fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import pytest
import pytest_asyncio

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.lab import agents
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.machine import facts, packages, preflight
from hypercobalt.lab.machine.preflight import Demand
from hypercobalt.lab.membership import add_host, remove_host
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.shared_mount import faults
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.runtime import AlreadyExistsError, Kube

T = TypeVar("T")
TakeFleet = Callable[[int], Awaitable[Fleet]]
TakeHosts = Callable[[int], Awaitable[tuple[Host, ...]]]

BARE = Setup(control_plane=False, ovn=False, operator=False)
NODES = Setup(control_plane=True, ovn=False, operator=False)
SWITCHED = Setup(control_plane=False, ovn=True, operator=False)
_SPEC: Final = HypervisorSpec(
    reboot=False,
    evacuateOnReboot=True,
    lifecycleEnabled=True,
    skipTests=True,
    highAvailability=True,
    createCertManagerCertificate=False,
    installCertificate=False,
)


def run(work: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end beside the loop of the tests."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def able_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A machine that can boot hosts; in CI what is missing is installed, or the tests fail."""
    in_ci = os.environ.get("CI") == "true"
    observed = run(facts.observe(tmp_path_factory.getbasetemp()))
    readiness = preflight.decide(observed, Demand(hosts=3, guests=2))
    if readiness.can_boot and readiness.install and in_ci:
        run(packages.install(readiness.install))
    elif readiness.install or not readiness.can_boot:
        why = [lack.what for lack in (*readiness.lacks, *readiness.shortages)]
        if readiness.install:
            why.append(
                f"packages are missing ({' '.join(readiness.install)}): run `cobalt lab up` once"
            )
        text = f"no host can be booted here: {'; '.join(why)}"
        if in_ci:
            pytest.fail(text)
        pytest.skip(text)


@pytest.fixture(scope="session")
def lab(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab without hosts: a network, a shared directory, and room for hosts."""
    data = tmp_path_factory.mktemp("lab")
    try:
        yield run(_empty_lab(data))
    finally:
        run(down(data))


async def _empty_lab(data: Path) -> Lab:
    made = await Lab.make(data)
    await made.share()
    return made


@pytest_asyncio.fixture
async def hosts(lab: Lab) -> AsyncIterator[TakeHosts]:
    """Running bare hosts, as many as a test requests; what the test did to them is undone."""
    yield lambda count: _take(lab, count, BARE)
    await _mend(lab)


@pytest_asyncio.fixture
async def nodes(lab: Lab, api: Kube) -> AsyncIterator[TakeHosts]:
    """New hosts, as many as a test requests, each with Node, Hypervisor and node agent."""

    async def take(count: int) -> tuple[Host, ...]:
        taken = await _take(lab, count, NODES)
        for host in taken:
            await _make_hypervisor(api, host.name)
        return taken

    yield take
    await _mend(lab)


@pytest.fixture(scope="session")
def api_server(lab: Lab) -> Lab:
    """The lab with its API server."""
    run(lab.control.start())
    return lab


@pytest_asyncio.fixture
async def api(api_server: Lab) -> AsyncIterator[Kube]:
    """An administrator's client of the lab's API server."""
    async with api_server.control.client() as kube:
        yield kube


@pytest.fixture(scope="session")
def switched(lab: Lab) -> Lab:
    """The lab with OVN's databases and the top of rack."""
    run(lab.central.start())
    run(lab.rack.start())
    return lab


@pytest_asyncio.fixture
async def fleet(switched: Lab) -> AsyncIterator[TakeFleet]:
    """VMs on as many hosts as a test requests; all are gone afterwards."""

    async def take(count: int) -> Fleet:
        taken = {host.name for host in await _take(switched, count, SWITCHED)}
        for host in switched.hosts:  # VMs would be put on any host
            if host.name not in taken:
                await remove_host(switched, host.name)
        return Fleet(switched)

    yield take
    _mend_storage(switched)  # the disk of a VM cannot be removed while it does not answer
    try:
        for name in {vm.name for vm in (await Fleet(switched).inventory()).vms}:
            await Fleet(switched).remove(name)
    finally:
        await _mend(switched)


async def _take(lab: Lab, count: int, setup: Setup) -> tuple[Host, ...]:
    """The hosts kvm-1 to kvm-`count`: by name, for a host that was removed leaves a gap."""
    known = {host.name for host in lab.hosts}
    names = [f"kvm-{number}" for number in range(1, count + 1)]
    async with asyncio.TaskGroup() as group:
        for name in names:
            if name in known:
                group.create_task(lab.up_host(lab.host(name), setup))
            else:
                group.create_task(add_host(lab, name, setup=setup))
    return tuple([lab.host(name) for name in names])


def _mend_storage(lab: Lab) -> None:
    for host in lab.hosts:
        faults(lab.layout).write(host.machine, None)


async def _mend(lab: Lab) -> None:
    """Repair the storage, and throw away every host that is not as it was booted."""
    _mend_storage(lab)
    async with asyncio.TaskGroup() as group:
        for host in lab.hosts:
            group.create_task(_mend_host(lab, host))


async def _mend_host(lab: Lab, host: Host) -> None:
    if host.power is HostPower.RUNNING and host.wire.is_whole and not agents.installed(host):
        try:
            await host.check_services()
            if not (await host.run("virsh", "list", "--all", "--name")).strip():
                return
        except LabError:
            pass
    await remove_host(lab, host.name)


async def _make_hypervisor(api: Kube, name: str) -> None:
    """What the operator does, which is not there."""
    node = await api.get(Node, name)
    if node is None:
        raise LabError(f"Node {name} is not there")
    owner = owner_reference(node, blocks=True)
    meta = ObjectMeta(name=name, ownerReferences=(owner,))
    with contextlib.suppress(AlreadyExistsError):
        await api.create(Hypervisor(metadata=meta, spec=_SPEC))
    (address,) = [one.address for one in node.status.addresses if one.type == "InternalIP"]
    # Whatever version it has by now: the node agent writes it as well.
    known = {"status": {"internalIp": address}}
    await api.merge_patch(Hypervisor, name, known, subresource="status")
