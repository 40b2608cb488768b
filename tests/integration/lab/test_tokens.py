"""What a host's token is good for: its own host, its chart's verbs, and while its Node is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.api import crd
from hypercobalt.api.core import Node, Secret
from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.apiserver.access import kubeconfig
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.lab import rights, tokens
from hypercobalt.lab import state as records
from hypercobalt.lab.disk import Disk
from hypercobalt.lab.state import Layout
from hypercobalt.node_agent.fencing.guests import AllGuests, Ended
from hypercobalt.node_agent.fencing.order import FencingOrder
from hypercobalt.node_agent.host.launchers import PodLaunchers
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import (
    ForbiddenError,
    Informer,
    Kube,
    Metrics,
    SystemClock,
    UnauthorizedError,
    load_connection,
)
from hypercobalt.runtime.client.patch import Operation
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest

OWN, OTHER = "kvm-1", "kvm-2"
BMC = f"bmc-{OTHER}"
MANIFESTS = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)


@dataclass(frozen=True, slots=True)
class Site:
    """A lab's API server with two Nodes, and the lab's files without its hosts."""

    layout: Layout
    admin: Kube

    def disk(self, host: str) -> Disk:
        return Disk(self.layout.host(host))

    @contextlib.asynccontextmanager
    async def agent(self) -> AsyncIterator[Kube]:
        """A client as the agent of the first host has it."""
        await tokens.give_agent(self.admin, OWN, self.disk(OWN))
        server = load_connection(self.layout.kubeconfig)
        assert server.authority is not None
        file = Path(tokens.OF_NODE_AGENT)
        config = kubeconfig.render_token(server.server, server.authority.read(), file.name)
        path = str(file.with_name("kubeconfig"))
        self.disk(OWN).write(path, config)
        async with Kube(load_connection(self.disk(OWN).root / path.lstrip("/"))) as kube:
            yield kube


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    layout = Layout.at(tmp_path)
    records.save(layout, records.new(6443, records.NODE_GRACE).with_host(OWN).with_host(OTHER))
    async with (
        serve(ServerOptions(layout.api, port=0, manifests=MANIFESTS)) as server,
        Kube(load_connection(server.kubeconfig)) as admin,
    ):
        await rights.install(admin, "direct")
        for name in (OWN, OTHER):
            await admin.create(Node(metadata=ObjectMeta(name=name)))
            await admin.create(Hypervisor(metadata=ObjectMeta(name=name)))
        yield Site(layout, admin)


def eviction(host: str) -> Eviction:
    return Eviction(
        metadata=ObjectMeta(name=host),
        spec=EvictionSpec(hypervisor=host, reason="shutdown", trigger="HostShutdown"),
    )


async def test_an_agent_writes_about_its_own_host_only(site: Site) -> None:
    own, other = [(await site.admin.list(Hypervisor)).items[i] for i in (0, 1)]
    status = HypervisorStatus(numInstances=1)
    async with site.agent() as agent:
        await agent.patch_status(own, status)
        await agent.create(eviction(OWN))
        with pytest.raises(ForbiddenError):
            await agent.patch_status(other, status)
        with pytest.raises(ForbiddenError):
            await agent.create(eviction(OTHER))


async def test_an_agent_reads_no_secrets_and_makes_no_tokens(site: Site) -> None:
    meta = ObjectMeta(name=BMC, namespace=rights.NAMESPACE)
    await site.admin.create(Secret(metadata=meta, data={"password": b"correct-horse"}))
    shown: Operation = {"op": "move", "from": "/data/password", "path": "/type"}
    async with site.agent() as agent:
        with pytest.raises(ForbiddenError):
            await agent.list(Secret)
        with pytest.raises(ForbiddenError):
            await agent.json_patch(Secret, BMC, [shown], rights.NAMESPACE)
        with pytest.raises(ForbiddenError):
            await agent.merge_patch(Secret, BMC, {"immutable": "x"}, rights.NAMESPACE)
        with pytest.raises(ForbiddenError):
            await tokens.issue(agent, rights.NODE_AGENT, OTHER)


async def test_a_token_ends_with_its_node(site: Site) -> None:
    async with site.agent() as agent:
        await agent.list(Hypervisor)
        await site.admin.delete(Node, OWN)
        with pytest.raises(UnauthorizedError):
            await agent.list(Hypervisor)


async def test_every_token_that_was_given_is_renewed(site: Site) -> None:
    layout, own = site.layout, site.disk(OWN)
    await tokens.give_operator(site.admin, layout)
    await tokens.give_agent(site.admin, OWN, own)
    before = layout.operator_token.read_bytes(), own.read(tokens.OF_NODE_AGENT)
    assert await tokens.renew(layout)
    after = layout.operator_token.read_bytes(), own.read(tokens.OF_NODE_AGENT)
    assert not set(before) & set(after)
    assert not site.disk(OTHER).read(tokens.OF_NODE_AGENT)  # its host is off
    assert layout.operator_token.stat().st_mode & 0o777 == 0o600


async def test_a_host_whose_node_is_gone_does_not_keep_others_from_being_renewed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (OWN, OTHER):
        await tokens.give_agent(site.admin, name, site.disk(name))
    before = site.disk(OTHER).read(tokens.OF_NODE_AGENT)
    await site.admin.delete(Node, OWN)
    assert not await tokens.renew(site.layout)
    assert site.disk(OTHER).read(tokens.OF_NODE_AGENT) != before
    assert f"token_not_renewed: {OWN}" in capsys.readouterr().err


async def test_agent_may_read_the_order_to_end_its_guests(site: Site) -> None:
    stored = await site.admin.get(Hypervisor, OWN)
    assert stored is not None
    ordered = Fencing(phase=FencingPhase.FENCED, bootID="b1", method=FencingMethod.STORAGE)
    await site.admin.patch_status(stored, replace(stored.status, fencing=ordered))
    libvirt, board = FakeLibvirt(), Board(SystemClock())
    async with site.agent() as agent, asyncio.timeout(20):
        own = Latest(Informer(agent, Selection(Hypervisor), metrics=Metrics()))
        order = FencingOrder(
            agent,
            AllGuests(libvirt, PodLaunchers(FakePods())),
            own,
            board,
            boot="b1",
            renewals=lambda: 0,
            ended=Ended(),
            clock=SystemClock(),
        )
        await order.obey(OWN)
        assert board.parts.guests_stopped is not None
        await order.obey(OTHER)  # which has no such order
