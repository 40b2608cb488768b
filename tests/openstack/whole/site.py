"""The whole as a test sees it: Nova, Neutron, Placement, our objects, and the hosts' QEMUs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.api.workloads import Container, Pod, PodSpec
from hypercobalt.drills.witness import Emulator, Witness
from hypercobalt.lab import operator as lab_operator
from hypercobalt.lab import processes, rights
from hypercobalt.lab.agents import NODE_AGENT, OVS_AGENT
from hypercobalt.lab.commands import Finished, cobalt_command, execute
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.openstack import computes, seed, volumes
from hypercobalt.lab.openstack.client import Json, Session
from hypercobalt.lab.openstack.config import SHARED_INSTANCES, VOLUME_MOUNTS
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.ready import Ready
from hypercobalt.ovs_agent.diagnostics.report import PortReport, PortsReport
from hypercobalt.runtime import Kube, load_connection
from tests.openstack.computes import DISABLED, provider_id, service, traits
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until
from tests.openstack.volumes import attached_to, create_bootable

T = TypeVar("T")
WITHIN = 120  # seconds for one step, on a busy machine
PATIENT = timedelta(seconds=WITHIN + 30)  # for a command whose own deadline comes first
_STEP = 0.2
_AGENTS = (computes.SERVICE, NODE_AGENT, OVS_AGENT)
_NO_CONTENT = 204
# A console that was open before may lose the first character.
_ORDERS = """exec 3<>"$1"; shift
for order; do printf '\\n%s\\n' "$order" >&3; grep -qm1 "ok ${order%% *}" <&3 || exit 1; done"""


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of Cinder that a server has booted from.

    Args:
        id: Cinder's.
        server: the only one that has it.
        sum: MD5 of what the guest has written to it.
    """

    id: str
    server: str
    sum: str


@dataclass(frozen=True, slots=True)
class Site:
    """The environment.

    Args:
        openstack: with the lab.
        admin: an administrator's session of OpenStack.
        kube: an administrator's client of the API server.
        servers: those that the test makes.
        witness: of all QEMUs.
    """

    openstack: OpenStack
    admin: Session
    kube: Kube
    servers: Servers
    witness: Witness

    # -- hosts -----------------------------------------------------------------------------------

    def host(self, name: str) -> Host:
        return self.openstack.lab.host(name)

    async def hypervisor(self, name: str) -> Hypervisor:
        """A Hypervisor that is there."""
        found = await self.kube.get(Hypervisor, name)
        assert found is not None
        return found

    async def switch(self, name: str) -> OVSNode:
        """The OVSNode of a host."""
        found = await self.kube.get(OVSNode, name, rights.OVS_NAMESPACE)
        assert found is not None
        return found

    async def until_host(
        self, name: str, good: Callable[[Hypervisor], bool], within: float = WITHIN
    ) -> Hypervisor:
        """Wait until a Hypervisor is as wanted."""
        return await awaited(partial(self.hypervisor, name), good, within)

    async def all_in_service(self) -> None:
        """Wait until every host takes instances."""
        for host in self.openstack.hosts:
            await self.until_host(host.name, lambda hv: condition(hv, "Ready") == "True/Ready")
            await self.until_service(host.name)

    async def until_service(self, name: str) -> Json:
        """Wait until Nova has a compute that works and takes servers, and give it."""
        found = await until(
            lambda: service(self.admin, name),
            lambda one: (one["state"], one["status"]) == ("up", "enabled"),
            WITHIN,
        )
        provider = await provider_id(self.admin, name)
        # Nova takes it back with its next report of resources, if the compute was down till then.
        await until(lambda: traits(self.admin, provider), lambda seen: DISABLED not in seen, WITHIN)
        return found

    async def mend(self) -> None:
        """Boot what is off, connect what is cut off, and remove what the test has made.

        An operator that has ended is started again, as its Deployment would at a site: the failure
        of one test is not that of the next ones.
        """
        await self.openstack.lab.operator.start()
        for host in self.openstack.hosts:
            if host.power is HostPower.OFF:
                await self.openstack.lab.up_host(host)
            elif host.wire.is_cut:
                await host.wire.restore()
        await self.all_in_service()
        await self._remove_servers()
        for eviction in (await self.kube.list(Eviction)).items:
            await self.kube.delete(Eviction, eviction.metadata.name)

    async def _remove_servers(self) -> None:
        """Remove the servers of the test, and ports that Nova leaves behind when a move fails.

        Nova may have both hosts at work for a server at that moment; our agent names the port then.
        """
        made = self.servers.made
        await self.servers.remove_all()
        for host in self.openstack.hosts:
            for server in made:
                owner = f"external_ids:vm-uuid={server}"
                names = await host.run(
                    *("ovs-vsctl", "--bare", "--columns=name", "find", "Interface", owner)
                )
                for name in names.split():
                    await host.run("ovs-vsctl", "--if-exists", "del-port", "br-int", name)

    async def without_issues(self) -> None:
        """Wait until no switch has an issue."""
        for host in self.openstack.hosts:
            switch = partial(self.switch, host.name)
            await awaited(switch, lambda one: one.status.issues == (), WITHIN)

    async def services(self, name: str) -> list[Json]:
        """The compute services of a host in Nova: one, or none."""
        path = f"/os-services?binary=nova-compute&host={name}"
        found: list[Json] = (await self.admin("compute", "GET", path, version=VERSION)).ok()[
            "services"
        ]
        return found

    async def provider_code(self, provider: str) -> int:
        """What Placement answers about a resource provider."""
        path = f"/resource_providers/{provider}"
        return (await self.admin("placement", "GET", path, version=PLACEMENT)).code

    async def set_maintenance(self, name: str, maintenance: str) -> None:
        """Put a host into maintenance, or take it out of it."""
        wanted = {"spec": {"maintenance": maintenance}}
        await self.kube.merge_patch(Hypervisor, name, wanted)

    @asynccontextmanager
    async def pod_of_agents(self, name: str) -> AsyncIterator[None]:
        """Have a pod on a host meanwhile, for the agents that are services in a lab.

        At its end they are stopped as a kubelet ends them, and then the pod is gone.
        """
        meta = ObjectMeta(name=f"agents-{name}", namespace=rights.NAMESPACE)
        spec = PodSpec(nodeName=name, containers=(Container(name="agents", image="none"),))
        await self.kube.create(Pod(metadata=meta, spec=spec))
        try:
            yield
            await self.host(name).run("systemctl", "stop", *_AGENTS, within=PATIENT)
        finally:
            await self.kube.delete(Pod, meta.name, rights.NAMESPACE, grace=timedelta(0))

    async def leave(self, name: str) -> None:
        """Delete the Node of a host, as whoever gives machines out does, and wait for the rest."""
        await self.kube.delete(Node, name)
        for read in (
            lambda: self.kube.get(Hypervisor, name),
            lambda: self.kube.get(OVSNode, name, rights.OVS_NAMESPACE),
        ):
            await awaited(read, lambda one: one is None, WITHIN)

    async def join(self, name: str) -> None:
        """Take a host in that has left."""
        await self.host(name).run("systemctl", "start", computes.SERVICE)
        lab = self.openstack.lab
        await lab.join_control_plane(self.host(name), lab.running, Ready.now())
        await self.all_in_service()

    # -- Evictions -------------------------------------------------------------------------------

    async def evictions(self, host: str) -> list[Eviction]:
        """Return the Evictions of a host."""
        found = (await self.kube.list(Eviction)).items
        return [one for one in found if one.spec.hypervisor == host]

    async def ended(self, host: str, name: Callable[[Eviction], bool]) -> Eviction:
        """Wait until an Eviction of a host has ended, and give it."""

        async def found() -> Eviction | None:
            chosen = [one for one in await self.evictions(host) if name(one)]
            return next((one for one in chosen if has_ended(one.status)), None)

        ended = await awaited(found, lambda one: one is not None, WITHIN)
        assert ended is not None
        return ended

    # -- servers ---------------------------------------------------------------------------------

    async def boot(self, host: str) -> str:
        """A server with an operating system, which may boot still, and a port."""
        return await self._boot(host, seed.NAMES.flavor)

    async def boot_system(self, host: str, flavor: str = seed.NAMES.flavor) -> str:
        """The same, with an operating system that has begun to beat."""
        server = await self._boot(host, flavor)
        await self.until_beats(server)
        return server

    async def _boot(self, host: str, flavor: str) -> str:
        return await self.servers.boot(
            host=host, image=seed.NAMES.guest, flavor=flavor, network=seed.NAMES.network
        )

    async def boot_on_volume(self, host: str) -> Volume:
        """A server with an operating system that beats, and 1 MiB written to its disk, a volume."""
        volume = await create_bootable(self.admin, seed.NAMES.guest)
        server = await self.servers.boot(
            host=host, volume=volume, flavor=seed.NAMES.flavor, network=seed.NAMES.network
        )
        await self.until_beats(server)
        return Volume(volume, server, await self._sum(server, host, "write-disk 1"))

    async def check_volume(self, volume: Volume, host: str) -> None:
        """Check that a volume is on a host, in everybody's eyes, with what was written to it.

        Cinder has one attachment, libvirt one disk, and Nova has the share mounted on that host
        alone.
        """
        attached = partial(attached_to, self.admin, volume.id)
        await awaited(attached, lambda now: now == [(volume.server, host)], WITHIN)
        disks = await self.host(host).run("virsh", "domblklist", volume.server)
        share = PurePosixPath(VOLUME_MOUNTS, volumes.share_directory())
        assert disks.split()[-2:] == ["vda", f"{share}/volume-{volume.id}"]
        for one in self.openstack.hosts:
            mounted = (await one.run("cat", "/proc/mounts")).split()
            assert mounted.count(str(share)) == int(one.name == host), one.name
        assert await self._sum(volume.server, host, "read-disk 1") == volume.sum

    async def _sum(self, server: str, host: str, order: str) -> str:
        """Have a guest write to its disk or read it, and give the sum that it prints."""
        return await self._answer(server, host, order, "[0-9a-f]{32}")

    async def _answer(self, server: str, host: str, order: str, shape: str) -> str:
        """Have a guest carry out an order, and give the answer of that shape that it prints.

        From the file of its console: QEMU writes to the terminal first, and to the file after that.
        """
        read = partial(_answers, self._console(server), order, shape)
        answers = partial(asyncio.to_thread, read)
        before = len(await answers())
        await self.order(server, host, order)
        return (await awaited(answers, lambda now: len(now) > before, WITHIN))[-1]

    @asynccontextmanager
    async def watched_flavor(self) -> AsyncIterator[str]:
        """The small flavor with a watchdog that powers a server off; its name."""
        name = f"watched-{uuid.uuid4().hex[:8]}"
        flavor = {"name": name, "ram": 192, "vcpus": 1, "disk": 1}
        made = (await self.admin("compute", "POST", "/flavors", {"flavor": flavor})).ok()["flavor"]
        path = f"/flavors/{made['id']}"
        specs = {"extra_specs": {"hw:watchdog_action": "poweroff"}}
        try:
            (await self.admin("compute", "POST", f"{path}/os-extra_specs", specs)).ok()
            yield name
        finally:
            await self.admin("compute", "DELETE", path)

    async def order(self, server: str, host: str, *orders: str) -> None:
        """Have a guest carry out orders on its console, each when it has answered the one before.

        Raises:
            LabError: it does not answer in time.
        """
        tty = (await self.host(host).run("virsh", "ttyconsole", server)).strip()
        command = ("bash", "-c", _ORDERS, "bash", tty, *orders)
        await self.host(host).run("timeout", str(WITHIN), *command, within=PATIENT)

    def emulators(self, server: str) -> tuple[Emulator, ...]:
        """The QEMUs of a server, on all hosts."""
        return tuple(one for one in self.witness.emulators() if one.uuid == server)

    async def port(self, server: str) -> Json:
        """The only port of a server, as Neutron has it."""
        answer = await self.admin("network", "GET", f"/v2.0/ports?device_id={server}")
        (found,) = answer.ok()["ports"]
        return found

    async def beats(self, server: str) -> int:
        """How often a server has printed its sign of life since its boot.

        Read from the file that Nova would send: each reading by the API costs 0.2 s of CPU.
        """
        return await asyncio.to_thread(_beats, self._console(server))

    def _console(self, server: str) -> Path:
        folder = self.openstack.lab.layout.shared_files / PurePosixPath(SHARED_INSTANCES).name
        return folder / server / "console.log"

    async def until_introduced(self, server: str) -> None:
        """Wait until a server has printed its address and its UUID.

        The address is the one that Neutron has given to its port, and it has that by DHCP.
        """
        (fixed,) = (await self.port(server))["fixed_ips"]
        texts = (f": lease {fixed['ip_address']}", f": instance {server}")
        lines = partial(asyncio.to_thread, _lines, self._console(server))

        def all_printed(now: list[str]) -> bool:
            return all(any(line.endswith(text) for line in now) for text in texts)

        await awaited(lines, all_printed, WITHIN)

    async def until_knows_itself(self, server: str, host: str) -> None:
        """Wait until a server has read its own UUID from the metadata service once more.

        What it has printed before a live move is not in the console of the target.
        """
        assert await self._answer(server, host, "metadata", "[-0-9a-f]{36}") == server

    async def until_beats(self, server: str, beats: int = 0) -> int:
        """Wait until a server has printed more signs of life than so many, and give how many."""
        return await awaited(partial(self.beats, server), lambda now: now > beats, WITHIN)

    async def bound(self, server: str, host: str) -> Json:
        """Wait until the port of a server is bound to a host and works there, and give it.

        What works is OVN's word: after a live migration Neutron may show DOWN although OVN has
        reported the port as up before, and Neutron has handled it.
        """
        port = await until(
            lambda: self.port(server), lambda port: port["binding:host_id"] == host, WITHIN
        )
        await awaited(partial(self._up_on, port["id"]), lambda up_on: up_on == host, WITHIN)
        return port

    async def _up_on(self, port: str) -> str:
        """The host on which OVN has a port up."""
        central = self.openstack.lab.central
        row = await central.sbctl(
            *("--bare", "--columns=chassis", "find"),
            *("Port_Binding", f"logical_port={port}", "up=true"),
        )
        if not row.strip():
            return ""
        return (await central.sbctl("get", "Chassis", row.strip(), "name")).strip().strip('"')

    async def allocated(self, server: str) -> set[str]:
        """Hosts of which Placement has given something to a server."""
        answer = await self.admin("placement", "GET", f"/allocations/{server}", version=PLACEMENT)
        found = set(answer.ok()["allocations"])
        names = [host.name for host in self.openstack.hosts]
        return {name for name in names if await provider_id(self.admin, name) in found}

    async def stays(self, check: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Check that something is the case for a time."""
        loop = asyncio.get_running_loop()
        until_then = loop.time() + seconds
        while loop.time() < until_then:
            assert await check()
            await asyncio.sleep(_STEP)

    @asynccontextmanager
    async def hanging(self, role: str) -> AsyncIterator[None]:
        """Have the processes of a role on the machine stopped where they are, meanwhile."""
        lab_id = self.openstack.lab.state.id
        found = processes.find(lab_id, role)
        assert found
        try:
            for one in found:
                await processes.stop(one, lab_id)
            yield
        finally:
            for one in found:
                processes.send(one, lab_id, signal.SIGCONT)

    @asynccontextmanager
    async def without_operator(self) -> AsyncIterator[None]:
        """Have no operator meanwhile; then another process of it, as of a Deployment.

        One that hangs for longer than its Lease allows ends itself: that comes to the same, later.
        """
        lab = self.openstack.lab
        await processes.kill(lab.state.id, lambda one: one.role == lab_operator.ROLE)
        try:
            yield
        finally:
            await lab.operator.start()

    async def restart(self, name: str, *units: str) -> None:
        """Restart services of a host, all at once."""
        await self.host(name).run("systemctl", "restart", *units, within=PATIENT)

    async def start_compute(self, name: str) -> None:
        """Start the nova-compute of a host, and wait for its first report."""
        (before,) = await self.services(name)
        await self.host(name).run("systemctl", "start", computes.SERVICE, within=PATIENT)
        since = before["updated_at"]
        await awaited(
            partial(self.services, name),
            lambda now: (now[0]["state"], now[0]["updated_at"] > since) == ("up", True),
            WITHIN,
        )

    async def remove_remains(self, server: str) -> None:
        """Remove a server, and what its moves have left where Nova does not have it.

        A domain that stays keeps a nova-compute from starting, and an allocation of a move keeps a
        resource provider.
        """
        there = await self.servers.host(server)
        for host in self.openstack.hosts:
            if host.name != there:
                domain = f"virsh destroy {server}; virsh undefine --keep-nvram {server}; true"
                await host.run("bash", "-c", domain)
        records = await self.servers.migrations(server)
        await self._remove_servers()
        for record in records:
            path = f"/allocations/{record['uuid']}"
            await self.admin("placement", "DELETE", path, version=PLACEMENT)

    # -- network ---------------------------------------------------------------------------------

    async def rules_of_members(self, group: str) -> list[Json]:
        """Rules of a security group that let in what its own members send."""
        path = f"/v2.0/security-group-rules?security_group_id={group}&remote_group_id={group}"
        found: list[Json] = (await self.admin("network", "GET", path)).ok()["security_group_rules"]
        return found

    async def remove_rule(self, rule: Json) -> None:
        """Remove a rule of a security group."""
        path = f"/v2.0/security-group-rules/{rule['id']}"
        assert (await self.admin("network", "DELETE", path)).code == _NO_CONTENT

    async def add_rule(self, rule: Json) -> None:
        """Add a rule as one that was removed."""
        kept = ("direction", "ethertype", "security_group_id", "remote_group_id")
        body = {"security_group_rule": {key: rule[key] for key in kept}}
        (await self.admin("network", "POST", "/v2.0/security-group-rules", body)).ok()

    async def ports(self, host: str) -> tuple[PortReport, ...]:
        """The ports of a host's switch, as its agent shows them to people."""
        done = await self.cobalt("ports", host, "--output=json")
        assert done.code == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=PortsReport).ports

    @asynccontextmanager
    async def foreign_port(self, host: str, server: str) -> AsyncIterator[str]:
        """Give a server a port that Neutron does not know, and yield the port's name."""
        name, run = "foreign0", self.host(host).run
        ids = (f"external_ids:iface-id={uuid.uuid4()}", f"external_ids:vm-uuid={server}")
        await run(
            *("ovs-vsctl", "add-port", "br-int", name, "--"),
            *("set", "Interface", name, "type=internal", *ids),
        )
        try:
            yield name
        finally:
            await run("ovs-vsctl", "--if-exists", "del-port", "br-int", name)

    async def traced(self, host: str, tap: str, port: str) -> str:
        """What becomes of a ping from a tap to a port, on the last host that it reaches."""
        done = await self.cobalt("trace", host, f"--from={tap}", f"--to={port}", "--output=json")
        assert done.code == 0, done.stderr
        report = json.loads(done.stdout)
        last = report["hops"][-1]["report"] if report["hops"] else report
        return str(last["outcome"])

    # -- rights ----------------------------------------------------------------------------------

    def as_operator(self) -> Kube:
        """A client with the token of the operator; close it after use."""
        return Kube(load_connection(self.openstack.lab.layout.operator_kubeconfig))

    # -- people ----------------------------------------------------------------------------------

    async def cobalt(self, *arguments: str) -> Finished:
        """What a person's command prints."""
        kubeconfig = str(self.openstack.lab.layout.kubeconfig)
        return await execute(
            (str(cobalt_command()), *arguments),
            env=os.environ | {"KUBECONFIG": kubeconfig},
            within=PATIENT,
        )


def _beats(console: Path) -> int:
    alive = [line for line in _lines(console)[-20:] if ": alive " in line]
    return int(alive[-1].split()[-1]) if alive else 0


def _answers(console: Path, order: str, shape: str) -> list[str]:
    """What a guest has answered to an order so far; a line that is not written whole is none."""
    return re.findall(rf": ok {order} ({shape})$", "\n".join(_lines(console)), re.MULTILINE)


def _lines(console: Path) -> list[str]:
    try:
        return console.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def condition(found: Hypervisor, type_: str) -> str:
    """`status/reason` of a condition, empty if there is none."""
    one = get_condition(found.conditions, type_)
    return f"{one.status}/{one.reason}" if one else ""


def runs(found: Hypervisor, server: str) -> bool:
    """Whether a host reports an instance as running."""
    return any(one.id == server and one.active for one in found.status.instances)


async def awaited(read: Callable[[], Awaitable[T]], good: Callable[[T], bool], within: float) -> T:
    """Read until it is as wanted.

    Raises:
        AssertionError: it is not in time; the message has what was read last.
    """
    found: T = await until(read, good, within)
    return found
