"""The HA agent on real hosts: QEMU dies, hangs or is ended, and what it makes of that."""

from __future__ import annotations

import pytest

from hypercobalt.api.eviction import Eviction, EvictionMode
from hypercobalt.api.incident import LABEL, IncidentType
from hypercobalt.lab.host import Host
from hypercobalt.runtime import Kube
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import ready, until
from tests.lab.kit.domains import document, make

pytestmark = pytest.mark.timeout(300)

UUID = "5e0c2b58-0000-4000-8000-00000000000{}"


async def started(api: Kube, host: Host, number: int) -> str:
    """A domain that is defined and runs; the agent has seen it."""
    uuid, name = UUID.format(number), f"incident-{number}"
    await make(host, document(name, uuid=f"<uuid>{uuid}</uuid>"), start=False)
    await host.run("virsh", "-q", "start", name)
    await until(
        api, host, lambda hv: any(one.id == uuid and one.active for one in hv.status.instances)
    )
    return name


async def kill_qemu(host: Host, name: str) -> None:
    await host.run("bash", "-c", f"kill -KILL $(cat /run/libvirt/qemu/{name}.pid)")


async def recoveries(api: Kube, host: Host) -> list[Eviction]:
    found = (await api.list(Eviction)).items
    return [one for one in found if one.spec.hypervisor == host.name]


async def test_a_killed_qemu_has_an_incident_and_an_eviction(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    name = await started(api, host, 1)

    await kill_qemu(host, name)
    stored = await until(api, host, lambda hv: any(one.eviction for one in hv.status.incidents))

    (incident,) = stored.status.incidents
    assert (incident.type, incident.name) == (IncidentType.CRASH, name)
    (eviction,) = await recoveries(api, host)
    assert eviction.metadata.labels[LABEL] == incident.id
    assert eviction.spec.mode == EvictionMode.AUTO
    assert eviction.spec.instances == (incident.instance,)
    await host.run("virsh", "-q", "start", name)
    await until(api, host, lambda hv: not hv.status.incidents)


async def test_a_qemu_that_dies_while_its_agent_is_away_is_found(
    nodes: TakeHosts, api: Kube
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    name = await started(api, host, 2)
    await host.run("systemctl", "stop", "hypercobalt-node-agent.service")
    await kill_qemu(host, name)
    await host.run("systemctl", "start", "hypercobalt-node-agent.service")

    stored = await until(api, host, lambda hv: any(one.eviction for one in hv.status.incidents))

    assert [one.type for one in stored.status.incidents] == [IncidentType.CRASH]
    (incident,) = stored.status.incidents
    assert any("missed" in text for text in incident.evidence)
    assert len(await recoveries(api, host)) == 1


async def test_a_qemu_that_dies_while_agent_and_libvirtd_are_dead_is_found_by_its_log(
    nodes: TakeHosts, api: Kube
) -> None:
    """The first libvirtd after it writes the reason into the log, the second has none."""
    (host,) = await nodes(1)
    await ready(api, host)
    name = await started(api, host, 4)
    await host.run("systemctl", "stop", "hypercobalt-node-agent.service", "libvirtd.service")
    await kill_qemu(host, name)
    for _ in range(2):
        await host.run("systemctl", "restart", "libvirtd.service")
        assert (await host.run("virsh", "-q", "domstate", name)).strip() == "shut off"
    assert "unknown" in await host.run("virsh", "-q", "domstate", "--reason", name)
    await host.run("systemctl", "start", "hypercobalt-node-agent.service")

    stored = await until(api, host, lambda hv: any(one.eviction for one in hv.status.incidents))

    (incident,) = stored.status.incidents
    assert incident.type == IncidentType.CRASH
    assert any("by its log" in text for text in incident.evidence)
    assert len(await recoveries(api, host)) == 1


async def test_instance_that_a_client_ends_is_not_recovered(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    name = await started(api, host, 3)

    await host.run("virsh", "-q", "destroy", name)
    stored = await until(api, host, lambda hv: bool(hv.status.incidents))

    assert [one.type for one in stored.status.incidents] == [IncidentType.OUT_OF_BAND]
    assert await recoveries(api, host) == []
