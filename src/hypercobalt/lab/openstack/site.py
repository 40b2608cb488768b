"""The OpenStack of a lab as a whole: start it, find it again, and restart what has died.

What runs on the machine is marked as a lab's processes are; the computes are the lab's hosts, and
`hypercobalt.lab.lab.down` removes everything. A step that is done only once leaves a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

import yaml

from hypercobalt.errors import HypercobaltError
from hypercobalt.lab.control import ZONES
from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.openstack import (
    apis,
    catalogue,
    computes,
    infra,
    metadata,
    remote,
    schema,
    seed,
    servers,
    venv,
    volumes,
)
from hypercobalt.lab.openstack.client import Account, Json, Session
from hypercobalt.lab.openstack.place import OpenStackPlace
from hypercobalt.lab.progress import Report, silent
from hypercobalt.lab.ready import Ready
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.state import NODE_GRACE

HOSTS: Final = ("compute-1", "compute-2")
ALONE: Final = Setup(control_plane=False, operator=False)
"""OpenStack and its computes, without Kubernetes."""
_COMPUTE_UP = 90  # seconds, on a busy machine
_STEP = 0.3
_QUICK, _PATIENT = 30, 60  # seconds that a service of Nova may be silent


@dataclass(frozen=True, slots=True)
class _Ready:
    """Events that other steps wait for."""

    lab: Ready = field(default_factory=Ready)
    broker: asyncio.Event = field(default_factory=asyncio.Event)
    database: asyncio.Event = field(default_factory=asyncio.Event)
    catalogue: asyncio.Event = field(default_factory=asyncio.Event)
    placement: asyncio.Event = field(default_factory=asyncio.Event)
    glance: asyncio.Event = field(default_factory=asyncio.Event)
    nova: asyncio.Event = field(default_factory=asyncio.Event)
    ovn: asyncio.Event = field(default_factory=asyncio.Event)
    neutron: asyncio.Event = field(default_factory=asyncio.Event)


class OpenStack:
    """An OpenStack whose computes are a lab's hosts. Get one from `up` or `OpenStack.find`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        state, layout = lab.state, lab.layout
        # In a lab whose Nodes are soon Unknown, Nova misses a host before its agent's Lease ends.
        silence = _QUICK if state.is_quick else _PATIENT
        folder, programs = layout.openstack, Path(state.openstack)
        self.place = OpenStackPlace(state.id, state.address, folder, layout.log, programs, silence)

    @classmethod
    def find(cls, data: Path) -> OpenStack:
        """The one of a data directory, started earlier.

        Raises:
            LabError: there is none.
        """
        lab = Lab.find(data)
        if not lab.state.openstack:
            raise LabRequestError(f"the lab in {data} has no OpenStack")
        return cls(lab)

    @classmethod
    async def up(cls, lab: Lab, setup: Setup, hosts: Sequence[str] = ()) -> Self:
        """Give a new lab an OpenStack, or start what has died of one.

        Args:
            lab: without hosts, or with its OpenStack.
            setup: how many hosts and servers a new one gets, and what the hosts join.
            hosts: their names; kvm-1 and so on when not given.

        Raises:
            HypercobaltError: a step failed; the message has the end of its log.
            OSError: as well; a disk is full, for example.
        """
        programs = await lab.step("programs of OpenStack", venv.ready())
        names = hosts or tuple(f"kvm-{number}" for number in range(1, setup.hosts + 1))
        lab.plan(names, setup.vms, programs)
        made = cls(lab)
        await made.start(setup)
        await servers.complete(lab, made.admin)
        return made

    # -- for those who use it --------------------------------------------------------------------

    @property
    def admin(self) -> Account:
        return catalogue.administrator(self.place)

    @property
    def tester(self) -> Account:
        """A user with a project and no other right."""
        return catalogue.tester(self.place)

    @property
    def hosts(self) -> tuple[Host, ...]:
        return self.lab.hosts

    async def restore(self, name: str) -> None:
        """Boot a host that is off, from its disk; nova-compute starts with it.

        Raises:
            LabError: it does not come up.
        """
        await self.lab.host(name).start(self.lab.addresses)

    async def hinder(self, server: str) -> None:
        """Let live migrations of a server copy 4 MiB a second.

        Raises:
            LabError: it is on no host.
        """
        for host in self.hosts:
            if server in (await host.run("virsh", "list", "--uuid")).split():
                await host.run("virsh", "migrate-setspeed", server, "4")
                return
        raise LabError(f"server {server} runs on no host")

    async def share_disks(self, *, shared: bool) -> None:
        """Configure whether disks of new servers are on shared storage; there are no servers.

        Raises:
            LabError: a compute does not come up again.
        """
        async with asyncio.TaskGroup() as group:
            for host in self.hosts:
                group.create_task(self._restart(host, shared=shared))

    async def _restart(self, host: Host, *, shared: bool) -> None:
        await computes.configure(self.place, host, shared=shared)
        await host.run("systemctl", "restart", computes.SERVICE)
        async with Session(self.admin) as nova:
            before = await _last_report(nova, host.name)
        await self._wait_for_compute(host, before)

    # -- up ----------------------------------------------------------------------------------------

    async def start(self, setup: Setup = ALONE) -> None:
        """Start what does not run, all at once as far as one thing needs no other.

        Args:
            setup: what the hosts join beside it.

        Raises:
            HypercobaltError: the first thing that failed; the others are ended.
            OSError: as well; a disk is full, for example.
        """
        self.place.folder.mkdir(mode=0o700, exist_ok=True)
        schema.write_configuration(self.place)
        metadata.configure(self.place)
        self._write_clouds()
        ready, key = _Ready(), remote.SSHKey.new()
        failure: BaseExceptionGroup[HypercobaltError | OSError] | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for work in (
                    self._broker(ready),
                    self._database(ready),
                    self._keystone(ready),
                    self._placement(ready),
                    self._glance(ready),
                    self._nova(ready),
                    self._ovn(ready),
                    self._neutron(ready),
                    self._cinder(ready),
                    self._seed(ready),
                    self._shared(ready),
                    *((self._control_plane(ready),) if setup.control_plane else ()),
                    *(self._compute(host, key, setup, ready) for host in self.hosts),
                ):
                    group.create_task(work)
        except* (HypercobaltError, OSError) as failures:
            failure = failures
        if failure is not None:
            raise _first(failure)

    async def _broker(self, ready: _Ready) -> None:
        await self._step("RabbitMQ", infra.start_broker(self.place))
        ready.broker.set()

    async def _database(self, ready: _Ready) -> None:
        await self._step("databases", schema.copy(self.place))
        await self._step("MariaDB", infra.start_database(self.place))
        await schema.settle(self.place)
        ready.database.set()

    async def _keystone(self, ready: _Ready) -> None:
        await ready.database.wait()
        await self._step("keystone", apis.start_keystone(self.place))
        await self._once("catalogue", lambda: catalogue.write(self.place))
        ready.catalogue.set()

    async def _placement(self, ready: _Ready) -> None:
        await ready.database.wait()
        await self._step("placement", apis.start_placement(self.place))
        ready.placement.set()

    async def _glance(self, ready: _Ready) -> None:
        await ready.catalogue.wait()
        await self._step("glance", apis.start_glance(self.place))
        ready.glance.set()

    async def _nova(self, ready: _Ready) -> None:
        # Nova's services remember what was missing in the catalogue.
        await ready.catalogue.wait()
        await ready.broker.wait()
        await self._step("nova", apis.start_nova(self.place))
        ready.nova.set()

    async def _ovn(self, ready: _Ready) -> None:
        await self._step("OVN", self.lab.central.start())
        ready.ovn.set()
        ready.lab.ovn.set()
        await self._step("top of rack", self.lab.rack.start())
        ready.lab.rack.set()

    async def _neutron(self, ready: _Ready) -> None:
        for event in (ready.catalogue, ready.broker, ready.ovn):
            await event.wait()
        await self._step("neutron", apis.start_neutron(self.place))
        ready.neutron.set()

    async def _cinder(self, ready: _Ready) -> None:
        for event in (ready.catalogue, ready.broker, ready.lab.shared):
            await event.wait()
        await self._step("cinder", volumes.start(self.place, self.lab.layout.shared_files))

    async def _shared(self, ready: _Ready) -> None:
        await self.lab.share()
        ready.lab.shared.set()

    async def _seed(self, ready: _Ready) -> None:
        for event in (ready.glance, ready.nova, ready.neutron):
            await event.wait()
        await self._once("flavors, images, network", lambda: seed.write(self.place))

    async def _control_plane(self, ready: _Ready) -> None:
        await self._step("API server", self.lab.control.start())
        ready.lab.api.set()
        await ready.nova.wait()
        await self._once("zones", lambda: seed.write_zones(self.place, ZONES))
        await self._step("operator", self.lab.operator.start())
        ready.lab.operator.set()

    async def _compute(self, host: Host, key: remote.SSHKey, setup: Setup, ready: _Ready) -> None:
        await ready.lab.shared.wait()
        await self.lab.boot_host(host, setup, ready.lab)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nova_compute(host, key, ready))
            group.create_task(self._metadata_agent(host, ready))
            group.create_task(self.lab.join_control_plane(host, setup, ready.lab))

    async def _nova_compute(self, host: Host, key: remote.SSHKey, ready: _Ready) -> None:
        await remote.install(host, key)
        for event in (ready.catalogue, ready.broker, ready.placement):
            await event.wait()
        await self._step(f"nova-compute on {host.name}", self._start_compute(host, ready))

    async def _metadata_agent(self, host: Host, ready: _Ready) -> None:
        await ready.ovn.wait()
        install = metadata.install(self.place, host, self.lab.central)
        await self._step(f"metadata agent on {host.name}", install)

    async def _start_compute(self, host: Host, ready: _Ready) -> None:
        await computes.install(self.place, host, shared=True)
        await ready.nova.wait()
        await self._wait_for_compute(host)

    async def _wait_for_compute(self, host: Host, before: str = "") -> None:
        """Wait until Nova shows a hypervisor as up, and its scheduler lists it.

        Args:
            host: with the compute.
            before: time of its last report; the host is up when Nova has a later one.

        Raises:
            LabError: it does not in time; the message has the end of its log.
        """
        try:
            async with asyncio.timeout(_COMPUTE_UP), Session(self.admin) as nova:
                while not await _is_up(nova, host.name, before):
                    await apis.check(self.place)
                    await asyncio.sleep(_STEP)
        except TimeoutError:
            raise LabError(
                f"nova-compute on {host.name} is not up after {_COMPUTE_UP} s: "
                f"{await computes.last_words(host)}"
            ) from None

    async def _step(self, name: str, work: Awaitable[object]) -> None:
        await self.lab.step(name, work)

    async def _once(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        done = self.place.folder / f"{name.partition(',')[0]}.done"
        if not done.exists():
            await self._step(name, work())
            done.touch()

    def _write_clouds(self) -> None:
        accounts = {"admin": self.admin, "test": self.tester}
        clouds = {name: _cloud(account) for name, account in accounts.items()}
        self.lab.layout.clouds.write_text(yaml.safe_dump({"clouds": clouds}))


async def up(
    data: Path,
    report: Report = silent,
    *,
    hosts: Sequence[str] = HOSTS,
    setup: Setup = ALONE,
    api_port: int = 6443,
    node_grace: timedelta = NODE_GRACE,
) -> OpenStack:
    """An OpenStack in an empty directory; whatever is there of it when this fails, `down` removes.

    Args:
        data: the directory.
        report: called with each step that begins or ends.
        hosts: names of its computes.
        setup: what they join beside it.
        api_port: of the API server; 0 is one that is free now.
        node_grace: how long a Node may be silent until it is Unknown.

    Raises:
        HypercobaltError: a step failed; the message has the end of its log.
    """
    lab = await Lab.make(data, report, api_port=api_port, node_grace=node_grace)
    return await OpenStack.up(lab, setup, hosts)


async def _is_up(nova: Session, name: str, before: str) -> bool:
    answer = await nova("compute", "GET", "/os-hypervisors/detail", version="2.88")
    found: Json = answer.body["hypervisors"] if answer.code == 200 else []  # noqa: PLR2004 - HTTP
    up = any(h["hypervisor_hostname"] == name and h["state"] == "up" for h in found)
    return up and await _last_report(nova, name) != before


async def _last_report(nova: Session, name: str) -> str:
    answer = await nova("compute", "GET", f"/os-services?host={name}", version="2.88")
    (found,) = answer.ok()["services"]
    return str(found["updated_at"])


def _cloud(account: Account) -> dict[str, object]:
    return {
        "auth": {
            "auth_url": account.auth_url,
            "username": account.user,
            "password": account.password,
            "project_name": account.project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        "region_name": account.region,
        "identity_api_version": 3,
    }


def _first(
    group: BaseExceptionGroup[HypercobaltError | OSError],
) -> HypercobaltError | OSError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
