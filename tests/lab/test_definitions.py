"""A real host's definitions are stored as its libvirt has them, passwords included, and sealed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hypercobalt.api.definitions import HostDefinitions
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.api.sealing import KeyRing, Owner, PrivateKey
from hypercobalt.lab.agents import NAMESPACE
from hypercobalt.lab.disk import LOCAL
from hypercobalt.operator.definitions.reader import opened
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.patch import JsonObject
from tests.integration.runtime.scripted import eventually
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import ready
from tests.lab.kit.domains import DOMAIN

pytestmark = pytest.mark.timeout(180)

KEY = PrivateKey.make()
UUID = "00000000-0000-4000-8000-00000000000a"
DIRECTORY = f"{LOCAL}/stored"
DEVICES = f"""<devices>
<graphics type='vnc' passwd='secret'/>
<disk type='file'><source file='{DIRECTORY}/a.img'/><target dev='vda' bus='virtio'/></disk>
</devices>"""
WAIT = timedelta(seconds=20).total_seconds()


async def publish(api: Kube, host: str) -> None:
    """Publish the key, as the operator does, which does not run here."""
    status: JsonObject = {"status": {"definitionsKey": KEY.public.text}}
    await api.merge_patch(Hypervisor, host, status, subresource="status")


async def stored(api: Kube, host: str) -> HostDefinitions:
    own = await api.get(Hypervisor, host)
    found = await api.get(SealedDefinitions, host, NAMESPACE)
    if own is None or found is None:
        return HostDefinitions()
    return opened(found, Owner(host, own.metadata.uid), KeyRing(KEY))


async def test_definitions_are_stored_whole_and_marked(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await publish(api, host.name)
    await host.run("mkdir", "-p", DIRECTORY)
    await host.run("truncate", "-s", "1M", f"{DIRECTORY}/a.img")
    given = DOMAIN.format(
        name="a", uuid=f"<uuid>{UUID}</uuid>", memory=16, unit="MiB", vcpus=1, extra=""
    ).replace("</domain>", f"{DEVICES}</domain>")
    await host.run("virsh", "define", "/dev/stdin", stdin=given)
    await host.run("virsh", "autostart", "a")
    await host.run("virsh", "start", "a")

    async def runs() -> bool:
        domains = (await stored(api, host.name)).domains
        return UUID in domains and domains[UUID].active

    await eventually(runs, seconds=WAIT)
    found, own = await stored(api, host.name), await api.get(Hypervisor, host.name)
    assert own
    document = await host.run("virsh", "dumpxml", "--inactive", "--security-info", "a")
    assert "passwd='secret'" in document
    assert found.domains[UUID].xml.strip() == document.strip()
    assert (found.domains[UUID].name, found.domains[UUID].autostart) == ("a", True)
    assert found.bootID == own.status.bootID
    sealed = await api.get(SealedDefinitions, host.name, NAMESPACE)
    assert sealed
    assert UUID not in sealed.spec.sealed

    async def is_marked() -> bool:
        return found.mark in await host.run("ls", "-A", DIRECTORY)

    await eventually(is_marked, seconds=WAIT)
    assert "secret" not in await host.run("journalctl", "-u", "hypercobalt-node-agent.service")

    await host.run("virsh", "destroy", "a")

    async def is_off() -> bool:
        return not (await stored(api, host.name)).domains[UUID].active

    await eventually(is_off, seconds=WAIT)
    await host.run("virsh", "undefine", "a")
