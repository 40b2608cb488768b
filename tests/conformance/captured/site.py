"""A site of five hosts on an API server: the operator as it is, hosts and devices in memory.

Each host has a kubelet, a node agent and an OVS agent, as far as they write to the API server. They
are honest; whoever holds a host's token writes besides them. A sixth Node is no hypervisor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import httpx2
from tests.conformance.captured import arrangements, guests
from tests.conformance.captured.doubles import Board, Boards, Deeds, Machines, Nova
from tests.conformance.captured.rest import Rest
from tests.conformance.captured.virtual_time import SkippedClock, SkippingLoop
from tests.conformance.real import Server
from tests.conformance.wire import Body, Json

from hypercobalt.adapters.fencing.port import PowerState
from hypercobalt.adapters.libvirt.vocabulary import Stopped
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.peers import PeerProbe, probes
from hypercobalt.compute.connect import ReadDefinitions
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.compute.model import Server as Instance
from hypercobalt.compute.model import Size
from hypercobalt.compute.port import ComputeService
from hypercobalt.ha.host_failure.guard import GateLimits
from hypercobalt.lab import rights
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.eviction.model.policy import Policy
from hypercobalt.operator.ha.settings import HaSettings
from hypercobalt.operator.lifecycle.settings import LifecycleSettings
from hypercobalt.operator.settings import OperatorOptions
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    HOSTNAME_LABEL,
    HYPERVISOR_LABEL,
    LIFECYCLE_LABEL,
    ZONE_LABEL,
)
from hypercobalt.runtime import Informer, Kube, Manager, Metrics, load_connection
from hypercobalt.runtime.client.requests import Selection

log = logging.getLogger(__name__)

HOSTS: Final = ("kvm-a", "kvm-b", "kvm-c", "kvm-d", "kvm-e")
CAPTURED: Final = HOSTS[0]
OTHERS: Final = HOSTS[1:]
PLAIN: Final = "control-1"
"""A Node that is no hypervisor."""

NODES, HYPERVISORS = "/api/v1/nodes", "/apis/kvm.cloud.sap/v1/hypervisors"
EVICTIONS = "/apis/kvm.cloud.sap/v1/evictions"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{rights.NAMESPACE}/leases"
OVS_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{rights.OVS_NAMESPACE}/leases"
OVSNODES = f"/apis/ovs.c5c3.io/v1alpha1/namespaces/{rights.OVS_NAMESPACE}/ovsnodes"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MIGRATIONS = f"/apis/kvm.cloud.sap/v1alpha1/namespaces/{rights.NAMESPACE}/migrations"
REQUESTS = f"/apis/cert-manager.io/v1/namespaces/{rights.NAMESPACE}/certificaterequests"
_OF_ALL_NAMESPACES: Final = (
    "/apis/kvm.cloud.sap/v1alpha1/migrations",
    "/apis/kvm.cloud.sap/v1alpha1/sealeddefinitions",
)

_ROUNDS: Final = 3
"""In which all is deleted: a last write of the operator may put a finalizer back meanwhile."""
RENEWAL: Final = 12.0
LEASE: Final = 40
OVS_LEASE: Final = 600
GRACE: Final = 40.0
"""Seconds until a Node whose kubelet is silent is Unknown, as in any cluster."""

HA: Final = HaSettings(
    mode=HaMode.INTERNAL,
    # Two of five hosts may fail here: the gates about many hosts have tests of their own.
    limits=GateLimits(max_unhealthy=49, nodes=4, cliff=100, cliff_hosts=9, cool_down=timedelta(0)),
)
EVICTION: Final = Policy(per_source=3, per_cluster=6)
"""As far apart as the defaults are, with fewer guests."""
LIFECYCLE: Final = LifecycleSettings(forgotten=timedelta(minutes=1))
_GOOD: Final = {
    "OVSDBConnected": "Connected",
    "VswitchdResponding": "Responding",
    "OVNControllerConnected": "Connected",
    "AllBridgesHealthy": "AllBridgesActive",
    "AllBondsHealthy": "NoBonds",
    "Ready": "AllChecksPassed",
}
IN_SERVICE: Final = {
    "Ready": "True",
    "HaEnabled": "True",
    "HypervisorDisabled": "False",
    "FenceDevicesProven": "True",  # a later pass adds it
    "NetworkHealthy": "True",
    "AgentReporting": "True",
}
"""Conditions of a host in service."""


Lies = Callable[[tuple[PeerProbe, ...]], Coroutine[None, None, None]]


@dataclass(slots=True)
class Host:
    """One host as it is, whatever is reported of it.

    Attributes:
        reports: its kubelet, its agents and its libvirt answer.
        uid: of its Hypervisor.
        ready: its Node shows that.
        stores: its agent stores what is defined on it; an attacker may do so in its place.
        boot: its present boot.
        silent_since: by the loop's clock; None while it reports.
        reported: what its agent has written last.
        switch_due: when its OVS agent renews its Lease.
        switch_known: its OVS agent has written its OVSNode.
        answered: the last question of peers that it has answered.
    """

    name: str
    number: int
    board: Board
    reports: bool = True
    boot: str = ""
    boots: int = 1
    silent_since: float | None = None
    uid: str = ""
    ready: bool = True
    stores: bool = True
    reported: str = ""
    switch_due: float = 0.0
    switch_known: bool = False
    answered: str = ""

    @property
    def address(self) -> str:
        return f"192.0.2.{10 + self.number}"

    @property
    def uri(self) -> str:
        return f"qemu+tls://{self.address}/system"


class Site:
    """See the module.

    Args:
        server: the only one of its users now; what others have left there goes.
        compute: `direct` or `nova`.
    """

    def __init__(self, server: Server, compute: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SkippingLoop)
        self.loop, self.server, self.compute = loop, server, compute
        self.clock, self.rest = SkippedClock(loop), Rest(server)
        self.deeds = Deeds(loop.time)
        self.boards = Boards(self.deeds, arrangements.PASSWORD)
        self.machines, self.nova = Machines(self.deeds), Nova(self.clock.now, self.deeds)
        self.hosts = {name: self._host(number, name) for number, name in enumerate(HOSTS, 1)}
        self._tasks: list[asyncio.Task[None]] = []
        self._manager: Manager | None = None
        self._operator: asyncio.Task[None] | None = None
        self._client: Kube | None = None
        self.problems: list[str] = []
        self.lies: Lies | None = None
        """Answers probes in place of the captured host's agent."""

    def _host(self, number: int, name: str) -> Host:
        board = Board(name, self.deeds, lambda: self._powered_off(name))
        self.boards.by_port[arrangements.port(number)] = board
        made = Host(name, number, board, boot=f"{name}-boot-1")
        self.machines.names[made.uri] = name
        board.uuids = frozenset({self.machines.at(made.uri).host.uuid})
        return made

    # -- making and unmaking -------------------------------------------------------------------

    async def start(self) -> None:
        """Have every host in service, and nothing on the server but them."""
        await self.clean()
        self.machines.shared.add(arrangements.SHARED)
        self.nova.world.add_aggregate("zone-a", zone="zone-a")
        self.nova.world.add_aggregate("general")
        for host in self.hosts.values():
            for number in range(2):
                self._add_guest(host, number)
        for body in arrangements.secrets():
            await self.rest.good(
                "POST", f"/api/v1/namespaces/{body['metadata']['namespace']}/secrets", body
            )
        await self._pods("Running")
        await asyncio.gather(*(self._add(host) for host in self.hosts.values()), self._add_plain())
        await self.start_operator()
        self.run(self._follow())
        self.run(self._live())
        assert await self.until(self._in_service, 600), await self.rest.good("GET", HYPERVISORS)

    def _add_guest(self, host: Host, number: int) -> None:
        made = guests.domain(host.name, number)
        self.machines.at(host.uri).put(made)
        if number == 0:
            self.nova.world.add_host(host.name)
        self.nova.moves.hosts[host.name] = Size(1000, 1_000_000, 0)
        status = "ACTIVE" if made.active else "SHUTOFF"
        self.nova.moves.add(
            Instance(
                made.uuid, made.name, host.name, status, running=made.active, size=Size(1, 1024, 0)
            )
        )

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Have something happen until the site ends."""
        self._tasks.append(task := self.loop.create_task(work))
        task.add_done_callback(_log_failure)

    async def _add(self, host: Host) -> None:
        labels = {
            HYPERVISOR_LABEL: "libvirt",
            HOSTNAME_LABEL: host.name,
            ZONE_LABEL: "zone-a",
            LIFECYCLE_LABEL: "skip-tests",
            **arrangements.labels(host.number),
        }
        meta = {
            "name": host.name,
            "labels": labels,
            "annotations": {AGGREGATES_ANNOTATION: "general"},
        }
        await self.rest.good("POST", NODES, {"metadata": meta})
        await self.kubelet(host, "True")
        await self.renew(host)

    async def _add_plain(self) -> None:
        await self.rest.good("POST", NODES, {"metadata": {"name": PLAIN}})
        # An Eviction of a host that is gone: an agent must not see what belongs to others.
        await self.rest.good(
            "POST",
            EVICTIONS,
            {
                "apiVersion": "kvm.cloud.sap/v1",
                "kind": "Eviction",
                "metadata": {"name": "of-another-host"},
                "spec": {"hypervisor": "kvm-gone", "reason": "of-another-host"},
            },
        )

    async def _in_service(self) -> bool:
        """Whether every host is as it stays when nothing happens to it."""
        found = (await self.rest.good("GET", HYPERVISORS))["items"]
        return len(found) == len(HOSTS) and all(
            condition(one, type_).partition("/")[0] == status
            for one in found
            for type_, status in IN_SERVICE.items()
        )

    async def start_operator(self) -> None:
        """Run every controller, with the rights of the chart."""
        kubeconfig = self.server.kubeconfig.with_name("captured-operator")
        metrics = Metrics()
        self._client = client = Kube(load_connection(kubeconfig), metrics=metrics)
        manager = self._manager = Manager(client, metrics=metrics)
        manager.clock = self.clock  # type: ignore[assignment]
        options = OperatorOptions(
            (rights.NAMESPACE,),
            Issuing(rights.NAMESPACE, arrangements.ISSUER, source=CertificateSource.REQUEST),
            lifecycle=LIFECYCLE,
            eviction=EVICTION,
            ha=HA,
            fence_devices=arrangements.devices(HOSTS),
            fence_namespace=rights.NAMESPACE,
            ovs_namespace=rights.OVS_NAMESPACE,
            definitions_secret=arrangements.KEY,
        )
        arrangements.add(manager, options, metrics, self._connect, self.boards.open)
        self._operator = asyncio.create_task(manager.run())

    def _connect(
        self,
        hypervisors: Callable[[], Iterable[Hypervisor]],
        guard: LeaderGuard,
        read: ReadDefinitions | None,
    ) -> ComputeService:
        if self.compute == "nova":
            return self.nova
        return arrangements.direct(hypervisors, guard, read, self.machines, self.clock)

    async def terminate(self, name: str) -> None:
        """Have a host leave for good, as its administrator does; its kubelet ends the pods."""
        spec: Json = {"spec": {"maintenance": "termination"}}
        await self.rest.send("PATCH", f"{HYPERVISORS}/{name}", spec)
        await self._pods("Succeeded")

    async def drain(self, name: str) -> None:
        """Have a host emptied, as its administrator does before a repair."""
        spec: Json = {"spec": {"maintenance": "manual", "maintenanceReason": "repair"}}
        await self.rest.good("PATCH", f"{HYPERVISORS}/{name}", spec)

    async def _pods(self, phase: str) -> None:
        """What the captured host's kubelet reports of its agents' pods."""
        for namespace in (rights.NAMESPACE, rights.OVS_NAMESPACE):
            path = f"/api/v1/namespaces/{namespace}/pods"
            for pod in (await self.rest.good("GET", path))["items"]:
                name = pod["metadata"]["name"]
                await self.rest.good("PATCH", f"{path}/{name}/status", {"status": {"phase": phase}})

    def ends_guests(self, name: str) -> None:
        """Stop what runs on a host, by its own root."""
        there = self.machines.at(self.hosts[name].uri)
        for uuid in [one.uuid for one in there.here.values() if one.active]:
            there.stop(uuid, Stopped.DESTROYED)

    def forget(self, name: str) -> None:
        """End a host's nova-compute, and have an administrator remove its service."""
        self.nova.world.hosts.pop(name, None)

    async def stop_operator(self) -> None:
        """End it in the middle of whatever it does."""
        if self._operator is not None:
            self._operator.cancel()
            await asyncio.wait({self._operator})
            if not self._operator.cancelled() and (error := self._operator.exception()):
                self.problems.append(f"operator: {error!r}")
        if self._client is not None:
            await self._client.__aexit__(None, None, None)
        self._operator = self._client = None

    async def stop(self) -> None:
        """End everything, and leave nothing on the server."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()):
                self.problems.append(f"{error!r}")
        await self.stop_operator()
        await self.clean()
        await self.rest.aclose()

    async def clean(self) -> None:
        """Delete every object that a site or an attack makes, and every host that others made."""
        spaced = [
            LEASES,
            OVS_LEASES,
            OVSNODES,
            EVENTS,
            f"/api/v1/namespaces/{rights.NAMESPACE}/secrets",
            REQUESTS,
            f"/apis/cert-manager.io/v1/namespaces/{rights.NAMESPACE}/certificates",
            "/apis/apps/v1/namespaces/kube-system/deployments",
            "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets",
        ]
        paths = [EVICTIONS, HYPERVISORS, NODES, *_OF_ALL_NAMESPACES, *spaced]
        await asyncio.gather(*(self._empty(path) for path in paths))

    async def _empty(self, path: str) -> None:
        for _ in range(_ROUNDS):
            if not (found := await self._items(path)):
                return
            for item in found:
                await self._delete(_path_of(path, item["metadata"]), item["metadata"])
        left = await self._items(path)
        assert not left, f"cannot be deleted: {[_path_of(path, it['metadata']) for it in left]}"

    async def _delete(self, named: str, metadata: Body) -> None:
        if metadata.get("finalizers"):
            free: Json = {"metadata": {"finalizers": None}}
            await self.rest.send("PATCH", named, free)
        options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
        await self.rest.send("DELETE", named, options)

    async def _items(self, path: str) -> list[Body]:
        found = await self.rest.send("GET", path)
        return list(found.body["items"]) if found.code == 200 else []

    # -- the honest hosts ----------------------------------------------------------------------

    async def kubelet(self, host: Host, ready: str, **more: Json) -> None:
        """What the kubelet reports; `Unknown` is what its silence leads to."""
        now = self.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
        about = {"type": "Ready", "status": ready, "reason": "KubeletReady", "message": ""}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        status = {
            "conditions": [{**about, **times}],
            "addresses": [{"type": "InternalIP", "address": host.address}],
            "nodeInfo": {
                **dict.fromkeys(
                    (
                        "machineID",
                        "kernelVersion",
                        "osImage",
                        "containerRuntimeVersion",
                        "kubeletVersion",
                        "kubeProxyVersion",
                        "operatingSystem",
                        "architecture",
                    ),
                    "",
                ),
                "bootID": host.boot,
                "systemUUID": self.machines.at(host.uri).host.uuid,
            },
            **more,
        }
        await self.rest.send("PATCH", f"{NODES}/{host.name}/status", {"status": status})

    async def renew(self, host: Host) -> None:
        """The Lease of the host's node agent."""
        await self._lease(LEASES, f"node-agent-{host.name}", LEASE)

    async def _lease(self, path: str, name: str, lasts: int) -> None:
        spec = {
            "holderIdentity": "agent",
            "leaseDurationSeconds": lasts,
            "renewTime": f"{self.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        if (await self.rest.send("PATCH", f"{path}/{name}", {"spec": spec})).code == 404:
            await self.rest.send("POST", path, {"metadata": {"name": name}, "spec": spec})

    async def store(self, host: Host) -> bool:
        """Store the definitions of the host's guests, and return whether that can be done yet."""
        if self.compute != "direct":
            return True
        hypervisor = await self.rest.good("GET", f"{HYPERVISORS}/{host.name}")
        host.uid = hypervisor["metadata"]["uid"]
        mark = arrangements.mark(host.uid)
        self.machines.shared_files.add(f"{arrangements.SHARED}/{mark}")
        if not host.reports:
            return False  # it has died meanwhile, and its guests with it
        there = self.machines.at(host.uri).here.values()
        found = guests.definitions(host.name, host.boot, mark, there)
        body = arrangements.definitions_body(host.name, found, hypervisor)
        if body is None:
            return False
        path = arrangements.definitions_path(host.name)
        if (await self.rest.send("PATCH", path, body)).code == 404:
            await self.rest.good("POST", path.rpartition("/")[0], body)
        return True

    async def report(self, host: Host, **more: Json) -> bool:
        """Write the node agent's part of the status; return whether there is a Hypervisor yet."""
        there = self.machines.at(host.uri).here.values()
        if self.compute == "nova":
            on = self.nova.moves.on(host.name)
            instances = [{"id": o.id, "name": o.name, "active": o.running} for o in on]
        else:
            instances = [{"id": o.uuid, "name": o.name, "active": o.active} for o in there]
        capacity = {"cpu": "64", "memory": "256Gi"}
        status: Body = {
            "bootID": host.boot,
            "hostUUID": self.machines.at(host.uri).host.uuid,
            "libVirtVersion": "9.0.0",
            "numInstances": len(instances),
            "instances": instances,
            "capacity": capacity,
            "effectiveCapacity": capacity,
            "allocation": {"cpu": str(len(instances)), "memory": f"{len(instances)}Gi"},
            "conditions": [
                {
                    "type": "LibVirtConnection",
                    "status": "True",
                    "reason": "Connected",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            **more,
        }
        whole = {
            "apiVersion": "kvm.cloud.sap/v1",
            "kind": "Hypervisor",
            "metadata": {"name": host.name},
            "status": status,
        }
        path = f"{HYPERVISORS}/{host.name}/status?fieldManager=kvm-node-agent&force=true"
        return (await self.rest.send("PATCH", path, whole, patch="apply")).code < 300

    async def report_switch(self, host: Host) -> None:
        """What the host's OVS agent writes: all is well."""
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_, reason in _GOOD.items()
        ]
        spec = {"nodeRef": {"name": host.name}}
        meta = {"name": host.name}
        about = {"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "metadata": meta}
        await self.rest.send("POST", OVSNODES, {**about, "spec": spec})
        bridges = [{"name": "br-int", "status": "Active"}]
        status = {"ovsVersion": "3.1.0", "bridges": bridges, "conditions": conditions}
        path = f"{OVSNODES}/{host.name}/status?fieldManager=ovs-agent&force=true"
        await self.rest.send("PATCH", path, {**about, "status": status}, patch="apply")

    async def _live(self) -> None:
        """Have every host report for as long as it does, and its Node Unknown when it does not."""
        while True:
            await asyncio.gather(*(self._beat(host) for host in self.hosts.values()))
            known = all(host.reported for host in self.hosts.values() if host.reports)
            await asyncio.sleep(RENEWAL if known else 1.0)

    async def _beat(self, host: Host) -> None:
        """Have one host report; what has no usable answer is sent again, as its agents do."""
        try:
            await self._write_of(host)
        except (httpx2.HTTPError, AssertionError) as error:
            log.warning("host %s: %r", host.name, error)

    async def _write_of(self, host: Host) -> None:
        if not host.switch_known:
            await self.report_switch(host)
            host.switch_known = True
        if host.reports:
            await self.renew(host)
            self.nova.moves.clean(host.name)
            if not host.ready:
                await self.kubelet(host, "True")
                host.ready = True
            if self.loop.time() >= host.switch_due:
                host.switch_due = self.loop.time() + OVS_LEASE / 3
                await self._lease(OVS_LEASES, f"ovs-agent-{host.name}", OVS_LEASE)
            if host.reported != (now := self._inventory(host)) and await self._reports(host):
                host.reported = now
        elif host.ready and self.loop.time() - (host.silent_since or 0) >= GRACE:
            await self.kubelet(host, "Unknown")
            host.ready = False

    async def _reports(self, host: Host) -> bool:
        return await self.report(host) and (not host.stores or await self.store(host))

    def _inventory(self, host: Host) -> str:
        there = self.machines.at(host.uri).here.values()
        on = self.nova.moves.on(host.name)
        return f"{host.boot} {[(o.uuid, o.active, o.marks) for o in there]} {[o.id for o in on]}"

    async def _follow(self) -> None:
        """Answer the probes of peers and the orders to the agents, as agents do."""
        async with Kube(load_connection(self.server.kubeconfig)) as kube:
            informer = Informer(kube, Selection(Hypervisor, None, "", ""), metrics=Metrics())
            informer.add_handler(_Follower(self._asked))
            await informer.run()

    def _asked(self, hypervisor: Hypervisor) -> None:
        host = self.hosts.get(hypervisor.metadata.name)
        if host is None or not host.reports:
            return
        asked = probes(hypervisor)
        key = " ".join(f"{one.name} {one.asked}" for one in asked)
        if key and key != host.answered:
            host.answered = key
            answers: list[Json] = [
                {"host": one.name, "answers": self._answers(one.name), "asked": one.asked}
                for one in asked
            ]
            if host.name == CAPTURED and self.lies is not None:
                self.run(self.lies(asked))
            else:
                self.run(self.answer(host, answers))

    def _answers(self, name: str) -> bool:
        found = self.hosts.get(name)
        return found is not None and found.reports

    async def answer(self, host: Host, answers: list[Json]) -> None:
        """Write a host's reports on others."""
        path = f"{HYPERVISORS}/{host.name}/status?fieldManager=kvm-node-agent"
        await self.rest.send("PATCH", path, {"status": {"peerReports": answers}})

    # -- faults --------------------------------------------------------------------------------

    def has_power(self, name: str) -> bool:
        """Whether a host runs at all."""
        return self.hosts[name].board.state is PowerState.ON

    def falls_silent(self, name: str) -> None:
        """Freeze a host, or cut it off: its guests run on, and nothing of it answers."""
        host = self.hosts[name]
        if not host.reports:
            return
        host.reports, host.silent_since = False, self.loop.time()
        self.machines.at(host.uri).disconnect("no route to host")
        if name in self.nova.world.hosts:
            self.nova.world.change_host(name, up=False)

    def dies(self, name: str) -> None:
        """Cut a host's power."""
        self.hosts[name].board.state = PowerState.OFF
        self._powered_off(name)

    def _powered_off(self, name: str) -> None:
        self.falls_silent(name)
        there = self.machines.at(self.hosts[name].uri)
        for uuid in [one.uuid for one in there.here.values() if one.active]:
            there.stop(uuid)

    async def comes_back(self, name: str) -> None:
        """Thaw a host that was not switched off; boot one that was."""
        host = self.hosts[name]
        if host.reports:
            return
        if host.board.state is PowerState.OFF:
            host.board.state, host.boots = PowerState.ON, host.boots + 1
            host.boot = f"{name}-boot-{host.boots}"
        self.machines.at(host.uri).connect()
        if name in self.nova.world.hosts:
            self.nova.world.change_host(name, up=True)
        host.reports, host.silent_since, host.ready = True, None, True
        await self.kubelet(host, "True")
        await self.renew(host)
        await self.report(host)
        self.nova.moves.clean(name)

    async def until(self, true: Callable[[], object], seconds: float) -> bool:
        """Let time pass until something holds, and return whether it did."""
        end = self.loop.time() + seconds
        while True:
            found = true()
            if asyncio.iscoroutine(found):
                found = await found
            if found or self.loop.time() >= end:
                return bool(found)
            await asyncio.sleep(2.0)

    async def object(self, path: str) -> Body | None:
        """An object as an administrator reads it."""
        found = await self.rest.send("GET", path)
        return found.body if found.code == 200 else None


class _Follower:
    def __init__(self, changed: Callable[[Hypervisor], None]) -> None:
        self._changed = changed

    def on_add(self, obj: Hypervisor) -> None:
        self._changed(obj)

    def on_update(self, old: Hypervisor, new: Hypervisor) -> None:
        del old
        self._changed(new)

    def on_delete(self, obj: Hypervisor) -> None:
        """Do nothing: a Hypervisor that is gone has no probes."""


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log at once what ends a part of the site: the effect of an attack is judged without it."""
    if not task.cancelled() and (error := task.exception()):
        log.error("a part of the site has ended", exc_info=error)


def _path_of(path: str, meta: Body) -> str:
    """Path of an object, from the list of its kind in one namespace or in all."""
    root, _, plural = path.rpartition("/")
    space = meta.get("namespace", "")
    inside = f"{root}/namespaces/{space}/{plural}" if space and "/namespaces/" not in path else path
    return f"{inside}/{meta['name']}"


def condition(body: Body, type_: str) -> str:
    """`status/reason` of a condition; "" without it."""
    listed = body.get("status", {}).get("conditions", ())
    found = next((one for one in listed if one["type"] == type_), None)
    return f"{found['status']}/{found['reason']}" if found else ""
