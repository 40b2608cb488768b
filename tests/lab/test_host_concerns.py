"""The node agent in charge of a real host: shutdowns, updates of the system, certificates."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trustme
from msgspec.structs import replace

from hypercobalt.adapters.host.system import HostSystem
from hypercobalt.adapters.host.units import SystemdUnits
from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Namespace, Secret
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.lab.errors import CommandError
from hypercobalt.lab.host import Host
from hypercobalt.node_agent.host.tls_files import UPDATE_UNIT, installer
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Informer, Kube, Metrics, SystemClock
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.write_cache import Latest
from tests.contracts import shutdown, system
from tests.following import background
from tests.integration.node_agent.host.certificates import FromSecret
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import SOCKETS, condition, until
from tests.lab.kit.system import (
    DEADLINE,
    LIBVIRTD,
    LIMIT,
    LOGIND,
    bus,
    evict,
    is_held_back,
    off,
    root,
)
from tests.waiting import Pause

pytestmark = pytest.mark.timeout(240)

GUEST = """<domain type='qemu'><name>guest</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64'>hvm</type></os></domain>"""
SYSUPDATE = """[Service]
Type=oneshot
ExecStart=/bin/sh -c 'test %i != 13.broken && sleep 1'
"""
UPDATE_TLS = """[Service]
Type=oneshot
ExecStart=virt-admin server-update-tls libvirtd
"""
NAMESPACE = "agents"


async def repeat(attempt: Callable[[], Awaitable[str]], good: Callable[[str], bool]) -> str:
    """Repeat what may fail with a CommandError until it gives what is wanted."""
    pause = Pause(0.05)
    async with asyncio.timeout(DEADLINE):
        while True:
            with contextlib.suppress(CommandError):
                if good(printed := await attempt()):
                    return printed
            await pause()


KEEPS = """
import asyncio, subprocess
import shutdown
from hypercobalt.adapters.host.shutdown import LogindShutdown

class Real(shutdown.World):
    async def inhibitors(self):
        found = subprocess.check_output(["systemd-inhibit", "--list", "--no-legend"], text=True)
        return [line.split()[0] for line in found.splitlines() if shutdown.WHY in line]

    async def begin(self):
        subprocess.check_call(["systemctl", "--no-wall", "--no-block", "poweroff"])

for contract in shutdown.CONTRACTS:
    asyncio.run(contract(Real(LogindShutdown())))
    print(contract.__name__, flush=True)
"""


class RealSystem(system.World):
    def __init__(self, host: Host) -> None:
        super().__init__(HostSystem(bus(host), root=root(host)))
        self._host = host

    async def update(self, pretty_version: str) -> None:
        # Written beside its place and renamed, as updates do.
        await self._host.run("tee", "/etc/new", stdin=f'PRETTY_NAME="{pretty_version}"\n')
        await self._host.run("mv", "/etc/new", "/etc/os-release")


async def test_the_system_of_a_host_keeps_the_contract_of_the_fake(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    await host.run("rm", "/etc/os-release")  # a link to the file of the image
    for contract in system.CONTRACTS:
        await contract(RealSystem(host))
    await host.crash()  # so that no other test has it


async def test_logind_keeps_the_contract_of_the_fake(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    await host.run("mkdir", "-p", "/root/contract")
    for name, source in (("keeps.py", KEEPS), ("shutdown.py", inspect.getsource(shutdown))):
        await host.run("tee", f"/root/contract/{name}", stdin=source)
    # A service of the host: logind does not list outside processes, and ends this one in order.
    log = ("--property=StandardOutput=file:/root/kept", "--property=StandardError=file:/root/error")
    await host.run("systemd-run", "--quiet", *log, sys.executable, "/root/contract/keeps.py")
    await off(host)

    kept = (host.disk.root / "root/kept").read_text().split()
    error = (host.disk.root / "root/error").read_text()
    assert kept == [contract.__name__ for contract in shutdown.CONTRACTS], error


@pytest.mark.timed
async def test_a_killed_unit_shows_in_the_api_within_a_second(
    api: Kube, nodes: TakeHosts, record_property: Callable[[str, object], None]
) -> None:
    (host,) = await nodes(1)

    def libvirtd_is(status: str) -> Callable[[Hypervisor], bool]:
        def good(of: Hypervisor) -> bool:
            found = get_condition(of.status.conditions, LIBVIRTD)
            return found is not None and found.status == status

        return good

    await until(api, host, libvirtd_is("True"))
    pid = await host.run("systemctl", "show", "--property=MainPID", "--value", LIBVIRTD)
    shown = asyncio.create_task(until(api, host, libvirtd_is("False")))
    begun = time.monotonic()
    await host.run("kill", "-KILL", pid.strip())
    await shown
    record_property("seconds_to_condition", seconds := time.monotonic() - begun)
    assert seconds < 1

    await until(api, host, libvirtd_is("True"))  # systemd starts it again


async def test_a_host_goes_down_once_its_instances_have_left(
    api: Kube, nodes: TakeHosts, record_property: Callable[[str, object], None]
) -> None:
    (host,) = await nodes(1)
    await host.run("mkdir", "-p", "/etc/systemd/logind.conf.d")
    await host.run("tee", "/etc/systemd/logind.conf.d/limit.conf", stdin=LOGIND)
    await host.run("systemctl", "restart", "systemd-logind.service")
    await host.run("tee", "/root/guest.xml", stdin=GUEST)
    await host.run("virsh", "create", "/root/guest.xml")
    inhibitors = ("systemd-inhibit", "--list", "--no-legend", "--no-pager")
    await repeat(lambda: host.run(*inhibitors), lambda printed: "hypercobalt" in printed)

    await host.run("systemctl", "--no-wall", "--no-block", "poweroff")
    eviction = await evict(api, host)
    assert eviction.spec.trigger == "HostShutdown"
    assert await is_held_back(host)

    left = time.monotonic()
    await host.run("virsh", "destroy", "guest")  # as if it had been moved
    seconds = await off(host) - left

    record_property("seconds_to_off", seconds)
    assert seconds < LIMIT.total_seconds() / 2
    await api.delete(Eviction, host.name)


async def test_an_update_runs_fails_and_completes(api: Kube, nodes: TakeHosts) -> None:
    (host,) = await nodes(1)
    await host.run("tee", "/run/systemd/system/systemd-sysupdate@.service", stdin=SYSUPDATE)
    await host.run("systemctl", "daemon-reload")

    def shows(reason: str, text: str) -> Callable[[Hypervisor], bool]:
        def good(of: Hypervisor) -> bool:
            found = get_condition(of.status.conditions, "OperatingSystemUpdate")
            return found is not None and found.reason == reason and text in found.message

        return good

    await api.merge_patch(Hypervisor, host.name, {"spec": {"version": "13.1"}})
    during = await until(api, host, shows("Running", "13.1: systemd-sysupdate@13.1.service"))
    assert during.status.updateStatus
    assert during.status.updateStatus.inProgress
    done = await until(api, host, shows("Completed", "13.1: installed"))
    assert done.status.updateStatus
    assert (done.status.updateStatus.inProgress, done.status.updateStatus.installed) == (
        False,
        "13.1",
    )

    await api.merge_patch(Hypervisor, host.name, {"spec": {"version": "13.broken"}})
    failed = await until(api, host, shows("Stopped", "2 more attempts"))
    assert failed.status.updateStatus
    assert failed.status.updateStatus.retry == 2
    assert "13.broken.service failed" in condition(failed, "OperatingSystemUpdate").message

    await api.merge_patch(Hypervisor, host.name, {"spec": {"version": None}})
    await host.run("systemctl", "reset-failed")


class Tls:
    """A host whose libvirtd takes TLS, and the concern that keeps its certificate.

    The host has the CA of the lab for migrations, so the administrator names another by a file.
    """

    def __init__(self, api: Kube, host: Host, folder: Path) -> None:
        self.host, self._api = host, api
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(str(ca := folder / "ca.pem"))
        self.board = Board(SystemClock())
        own = Selection(Hypervisor, None, "", f"metadata.name={host.name}")
        self._own = Informer(api, own, metrics=Metrics())
        fields = f"metadata.name=tls-libvirt-{host.name}"
        self._secrets = Informer(api, Selection(Secret, NAMESPACE, "", fields), metrics=Metrics())
        self._concern = FromSecret(
            installer(root(host) / "etc/pki", SystemdUnits(bus(host)), self.board, ca),
            Latest(self._own),
            Latest(self._secrets),
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with background(self._own.run, self._secrets.run, self._concern.run):
            yield

    async def renew(self) -> bytes:
        """Put a fresh certificate in the Secret, wait until it is ready, and return it as DER."""
        leaf = self._authority.issue_cert(self.host.name, self.host.address)
        content = {
            "ca.crt": self._authority.cert_pem.bytes(),
            "tls.crt": leaf.cert_chain_pems[0].bytes(),
            "tls.key": leaf.private_key_pem.bytes(),
        }
        meta = ObjectMeta(name=f"tls-libvirt-{self.host.name}", namespace=NAMESPACE)
        old = await self._api.get(Secret, meta.name, NAMESPACE)
        if old is None:
            await self._api.create(Secret(metadata=meta, data=content, type="Opaque"))
        else:
            await self._api.patch(old, replace(old, data=content))
        installed = root(self.host) / "etc/pki/libvirt/servercert.pem"
        async with asyncio.timeout(DEADLINE):
            while not (self._is_ready() and read(installed) == content["tls.crt"]):
                await self.board.changed(self.board.parts)
        return ssl.PEM_cert_to_DER_cert(content["tls.crt"].decode())

    def _is_ready(self) -> bool:
        verdict = self.board.parts.conditions.get("TLSCertificateInstalled")
        return verdict is not None and verdict.reason == "Ready"

    async def served(self) -> bytes:
        """The certificate that libvirtd shows, DER."""

        def fetch() -> bytes:
            text = ssl.get_server_certificate((self.host.address, 16514), timeout=DEADLINE)
            return ssl.PEM_cert_to_DER_cert(text)

        return await asyncio.to_thread(fetch)

    async def libvirtd(self) -> str:
        show = ("systemctl", "show", "--property=MainPID", "--value", LIBVIRTD)
        return (await self.host.run(*show)).strip()


def read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


async def test_libvirtd_shows_each_new_certificate(
    api: Kube, nodes: TakeHosts, tmp_path: Path
) -> None:
    (host,) = await nodes(1)
    if await api.get(Namespace, NAMESPACE) is None:
        await api.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    await api.merge_patch(Hypervisor, host.name, {"spec": {"installCertificate": True}})
    tls = Tls(api, host, tmp_path)
    async with tls.running():
        await tls.renew()
        # The sockets are stopped too, as the agent's next attempt would start it again.
        await host.run("systemctl", "stop", *SOCKETS, LIBVIRTD)
        await host.run("systemctl", "start", *SOCKETS, "libvirtd-tls.socket")
        await host.run("systemctl", "start", LIBVIRTD)

        # Without the unit for it, libvirtd is restarted.
        before = await tls.libvirtd()
        fresh = await tls.renew()
        assert await tls.served() == fresh
        assert await tls.libvirtd() != before

        # With it, libvirtd goes on.
        await host.run("tee", f"/run/systemd/system/{UPDATE_UNIT}", stdin=UPDATE_TLS)
        await host.run("systemctl", "daemon-reload")
        before = await tls.libvirtd()
        fresh = await tls.renew()
        assert await tls.served() == fresh
        assert await tls.libvirtd() == before

        keys = await host.run("find", "/etc/pki", "-name", "*key.pem", "-type", "f", "-perm", "600")
        assert len(keys.split()) == 3
    await api.delete(Secret, f"tls-libvirt-{host.name}", NAMESPACE)
    await host.crash()  # so that no other test has it
