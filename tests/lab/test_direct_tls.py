"""Moves from libvirt to libvirt with certificates: nothing goes between hosts unencrypted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from hypercobalt.adapters.libvirt.on_demand import OnDemandDaemons
from hypercobalt.adapters.ovn.northbound import Northbound
from hypercobalt.adapters.ovs.remote import parse_remotes
from hypercobalt.compute.direct.directory import Place
from hypercobalt.compute.direct.service import DirectService
from hypercobalt.compute.model import Size
from hypercobalt.lab import migration_tls
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from tests.contracts.direct import A, B, ended, named
from tests.lab.conftest import TakeFleet
from tests.lab.kit.direct import ALLOWED, LabWorld
from tests.lab.kit.tls import client_files, serve_tls

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True, slots=True)
class TlsDirectory:
    """Hosts as the default flags of the operator expect, and the path of its certificate."""

    hosts: tuple[Host, ...]
    client: Path

    def places(self) -> tuple[Place, ...]:
        return tuple(
            Place(
                name=host.name,
                id=str(host.identity.uuid),
                control=f"qemu+tls://{host.address}/system?pkipath={self.client}",
                migration=f"qemu+tls://{host.address}/system",
                stream=f"tcp://{host.address}",
                uuid=str(host.identity.uuid),
                capacity=Size(64, 64 * 1024),
            )
            for host in self.hosts
        )


async def test_a_guest_and_its_disk_move_encrypted_or_not_at_all_and_it_is_clear_why(
    fleet: TakeFleet, switched: Lab, tmp_path: Path
) -> None:
    world = LabWorld(await fleet(2), switched)
    hosts = (world.vms.host(A), world.vms.host(B))
    await world.add("a", disk="local")
    written = await world.vms.order("a", "write-disk 4")
    authority = trustme.CA()
    for host in hosts:
        await serve_tls(host, authority)
    directory = TlsDirectory(hosts, client_files(tmp_path, authority))
    ports = Northbound(parse_remotes(switched.central.northbound))
    service = DirectService(directory, OnDemandDaemons(), ports, allowed=ALLOWED)
    await hosts[1].run("rm", "-r", migration_tls.DIRECTORY)
    try:
        server = await named(service, A, "a")
        await service.moves.live_migrate(server, B)
        refused = await ended(service, server)
        assert not refused.succeeded
        assert "/etc/pki/qemu/ca-cert.pem" in refused.message
        assert "--no-direct-tls" in refused.message
        assert await world.where() == [("a", A, "running")]

        migration_tls.install(hosts[1], switched.layout)
        await service.moves.live_migrate(await named(service, A, "a"), B)
        assert (await ended(service, server)).succeeded
    finally:
        await service.close()

    assert await world.where() == [("a", B, "running")]
    assert await world.local_files("a") == [B]
    assert await world.vms.order("a", "read-disk 4") == written
    for host in hosts:
        await host.crash()  # the next test gets a fresh one
