"""The node agent's chart: the agent may do just what it does, and starts with what it is given.

Two agents, of hosts in memory, go through a migration between them, a shutdown and certificates on
a real kube-apiserver whose audit log has what they request, as the chart's ServiceAccount.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import convert
from tests.admission import admitted
from tests.conformance.charts import rendered
from tests.conformance.permitted import Cluster, Grant, granted, only, permitted
from tests.conformance.targets import COBALT
from tests.conformance.wire import Body
from tests.integration.node_agent.conftest import UNITS, boot
from tests.integration.node_agent.host.certificates import host_units, issuing
from tests.integration.node_agent.moves import UUID, Move
from tests.integration.operator.conftest import until
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.adapters.host.fake import FakePods, FakeShutdown, FakeSystem
from hypercobalt.adapters.host.model import OperatingSystem
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.vocabulary import Stopped
from hypercobalt.api.address import Address
from hypercobalt.api.certificate import CertificateRequest
from hypercobalt.api.conditions import get_condition, set_condition
from hypercobalt.api.coordination import Event, Lease
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.incident import LABEL
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import Migration, MigrationSpec, MigrationStatus
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.api.sealing import PrivateKey
from hypercobalt.api.workloads import Pod, PodSpec
from hypercobalt.node_agent.agent import Host, register
from hypercobalt.node_agent.host.shutdown_drain import make_eviction
from hypercobalt.node_agent.settings import MigrationNames, NodeAgentSettings, Retention
from hypercobalt.operator.agents.pods import still_running
from hypercobalt.runtime import (
    ForbiddenError,
    Kube,
    Manager,
    Metrics,
    SystemClock,
    load_connection,
)
from hypercobalt.runtime.guard import METRICS, guard

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

CHART, SPACE = "hypercobalt-node-agent", "monsoon3"
VALUES: Body = {
    "certificates": {"enabled": True},
    "env": {"issuerName": "nova-ca"},
    "storeDefinitions": True,
}
DEADLINE = 45.0
CRASHING = "33333333-0000-4000-8000-000000000003"
HIDDEN: set[Grant] = {
    ("delete", "coordination.k8s.io", "leases", SPACE),
    ("create", "kvm.cloud.sap", "sealeddefinitions", SPACE),
    ("get", "kvm.cloud.sap", "sealeddefinitions", SPACE),
    ("update", "events.k8s.io", "events", "default"),
}
"""The requests of an admission plugin, and an apply of an absent object, without which the server
answers 403; the comparison of what is stored, after minutes; and the repetition of an Event."""


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    return rendered(CHART, VALUES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, objects: list[Body]) -> Iterator[Cluster]:
    with permitted(tmp_path_factory.mktemp("real"), objects, {SPACE}) as made:
        yield made


@contextlib.asynccontextmanager
async def agent(
    cluster: Cluster,
    name: str,
    libvirt: FakeLibvirt,
    folder: Path,
    shutdown: FakeShutdown | None = None,
    **settings: object,
) -> AsyncIterator[None]:
    """Run an agent with all its parts, as the ServiceAccount."""
    pki = folder / name
    pki.mkdir(exist_ok=True)
    given = NodeAgentSettings(
        name,
        name,
        namespace=SPACE,
        units=UNITS,
        pki=pki,
        issuer="nova-ca",
        addresses=("192.0.2.1",),
        state_dir=folder / f"{name}-state",
        ha_config=f"{SPACE}/hypercobalt-ha",
        diagnostics=Address("127.0.0.1", 0),
        **settings,  # type: ignore[arg-type]
    )
    system = FakeSystem(OperatingSystem(pretty_version="Some", kernel_name="Linux"))
    host = Host(libvirt, host_units(), shutdown or FakeShutdown(), system, Boot("b1"), FakePods())
    metrics = Metrics()
    async with Kube(
        load_connection(cluster.on(name)), field_manager="kvm-node-agent", metrics=metrics
    ) as client:
        manager = Manager(client, metrics=metrics)
        register(given, manager, host)
        running = asyncio.create_task(manager.run())
        try:
            yield
        finally:
            manager.stop()
            await asyncio.wait_for(running, DEADLINE)


async def test_agent_may_do_just_what_it_does(
    cluster: Cluster, objects: list[Body], tmp_path: Path
) -> None:
    cluster.forget()
    move, shutdown = Move(FakeLibvirt(), FakeLibvirt()), FakeShutdown(timedelta(minutes=5))
    boot(move.source, UUID, "vm1")
    boot(move.source, UUID.replace("0", "1"), "vm2")
    with left_to_the_collector():
        async with Kube(
            load_connection(cluster.server.kubeconfig), field_manager="person"
        ) as person:
            await add_host(person, "kvm-a")
            async with (
                agent(cluster, "kvm-a", move.source, tmp_path, shutdown, store_definitions=True),
                agent(cluster, "kvm-b", move.target, tmp_path),
            ):
                await come_late(person, "kvm-b")
                await until(person, Hypervisor, "kvm-a", is_waiting)
                async with issuing(person, namespace=SPACE):
                    await until(person, Hypervisor, "kvm-a", is_certified)
                    await eventually(lambda: has_no_request(person), seconds=DEADLINE)
                await until_stored(person, "kvm-a")
                await through_a_migration(person, move)
                await through_a_shutdown(person, "kvm-a", shutdown)
                await through_a_crash(person, move.source)
                await through_a_scrape(cluster)
            await add_unlabelled(person)
            names = MigrationNames.SERVER
            async with agent(cluster, "kvm-a", move.source, tmp_path, names=names):
                boot(move.source, UUID, "vm1")
                move.begin()
                await eventually(lambda: is_under_way(person), seconds=DEADLINE)
                move.complete()
                await eventually(lambda: is_over(person), seconds=DEADLINE)
            async with agent(cluster, "kvm-a", move.source, tmp_path, retention=Retention(count=0)):
                await eventually(lambda: has_none(person), seconds=DEADLINE)
                # What the shutdown has left.
                await eventually(lambda: has_no_eviction(person, "kvm-a"), seconds=DEADLINE)
    assert cluster.forbidden() == []
    assert cluster.used(objects) | HIDDEN == granted(objects)


async def has_no_request(person: Kube) -> bool:
    return not (await person.list(CertificateRequest, SPACE)).items


async def add_host(person: Kube, name: str) -> Hypervisor:
    spec = HypervisorSpec(
        createCertManagerCertificate=True, installCertificate=True, evacuateOnReboot=True
    )
    return await person.create(Hypervisor(metadata=ObjectMeta(name=name), spec=spec))


async def through_a_scrape(cluster: Cluster) -> None:
    """A reader without a token, and one without the right."""
    async with Kube(load_connection(cluster.on("kvm-a"))) as client:
        assert await admitted(guard(client, METRICS), "unknown") == 401
        assert await admitted(guard(client, METRICS), cluster.token_for(METRICS)) == 403


async def come_late(person: Kube, name: str) -> None:
    """A Hypervisor whose agent is there already: it becomes the owner of the agent's Lease."""
    lease = f"node-agent-{name}"
    await until(person, Lease, lease, lambda _: True, namespace=SPACE)
    await add_host(person, name)
    await until(person, Lease, lease, lambda it: bool(it.metadata.ownerReferences), namespace=SPACE)


def is_certified(hypervisor: Hypervisor, reason: str = "Ready") -> bool:
    found = get_condition(hypervisor.conditions, "TLSCertificateInstalled")
    return found is not None and found.reason == reason


def is_waiting(hypervisor: Hypervisor) -> bool:
    return is_certified(hypervisor, "RequestPending")


async def until_stored(person: Kube, name: str) -> None:
    status: Body = {"status": {"definitionsKey": PrivateKey.make().public.text}}
    await person.merge_patch(Hypervisor, name, status, subresource="status")

    async def is_stored() -> bool:
        return await person.get(SealedDefinitions, name, SPACE) is not None

    await eventually(is_stored, seconds=DEADLINE)


async def through_a_migration(person: Kube, move: Move) -> None:
    move.begin()
    await eventually(lambda: is_under_way(person), seconds=DEADLINE)
    move.arrive()
    await eventually(lambda: is_claimed(person), seconds=DEADLINE)
    move.complete()
    await eventually(lambda: is_over(person), seconds=DEADLINE)


async def through_a_crash(person: Kube, libvirt: FakeLibvirt) -> None:
    """Crash an instance: the agent makes an Eviction and an Event."""
    boot(libvirt, CRASHING, "vm3")
    libvirt.stop(CRASHING, Stopped.FAILED)
    await eventually(lambda: is_recovered(person), seconds=DEADLINE)


async def is_recovered(person: Kube) -> bool:
    made = [one for one in (await person.list(Eviction)).items if LABEL in one.metadata.labels]
    events = (await person.list(Event, "default")).items
    return len(made) == 1 and any(one.reason == "Crash" for one in events)


async def add_unlabelled(person: Kube) -> None:
    """A Migration as the existing agent has left it, under the name of its server."""
    for old in (await person.list(Migration, SPACE)).items:
        await person.delete(Migration, old.metadata.name, SPACE)
    left = await person.create(
        Migration(metadata=ObjectMeta(name=UUID, namespace=SPACE), spec=MigrationSpec())
    )
    started = SystemClock().now()
    ended = MigrationStatus(started=started, type="completed", destination="kvm-b")
    await person.patch_status(left, ended)


async def is_under_way(person: Kube) -> bool:
    return any(
        one.status.type == "unbounded" for one in (await person.list(Migration, SPACE)).items
    )


async def is_claimed(person: Kube) -> bool:
    return all(one.status.destination for one in (await person.list(Migration, SPACE)).items)


async def is_over(person: Kube) -> bool:
    return all(
        one.status.type == "completed" for one in (await person.list(Migration, SPACE)).items
    )


async def has_none(person: Kube) -> bool:
    return not (await person.list(Migration, SPACE)).items


async def has_no_eviction(person: Kube, name: str) -> bool:
    return await person.get(Eviction, name) is None


async def through_a_shutdown(person: Kube, name: str, shutdown: FakeShutdown) -> None:
    """Shut the host down: the agent waits until its Eviction has ended."""
    async with asyncio.timeout(DEADLINE):
        await shutdown.held()
    shutdown.prepare()
    eviction = await until(person, Eviction, name, lambda _: True)
    now = SystemClock().now()
    for status, reason in (("True", "Running"), ("False", "Succeeded")):
        conditions = set_condition((), "Evicting", status, reason, "", now=now)
        eviction = await person.patch_status(eviction, EvictionStatus(conditions=conditions))
    async with asyncio.timeout(DEADLINE):
        await shutdown.released()


async def test_agent_starts_with_the_chart_s_arguments_and_environment(
    cluster: Cluster, objects: list[Body], tmp_path: Path
) -> None:
    (container,) = pod_of(objects)["containers"]
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert {name for name, value in given.items() if value is None} == {
        "HOSTNAME",
        "HOST_IP_ADDRESS",
    }
    environment = {name: value for name, value in given.items() if value is not None}
    environment |= {"HOSTNAME": "kvm-c", "HOST_IP_ADDRESS": "192.0.2.3", "EMULATE": "1"}
    environment |= {"PKI_PATH": str(tmp_path), "KUBECONFIG": str(cluster.on("kvm-c"))}
    pages = {":9177": "127.0.0.1:0", ":8081": "127.0.0.1:0"}
    arguments = [
        f"{flag}={pages.get(value, value)}"
        for flag, _, value in (word.partition("=") for word in container["args"])
        if flag != "--state-dir"  # a directory of the pod
    ]
    async with Kube(load_connection(cluster.server.kubeconfig), field_manager="person") as person:
        await add_host(person, "kvm-c")
        process = await asyncio.create_subprocess_exec(
            str(COBALT),
            *container["command"][1:],
            *arguments,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        try:
            await until(person, Hypervisor, "kvm-c", lambda it: it.status.numInstances == 2)
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), DEADLINE)
    assert process.returncode == 0


async def test_agent_may_not_write_about_other_hosts(cluster: Cluster) -> None:
    async with (
        Kube(load_connection(cluster.server.kubeconfig), field_manager="person") as person,
        Kube(load_connection(cluster.on("kvm-d")), field_manager="kvm-node-agent") as there,
        Kube(load_connection(cluster.kubeconfig), field_manager="stolen") as nowhere,
    ):
        hosts = [await add_host(person, name) for name in ("kvm-d", "kvm-e")]
        own, other = hosts
        counted: Body = {"status": {"numInstances": 1}}
        await eventually(lambda: is_in_force(there, other), seconds=DEADLINE)
        await there.merge_patch(Hypervisor, "kvm-d", counted, subresource="status")
        await there.create(make_eviction(own))
        await there.delete(Eviction, "kvm-d")
        with pytest.raises(ForbiddenError, match="the node agent of kvm-d may "):
            await there.create(make_eviction(other))
        await person.create(make_eviction(other))
        with pytest.raises(ForbiddenError, match="own host only"):
            await there.delete(Eviction, "kvm-e")
        with pytest.raises(ForbiddenError, match="the token is bound to no Node"):
            await nowhere.merge_patch(Hypervisor, "kvm-d", counted, subresource="status")


async def is_in_force(there: Kube, other: Hypervisor) -> bool:
    """Whether the server has taken in the policy."""
    counted: Body = {"status": {"numInstances": 7}}
    try:
        await there.merge_patch(Hypervisor, other.metadata.name, counted, subresource="status")
    except ForbiddenError:
        return True
    return False


def pod_of(objects: list[Body]) -> Body:
    found: Body = only(objects, "DaemonSet")["spec"]["template"]["spec"]
    return found


def test_agent_leaves_when_its_host_is_offboarded(objects: list[Body]) -> None:
    tolerations = pod_of(objects)["tolerations"]
    pod = Pod(
        metadata=ObjectMeta(name="agent", namespace=SPACE),
        spec=convert({"tolerations": tolerations}, PodSpec),
    )
    assert still_running([pod]) == (f"{SPACE}/agent",)


def test_metrics_need_a_token_unless_a_value_opens_them(objects: list[Body]) -> None:
    monitored = rendered(CHART, {"serviceMonitor": {"enabled": True}})
    (endpoint,) = only(monitored, "ServiceMonitor")["spec"]["endpoints"]
    found = endpoint["scheme"], endpoint["bearerTokenFile"]
    assert found == ("https", "/var/run/secrets/hypercobalt-metrics/token")
    (keep, _) = endpoint["relabelings"]
    assert keep["regex"] == f"DaemonSet/{only(monitored, 'DaemonSet')['metadata']['name']}"
    (container,) = pod_of(objects)["containers"]
    assert "--metrics-secure=true" in container["args"]
    names = [body["metadata"]["name"] for body in objects if body["kind"] == "ClusterRole"]
    assert any(name.endswith("-metrics-reader") for name in names)
    secret: Body = {"enabled": True, "tokenSecret": "scraper"}
    (endpoint,) = only(rendered(CHART, {"serviceMonitor": secret}), "ServiceMonitor")["spec"][
        "endpoints"
    ]
    assert endpoint["authorization"]["credentials"] == {"name": "scraper", "key": "token"}
    assert "bearerTokenFile" not in endpoint
    plain: Body = {"metrics": {"acceptApiServerTokens": True}, "serviceMonitor": {"enabled": True}}
    accepting = rendered(CHART, plain)
    (endpoint,) = only(accepting, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    (container,) = pod_of(accepting)["containers"]
    assert "--metrics-accept-api-server-tokens=true" in container["args"]
    values: Body = {"metrics": {"secure": False}, "diagnostics": {"enabled": False}}
    opened = rendered(CHART, {**values, "serviceMonitor": {"enabled": True}})
    (endpoint,) = only(opened, "ServiceMonitor")["spec"]["endpoints"]
    assert "scheme" not in endpoint
    assert not any(resource == "tokenreviews" for _, _, resource, _ in granted(opened))


def test_capabilities_are_for_certificates_only(objects: list[Body]) -> None:
    (container,) = pod_of(objects)["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]},
    }
    plain = rendered(CHART)
    (container,) = pod_of(plain)["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert [name for name, read_only in mounts.items() if not read_only] == ["state"]
    assert not any(resource == "secrets" for _, _, resource, _ in granted(plain))


def test_the_journal_is_mounted_by_a_value_only_and_read_only(objects: list[Body]) -> None:
    def mounts(found: list[Body]) -> set[str]:
        (container,) = pod_of(found)["containers"]
        return {one["mountPath"] for one in container["volumeMounts"] if one.get("readOnly")}

    journal = {"/host/var/log", "/host/run/log"}
    assert not journal & mounts(objects)
    assert journal <= mounts(rendered(CHART, {"logs": {"enabled": True}}))


@pytest.mark.parametrize("named", ["", "libvirt-ca"])
def test_ca_is_the_config_maps_where_one_is_named(named: str) -> None:
    objects = rendered(CHART, {"certificates": {"enabled": True, "caConfigMap": named}})
    pod = pod_of(objects)
    has = "--pki-ca-file=/ca/ca.crt" in pod["containers"][0]["args"]
    mounts = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "ca"]
    volumes = [one["configMap"]["name"] for one in pod["volumes"] if one["name"] == "ca"]
    assert (has, volumes) == (bool(named), [named] if named else [])
    assert all(one["readOnly"] for one in mounts)


def test_keys_made_on_the_host_need_no_secret() -> None:
    values: Body = {"certificates": {"enabled": True}, "env": {"issuerName": "nova-ca"}}
    grants = granted(rendered(CHART, values))

    verbs = {verb for verb, _, resource, _ in grants if resource == "certificaterequests"}
    assert verbs == {"get", "watch", "create", "delete"}
    assert not any(resource in {"secrets", "certificates"} for _, _, resource, _ in grants)


def test_the_ha_agent_has_a_place_for_what_it_remembers_and_sees_disks_where_they_are_named() -> (
    None
):
    named = rendered(CHART, {"ha": {"disks": ["/var/lib/nova/instances"]}})
    (container,) = pod_of(named)["containers"]
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in container["volumeMounts"]}
    assert mounts["/host/var/lib/nova/instances"] is True
    assert "/state" in mounts
    assert "--ha-config=monsoon3/hypercobalt-ha" in container["args"]


def test_without_the_ha_agent_its_rights_and_its_place_are_gone() -> None:
    off = rendered(CHART, {"ha": {"enabled": False}, "diagnostics": {"enabled": False}})
    (container,) = pod_of(off)["containers"]
    assert "--ha-config=" in container["args"]
    assert not any(mount["name"] == "state" for mount in container["volumeMounts"])
    assert not any(resource in {"events", "configmaps"} for _, _, resource, _ in granted(off))
