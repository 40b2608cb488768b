"""The lab as a whole: made, found again and taken down.

Every step may be the first one after a crash: it looks at what is there and makes what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from datetime import timedelta
from pathlib import Path

import msgspec

from hypercobalt.apiserver.storage.database import discard
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import (
    agents,
    bond,
    kubelet,
    migration_tls,
    ovn,
    processes,
    shared_mount,
)
from hypercobalt.lab import state as records
from hypercobalt.lab.binds import needed_binds
from hypercobalt.lab.bmc.boards import Boards
from hypercobalt.lab.commands import run
from hypercobalt.lab.control import ControlPlane
from hypercobalt.lab.errors import LabRequestError, first_of
from hypercobalt.lab.host import Host, HostPlace, HostPower
from hypercobalt.lab.network import bridge
from hypercobalt.lab.network.rack import Rack
from hypercobalt.lab.operator import Operator
from hypercobalt.lab.pods import handling
from hypercobalt.lab.pods.actors import VirtActors
from hypercobalt.lab.pods.running import install as running
from hypercobalt.lab.pods.running.install import PODS
from hypercobalt.lab.progress import Report, T, silent, step
from hypercobalt.lab.ready import Ready
from hypercobalt.lab.removal import forget, throw_away
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.state import NODE_GRACE, HostRecord, LabState, Layout


class Lab:
    """A lab in a data directory. Get one from `Lab.make` or `Lab.find`."""

    def __init__(self, layout: Layout, state: LabState, report: Report = silent) -> None:
        self.layout = layout
        self.state = state
        self._report = report
        self._binds, self._oldest = needed_binds(), processes.Oldest(state.id)

    @classmethod
    def find(cls, data: Path, report: Report = silent) -> Lab:
        """The lab of a data directory, running or not.

        Raises:
            LabError: there is none, or another user's.
        """
        layout = Layout.at(data)
        state = records.known(layout)
        if state is None:
            raise LabRequestError(
                f"there is no lab in {layout.data}; start one with `cobalt lab up`"
            )
        return cls(layout, state, report)

    @classmethod
    async def make(
        cls,
        data: Path,
        report: Report = silent,
        *,
        api_port: int = 6443,
        node_grace: timedelta = NODE_GRACE,
    ) -> Lab:
        """The lab of a data directory; a new one, without hosts, where there is none.

        Args:
            data: the directory.
            report: called with each step that begins or ends.
            api_port: of a new lab's API server; 0 is one that is free now.
            node_grace: how long a Node of a new lab may be silent until it is Unknown.

        Raises:
            LabError: no network is free, the machine refuses, or a lab runs whose files are gone.
        """
        layout = Layout.at(data)
        layout.data.mkdir(parents=True, exist_ok=True)
        state = records.known(layout)
        if state is None:
            fresh = records.new(api_port, node_grace)
            state = await _begin(layout, fresh)
        elif not await bridge.make_bridge(state):
            state = await bridge.take_network(layout, state)
        if not state.api_port:
            state = msgspec.structs.replace(state, api_port=bridge.free_port(state))
            records.save_running(layout, state)
        layout.log.mkdir(exist_ok=True)
        return cls(layout, state, report)

    # -- what is there -------------------------------------------------------------------------

    @property
    def is_there(self) -> bool:
        """Whether the lab was neither taken down nor replaced by another in its directory.

        Raises:
            LabError: its state cannot be read.
        """
        stored = records.load(self.layout)
        return stored is not None and stored.id == self.state.id

    @property
    def hosts(self) -> tuple[Host, ...]:
        return tuple(self._host(record) for record in self.state.hosts)

    def host(self, name: str) -> Host:
        """A host by its name.

        Raises:
            LabError: there is none of that name.
        """
        return self._host(self.state.host(name))

    def _host(self, record: HostRecord) -> Host:
        programs = (Path(self.state.openstack),) if self.state.openstack else ()
        return Host(
            HostPlace(self.layout, self.state, self._oldest, (*self._binds, *programs)), record
        )

    @property
    def addresses(self) -> dict[str, str]:
        """Address by name: of the hosts, and `api` for the machine."""
        hosts = {host.name: self.state.host_address(host) for host in self.state.hosts}
        return {"api": self.state.address} | hosts

    @property
    def control(self) -> ControlPlane:
        return ControlPlane(self.layout, self.state, self._oldest)

    @property
    def operator(self) -> Operator:
        return Operator(self.layout, self.state, self._oldest, self.control)

    @property
    def actors(self) -> VirtActors:
        """What acts on VirtualMachineInstances beside the hosts."""
        return VirtActors(self.layout, self.state, self._oldest, self.control)

    @property
    def boards(self) -> Boards:
        return Boards(self.layout, self.state, self._oldest)

    @property
    def central(self) -> ovn.Central:
        return ovn.Central(self.layout, self.state, self._oldest)

    @property
    def rack(self) -> Rack:
        """The switch that the hosts' bonds end in."""
        return Rack(self.layout, self.state, self._oldest)

    @property
    def running(self) -> Setup:
        """What a host can join now."""
        control, central = self.control.is_running, self.central
        return Setup(len(self.state.hosts), control, central.is_made, self.operator.is_running)

    # -- up ------------------------------------------------------------------------------------

    async def up(self, setup: Setup) -> None:
        """Make what is missing, all at once as far as one thing needs no other.

        Raises:
            HypercobaltError: the first thing that failed; the others are ended.
            OSError: as well; a disk is full, for example.
        """
        names = tuple(f"kvm-{number}" for number in range(1, setup.hosts + 1))
        self.plan(names, setup.vms, virt=setup.virt)
        ready = Ready()
        failure: HypercobaltError | OSError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._shared(ready), name="shared directory")
                if setup.control_plane:
                    group.create_task(self._control_plane(ready, setup), name="API server")
                if setup.ovn:
                    group.create_task(self._central(ready), name="OVN")
                    group.create_task(self._rack(ready), name="top of rack")
                for host in self.hosts:
                    group.create_task(self.up_host(host, setup, ready), name=f"host {host.name}")
        except* (HypercobaltError, OSError) as failures:
            failure = first_of(failures)
        if failure is not None:
            raise failure

    def plan(
        self,
        hosts: Iterable[str],
        vms: int = 0,
        openstack: Path | None = None,
        *,
        virt: bool = False,
    ) -> None:
        """Write down what a new lab gets; one that has hosts keeps its own.

        Args:
            hosts: their names.
            vms: how many.
            openstack: programs of its OpenStack; None in a lab without.
            virt: whether it runs VirtualMachineInstances.

        Raises:
            LabError: it cannot be written.
        """
        if self.state.hosts:
            return
        programs = str(openstack or "")
        planned = msgspec.structs.replace(self.state, vms=vms, openstack=programs, virt=virt)
        for name in hosts:
            planned = planned.with_host(name)
        self.record(planned)  # all at once: an up that is killed here is finished by the next

    async def _shared(self, ready: Ready) -> None:
        await self.step("shared directory", self.share())
        ready.shared.set()

    async def share(self) -> None:
        """Mount the directory that the hosts share.

        Raises:
            LabError: it cannot be mounted.
        """
        await shared_mount.share(self.layout, self.state, self._oldest)

    async def _control_plane(self, ready: Ready, setup: Setup) -> None:
        await self.step("API server", self.control.start())
        ready.api.set()
        if self.state.virt:
            await self.actors.start()
        if setup.operator:
            await self.step("operator", self.operator.start())
            ready.operator.set()

    async def _central(self, ready: Ready) -> None:
        await self.step("OVN databases", self.central.start())
        ready.ovn.set()

    async def _rack(self, ready: Ready) -> None:
        await self.step("top of rack", self.rack.start())
        ready.rack.set()

    async def up_host(
        self, host: Host, setup: Setup | None = None, ready: Ready | None = None
    ) -> None:
        """Boot a host that is off, and give it what it lacks.

        Args:
            host: of this lab.
            setup: what it joins; what runs when not given.
            ready: what it waits for before it joins; None when all of it runs.

        Raises:
            HypercobaltError: the host does not come up, or cannot join.
        """
        setup, ready = setup or self.running, ready or Ready.now()
        await ready.shared.wait()
        if host.power is HostPower.FROZEN:
            return  # frozen on purpose
        await self.boot_host(host, setup, ready)
        await self.join_control_plane(host, setup, ready)

    async def boot_host(self, host: Host, setup: Setup, ready: Ready) -> None:
        """Boot a host that is off, and connect it to its networks.

        Raises:
            HypercobaltError: the host does not come up, or does not register with OVN.
        """
        if self.state.virt:
            self.layout.images.mkdir(exist_ok=True)  # the host binds it
        await self.step(f"host {host.name}", host.start(self.addresses))
        migration_tls.install(host, self.layout)
        await shared_mount.renew(host, self.layout)
        if setup.ovn:
            await ready.rack.wait()
            await self.step(f"bond of {host.name}", bond.join(host))
            await ready.ovn.wait()
            await self.step(f"OVN on {host.name}", self._join(host))

    async def join_control_plane(self, host: Host, setup: Setup, ready: Ready) -> None:
        """Have a host that runs report to the API server, and in service with the operator.

        Raises:
            HypercobaltError: its agents do not start or report, or the operator does not take it.
        """
        if setup.control_plane:
            await ready.api.wait()
            await self.step(f"agents on {host.name}", self._agents(host, setup))
            if setup.operator:
                await self.boards.start(host.name)
                await ready.operator.wait()
                await self.operator.bind()
                await self.step(f"hypervisor {host.name}", self.operator.take(host.name))

    async def _join(self, host: Host) -> None:
        await ovn.join(host, self.central.southbound_remote)
        if self.central.answers(ovn.Part.SB):  # else it registers when that is back
            await self.central.wait_for_chassis(host.name)

    async def _agents(self, host: Host, setup: Setup) -> None:
        record = self.state.host(host.name)
        await self.control.register(host.name, record.index)
        grace, pods = timedelta(seconds=self.state.node_grace), PODS if self.state.virt else 0
        await kubelet.install(host, self.control, grace, pods=pods)
        if self.state.virt:
            await self._virt(host)
        definitions = not self.state.openstack  # Nova keeps those of its servers
        lease = agents.lease_of(self.state)
        await agents.install(
            host, self.control, ovs=setup.ovn, definitions=definitions, lease=lease
        )
        if not host.wire.is_cut:
            await self.control.wait_for_node(host.name)

    async def _virt(self, host: Host) -> None:
        """Install what runs VirtualMachineInstances on a host."""
        await running.install(host, self.control)
        await handling.install(host, self.control)
        # So that people on the machine reach guests; the route goes with the bridge.
        way = ("via", host.address, "dev", self.state.bridge)
        await run("ip", "route", "replace", str(host.pod_network), *way)

    async def step(self, name: str, work: Awaitable[T]) -> T:
        """Await some work, and report it; see `hypercobalt.lab.progress.step`."""
        return await step(self._report, name, work)

    def has_its_vms(self) -> None:
        """Write down that the VMs of the first `up` are made: none is made again."""
        if self.state.vms:
            self.record(msgspec.structs.replace(self.state, vms=0))

    def note_supervision(self, *, supervised: bool) -> None:
        """Write down whether processes of the lab that die are started again."""
        if self.state.supervised is not supervised:
            self.record(msgspec.structs.replace(self.state, supervised=supervised))

    def record(self, state: LabState) -> None:
        """Write down a change of what the lab has.

        Raises:
            LabError: it cannot be written.
        """
        records.save_running(self.layout, state)
        self.state = state


async def _begin(layout: Layout, fresh: LabState) -> LabState:
    """A new lab on a free network; nothing of it is left where that fails."""
    try:
        return await bridge.take_network(layout, fresh)
    except BaseException:
        await down(layout.data)
        raise


async def down(data: Path, report: Report = silent) -> bool:
    """Remove everything that a lab made, whatever state a crash left it in.

    Returns:
        Whether there was anything.

    Raises:
        HypercobaltError: something does not go; calling again goes on from there.
    """
    layout = Layout.at(data)
    state = records.known(layout, lost_too=True)
    if state is None:
        gone = discard(layout.api)  # of an `up` that could serve the API alone
        forget(layout)
        return gone
    lab = Lab(layout, state, report)
    await lab.step("processes", processes.kill(state.id))
    for host in lab.hosts:
        await lab.step(f"host {host.name}", host.remove())
    await throw_away(layout, state)
    return True
