"""The environment as a whole: up from nothing, and down whatever a crash left.

What runs on the machine is marked as a lab's processes are; the computes are hosts of that lab.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from hypercobalt.lab import bond, ovn, shared_mount
from hypercobalt.lab import lab as lab_site
from hypercobalt.lab import state as records
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host, needed_binds
from hypercobalt.lab.host import Place as HostPlace
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.progress import Report
from tests.openstack.client import Account, Json, Session
from tests.openstack.cloud import Cloud
from tests.openstack.env import apis, catalogue, computes, infra, remote, schema, seed, venv
from tests.openstack.env.place import Place

HOSTS: Final = ("compute-1", "compute-2")
_FOLDER = "openstack"
_COMPUTE_UP = 90  # seconds, on a busy machine
_STEP = 0.3


def _silent(_step: str, _progress: object) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Ready:
    """Events that other steps wait for."""

    broker: asyncio.Event = field(default_factory=asyncio.Event)
    database: asyncio.Event = field(default_factory=asyncio.Event)
    catalogue: asyncio.Event = field(default_factory=asyncio.Event)
    placement: asyncio.Event = field(default_factory=asyncio.Event)
    glance: asyncio.Event = field(default_factory=asyncio.Event)
    nova: asyncio.Event = field(default_factory=asyncio.Event)
    ovn: asyncio.Event = field(default_factory=asyncio.Event)
    neutron: asyncio.Event = field(default_factory=asyncio.Event)
    shared: asyncio.Event = field(default_factory=asyncio.Event)


class OpenStack:
    """An OpenStack with two computes. Get one from `up`, or from `OpenStack.find`."""

    def __init__(self, lab: Lab, programs: Path) -> None:
        self._lab = lab
        folder = lab.layout.data / _FOLDER
        state = lab.state
        self.place = Place(state.id, state.address, folder, lab.layout.log, programs)
        binds = (*needed_binds(), programs)
        place = HostPlace(lab.layout, state, binds)
        self.hosts = tuple(Host(place, record) for record in state.hosts)

    @classmethod
    async def find(cls, data: Path) -> OpenStack:
        """The one of a data directory, started earlier.

        Raises:
            LabError: there is none.
        """
        return cls(Lab.find(data), await venv.ready())

    # -- for those who use it --------------------------------------------------------------------

    @property
    def admin(self) -> Account:
        return catalogue.administrator(self.place)

    @property
    def cloud(self) -> Cloud:
        """What a test needs of the cloud."""
        return Cloud(
            admin=self.admin,
            tester=catalogue.tester(self.place),
            names=seed.NAMES,
            hosts=HOSTS,
            crash=lambda name: self.host(name).crash(),
            restore=self.restore,
            add_image=lambda name, words: seed.add_image(self.place, name, words),
            hinder=self.hinder,
            share_disks=lambda shared: self.share_disks(shared=shared),
        )

    @property
    def clouds_yaml(self) -> Path:
        """Where OpenStack's own clients find it, as the clouds `admin` and `test`."""
        return self.place.folder / "clouds.yaml"

    def host(self, name: str) -> Host:
        """A compute's host.

        Raises:
            LabError: there is none of that name.
        """
        self._lab.state.host(name)
        return next(host for host in self.hosts if host.name == name)

    async def restore(self, name: str) -> None:
        """Boot a host that is off, from its disk; nova-compute starts with it.

        Raises:
            LabError: it does not come up.
        """
        await self.host(name).start(self._lab.addresses)

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

    async def start(self) -> None:
        """Start everything, all at once as far as one thing needs no other.

        Raises:
            LabError: the first thing that failed; the others are ended.
        """
        self.place.folder.mkdir(mode=0o700)
        schema.write_configuration(self.place)
        self._write_clouds()
        ready, key = _Ready(), remote.Key.new()
        failure: BaseExceptionGroup[LabError] | None = None
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
                    self._seed(ready),
                    self._shared(ready),
                    *(self._compute(host, key, ready) for host in self.hosts),
                ):
                    group.create_task(work)
        except* LabError as failures:
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
        await self._step("catalogue", catalogue.write(self.place))
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
        await self._step("OVN", self._lab.central.start())
        await self._step("top of rack", self._lab.rack.start())
        ready.ovn.set()

    async def _neutron(self, ready: _Ready) -> None:
        for event in (ready.catalogue, ready.broker, ready.ovn):
            await event.wait()
        await self._step("neutron", apis.start_neutron(self.place))
        ready.neutron.set()

    async def _shared(self, ready: _Ready) -> None:
        await shared_mount.share(self._lab.layout, self._lab.state)
        ready.shared.set()

    async def _seed(self, ready: _Ready) -> None:
        for event in (ready.glance, ready.nova, ready.neutron):
            await event.wait()
        await self._step("flavors, images, network", seed.write(self.place))

    async def _compute(self, host: Host, key: remote.Key, ready: _Ready) -> None:
        await ready.shared.wait()
        await self._step(f"host {host.name}", host.start(self._lab.addresses))
        await remote.install(host, key)
        await ready.ovn.wait()
        await bond.join(host)
        await ovn.join(host, self._lab.central.southbound_remote)
        for event in (ready.catalogue, ready.broker, ready.placement):
            await event.wait()
        await self._step(f"nova-compute on {host.name}", self._start_compute(host, ready))

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
        await self._lab.step(name, work)

    def _write_clouds(self) -> None:
        accounts = {"admin": self.admin, "test": catalogue.tester(self.place)}
        clouds = {name: _cloud(account) for name, account in accounts.items()}
        self.clouds_yaml.write_text(yaml.safe_dump({"clouds": clouds}))


async def up(data: Path, report: Report = _silent) -> OpenStack:
    """An OpenStack in an empty directory; whatever is there of it when this fails, `down` removes.

    Raises:
        LabError: a step failed; the message has the end of its log.
    """
    programs = await venv.ready()
    lab = await Lab.make(data)
    state = lab.state
    for name in HOSTS:
        state = state.with_host(name)
    records.save_running(lab.layout, state)
    made = OpenStack(Lab(lab.layout, state, report), programs)
    await made.start()
    return made


async def down(data: Path) -> None:
    """Remove everything of an environment, whatever state a crash left it in.

    Raises:
        LabError: something does not go; calling again goes on from there.
    """
    await lab_site.down(data)
    shutil.rmtree(data / _FOLDER, ignore_errors=True)
    if data.exists() and not any(data.iterdir()):
        data.rmdir()


async def _is_up(nova: Session, name: str, before: str) -> bool:
    answer = await nova("compute", "GET", "/os-hypervisors/detail", version="2.88")
    found: Json = answer.body["hypervisors"] if answer.code == 200 else []
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


def _first(group: BaseExceptionGroup[LabError]) -> LabError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
