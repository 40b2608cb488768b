"""The OVS agents as the lab runs them: a broken switch shows, closes its host, and heals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from unittest import mock

import msgspec
import pytest

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.coordination import Event
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.ovsnode import Bridge, OVSNode
from hypercobalt.cli import agents as people
from hypercobalt.lab import agents, rights, tokens
from hypercobalt.lab.commands import execute
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.machine.preflight import HOST_BYTES
from hypercobalt.lab.ovn import Central, Part
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.launch import encode_settings
from hypercobalt.ovs_agent.settings import OVSAgentSettings
from tests.following import follow
from tests.lab.kit.command import COBALT
from tests.lab.kit.served import served_lab
from tests.lab.kit.site import HOSTS, Site, visited
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)

VSWITCHD = "ovs-vswitchd.service"
SOON = 60.0
PROVEN = {
    "AllBondsHealthy",
    "AllBridgesHealthy",
    "FlowsInSync",
    "OVNControllerConnected",
    "OVSDBConnected",
    "PortsHealthy",
    "Ready",
    "VswitchdResponding",
}


@pytest.fixture(scope="module")
def served(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three hosts with everything that a lab has."""
    yield from served_lab(tmp_path_factory.mktemp("switches"), hosts=len(HOSTS))


@pytest.fixture
async def site(served: Lab) -> AsyncIterator[Site]:
    async with visited(served) as found:
        for host in HOSTS:
            await network(found, host, "True/Healthy")
        yield found


def state(of: OVSNode | Hypervisor, type_: str) -> str:
    found = get_condition(of.status.conditions, type_)
    return f"{found.status}/{found.reason}" if found else ""


async def switch(site: Site, host: str, good: Callable[[OVSNode], bool], within: float) -> OVSNode:
    return await follow(site.kube, OVSNode, host, good, seconds=within)


async def network(
    site: Site, host: str, wanted: str, accepts: str = "True/NodeHealthy"
) -> Hypervisor:
    """The Hypervisor once its NetworkHealthy and AcceptsNewInstances are as wanted."""

    def is_so(hypervisor: Hypervisor) -> bool:
        types = ("NetworkHealthy", "AcceptsNewInstances")
        return [state(hypervisor, type_) for type_ in types] == [wanted, accepts]

    return await follow(site.kube, Hypervisor, host, is_so, seconds=SOON)


async def ovn(site: Site, *arguments: str) -> str:
    """What `cobalt lab ovn` prints."""
    data = str(site.lab.layout.data)
    code, printed = await site.cobalt("lab", "ovn", *arguments, "--data", data)
    assert code == 0, printed
    return printed


async def test_every_switch_is_reported_healthy_with_proof_by_an_agent_of_few_rights(
    site: Site,
) -> None:
    for host in site.lab.hosts:
        found = await switch(
            site,
            host.name,
            lambda one: {c.type for c in one.status.conditions if c.status == "True"} == PROVEN,
            SOON,
        )
        assert found.metadata.namespace == rights.OVS_NAMESPACE
        assert found.status.ovnController is not None
        assert found.status.ovnController.encapIP == host.identity.tunnel_address
        modes = await host.run("stat", "--format=%a %U", agents.OVS_KUBECONFIG, tokens.OF_OVS_AGENT)
        assert modes.splitlines() == ["600 root"] * 2
        assert host.memory_bytes() < HOST_BYTES
    other = ("kubectl", f"--kubeconfig={agents.OVS_KUBECONFIG}", "-n", rights.OVS_NAMESPACE)
    binaries = Path(sys.executable).parent
    refused = await site.vms.host("kvm-1").run(
        *("sh", "-c", f"{binaries}/{' '.join(other)} delete ovsnode kvm-2 2>&1 || :")
    )
    assert "Forbidden" in refused or "forbidden" in refused


async def test_person_looks_into_a_switch_through_its_agent_and_is_seen(site: Site) -> None:
    """The agents have the rights of their charts; the administrator has a client certificate."""
    kubeconfig = site.lab.control.kubeconfig
    found = await people.whole(OVSNode, "kvm-1", "bridges", kubeconfig=kubeconfig)
    bridges = msgspec.json.decode(found, type=list[Bridge])
    assert "br-int" in [bridge.name for bridge in bridges]
    events = (await site.kube.list(Event, rights.OVS_NAMESPACE)).items
    used = (one for one in events if one.reason == "DiagnosticsUsed")
    (seen,) = (one for one in used if " used bridges " in one.note)
    assert seen.note.startswith("user kubernetes-admin used bridges for ")
    assert seen.regarding is not None
    assert (seen.regarding.kind, seen.regarding.name) == ("OVSNode", "kvm-1")


async def port_of(site: Site, name: str, host: str) -> dict[str, object]:
    """A VM's port, as `cobalt ports` shows it for the VM's UUID."""
    instance = str(site.vms.id_of(name))
    code, printed = await site.cobalt("ports", host, instance, "-o", "json")
    assert code == 0, printed
    (found,) = msgspec.json.decode(printed, type=dict[str, list[dict[str, object]]])["ports"]
    assert (found["instance"], found["linkUp"]) == (instance, True)
    return found


async def test_trace_between_guests_names_the_host_that_gets_the_packet(site: Site) -> None:
    here = (VMRequest(name=name, host="kvm-1", kind="boot") for name in "ab")
    await site.vms.add(*here, VMRequest(name="c", host="kvm-2", kind="boot"))
    source, near = await port_of(site, "a", "kvm-1"), await port_of(site, "b", "kvm-1")
    far = await port_of(site, "c", "kvm-2")
    trace = ("trace", "kvm-1", "--from", str(source["name"]), "--to")
    code, printed = await site.cobalt(*trace, str(near["name"]))
    assert (code, printed.split()[:3]) == (0, ["delivered", "to", near["name"]]), printed
    assert "switch vms" in printed
    code, printed = await site.cobalt(*trace, str(far["ifaceID"]))
    assert (code, printed.split()[:4]) == (0, ["sent", "to", "host", "kvm-2"]), printed
    assert f"\non kvm-2: delivered to {far['name']} (instance " in printed, printed


async def test_person_captures_a_guest_s_ping_and_reads_the_journal_and_nothing_is_left(
    site: Site, tmp_path: Path
) -> None:
    host, file = site.vms.host("kvm-1"), tmp_path / "ping.pcap"
    made = await site.vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))
    address = {vm.name: vm.title.split()[1] for vm in made}
    tap = (await host.run("sh", "-c", "virsh domiflist a | awk '/tap|vnet/ {print $1}'")).strip()
    await site.vms.order("b", f"ping {address['a']} 400 0.1")
    code, printed = await site.cobalt(
        *("capture", "kvm-1", tap, "--filter", "icmp", "--packets", "4", "-w", str(file))
    )
    assert (code, printed) == (0, f"4 packets of port {tap} on kvm-1\n")
    shown = await execute(("tcpdump", "-n", "-r", str(file)))
    assert f"IP {address['b']} > {address['a']}: ICMP echo request" in shown.stdout
    assert file.stat().st_mode & 0o077 == 0

    iface = await host.run("ovs-vsctl", "get", "interface", tap, "external_ids:iface-id")
    before = await switch(site, "kvm-1", serves, SOON)
    for end in ("Ctrl-C", "kill -9"):
        capture = await beginning(site, "capture", "kvm-1", iface.strip().strip('"'))
        assert await _tcpdumps(host) == 1
        if end == "Ctrl-C":
            capture.send_signal(signal.SIGINT)
        else:
            await host.run("systemctl", "kill", "--signal=KILL", agents.OVS_AGENT)
        assert await asyncio.wait_for(capture.wait(), SOON) == (130 if end == "Ctrl-C" else 1)
        await until(lambda: _no_tcpdump(host))
    await switch(site, "kvm-1", lambda one: serves(one) and not same_server(one, before), SOON)

    code, printed = await site.cobalt("capture", "kvm-1", "br-int", "-w", str(tmp_path / "no"))
    assert code == 2, printed
    assert "ovsnodes/capture-uplink" in printed
    assert not (tmp_path / "no").exists()

    code, printed = await site.cobalt("logs", "kvm-1", "--unit", "hypercobalt-ovs-agent")
    assert code == 0, printed
    assert "capture_ended" in printed
    assert await site.cobalt("logs", "kvm-1", "--unit", "sshd") == (2, mock.ANY)


def serves(node: OVSNode) -> bool:
    return node.status.diagnostics is not None


def same_server(one: OVSNode, other: OVSNode) -> bool:
    return one.status.diagnostics == other.status.diagnostics


async def beginning(site: Site, *arguments: str) -> asyncio.subprocess.Process:
    """A command that streams, once something has come."""
    process = await asyncio.create_subprocess_exec(
        *(COBALT, *arguments),
        env=os.environ | {"KUBECONFIG": str(site.lab.control.kubeconfig)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await asyncio.wait_for(process.stdout.readexactly(24), SOON)
    return process


async def _tcpdumps(host: Host) -> int:
    return int(await host.run("sh", "-c", "pgrep -c tcpdump || :"))


async def _no_tcpdump(host: Host) -> bool:
    return await _tcpdumps(host) == 0


@pytest.mark.timed
async def test_switches_that_hang_or_are_gone_close_their_hosts_within_ten_seconds(
    site: Site,
) -> None:
    hung, gone = site.vms.host("kvm-2"), site.vms.host("kvm-3")
    began = monotonic()
    await hung.run("systemctl", "kill", "--signal=STOP", VSWITCHD)
    await gone.run("systemctl", "stop", VSWITCHD)
    reasons = {"kvm-2": ("Timeout",), "kvm-3": ("ConnectionRefused", "SocketMissing")}
    try:
        for name, possible in reasons.items():
            wanted = {f"False/{reason}" for reason in possible}
            await switch(
                site,
                name,
                lambda one, wanted=wanted: state(one, "VswitchdResponding") in wanted,  # type: ignore[misc]
                10 - (monotonic() - began),
            )
        for name in reasons:
            await network(site, name, "False/SwitchNotResponding", "False/NetworkBroken")
        await network(site, "kvm-1", "True/Healthy")
    finally:
        await hung.run("systemctl", "kill", "--signal=CONT", VSWITCHD)
        await gone.run("systemctl", "start", "openvswitch-switch.service")
    for name in HOSTS:
        await network(site, name, "True/Healthy")


async def test_a_southbound_database_that_hangs_is_one_incident_that_closes_no_host(
    site: Site,
) -> None:
    made = await site.vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))
    address = {vm.name: vm.title.split()[1] for vm in made}
    await site.vms.order("b", f"ping {address['a']} 10 0.2")
    await site.pings("b", 1)

    assert "hangs" in await ovn(site, "hang", "sb")
    began = monotonic()
    await site.vms.order("b", f"ping {address['a']} 100 0.1")
    assert "hangs" in await ovn(site, "hang", "sb")
    for name in HOSTS:
        await switch(
            site,
            name,
            lambda one: state(one, "OVNControllerConnected").startswith("False/SB"),
            30 - (monotonic() - began),
        )
    for name in HOSTS:
        found = await network(site, name, "False/OVNDisconnected")
        assert state(found, "Ready") == "True/Ready"
    await site.lab.up(Setup())
    assert await site.pings("b", 2) == (100, 100)
    code, printed = await site.cobalt("evict", "kvm-1")
    assert code == 0, printed
    await _explained(site, "eviction/kvm-1", "OVN binds no ports")
    assert ("a", "kvm-1", "running") in await site.where()

    assert "runs" in await ovn(site, "start", "sb")
    assert "runs" in await ovn(site, "start", "sb")
    await until(lambda: _is_evicted(site))
    assert ("a", "kvm-1", "running") not in await site.where()
    await site.vms.order("b", f"ping {address['a']} 10 0.1")
    assert (await site.pings("b", 3))[1] > 0


async def test_without_northd_or_the_northbound_database_ports_wait_and_traffic_goes_on(
    site: Site,
) -> None:
    made = await site.vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))
    address = {vm.name: vm.title.split()[1] for vm in made}
    central, data = site.lab.central, str(site.lab.layout.data)
    await site.vms.order("b", f"ping {address['a']} 10 0.2")
    await site.pings("b", 1)
    try:
        assert "northd hangs" in await ovn(site, "hang", "northd")
        await central.nbctl("ls-add", "late")
        assert not await _is_translated(central, "late")
        assert "northd runs" in await ovn(site, "start", "northd")
        await until(lambda: _is_translated(central, "late"))

        assert "does not run" in await ovn(site, "stop", "nb", "northd")
        code, printed = await site.cobalt("lab", "vm", "add", "c", "--data", data)
        assert (code, "`cobalt lab ovn start nb` starts it" in printed) == (1, True), printed
        await site.vms.order("b", f"ping {address['a']} 10 0.1")
        assert await site.pings("b", 2) == (10, 10)
        for name in HOSTS:
            await network(site, name, "True/Healthy")
    finally:
        assert (await ovn(site, "start")).count(" runs\n") == len(Part)
    await central.nbctl("ls-del", "late")
    await site.vms.add(VMRequest(name="c", host="kvm-3", kind="boot"))


async def _is_translated(central: Central, switch_name: str) -> bool:
    """Whether northd has written a logical switch to the southbound database."""
    found = await central.sbctl("--bare", "--columns=external_ids", "list", "Datapath_Binding")
    return f"name={switch_name}" in found


async def _explained(site: Site, subject: str, words: str) -> None:
    """Wait until `cobalt explain` says so; a failure shows what it said last."""
    printed = ""

    async def says_so() -> bool:
        nonlocal printed
        _, printed = await site.cobalt("explain", subject)
        return words in " ".join(printed.split())

    try:
        await until(says_so)
    except TimeoutError:
        pytest.fail(f"{words!r} is not in what `cobalt explain {subject}` said last:\n{printed}")


async def _is_evicted(site: Site) -> bool:
    found = await site.kube.get(Hypervisor, "kvm-1")
    return found is not None and bool(found.status.evicted)


async def test_an_eviction_leaves_out_a_host_without_its_bridge_and_a_second_up_mends_that(
    site: Site,
) -> None:
    broken = site.vms.host("kvm-2")
    await site.vms.add(*(VMRequest(name=name, host="kvm-1", kind="boot") for name in "ab"))
    await broken.run("systemctl", "stop", "ovn-controller.service")
    await broken.run("ovs-vsctl", "del-br", "br-int")
    await network(site, "kvm-2", "False/BridgeDown", "False/NetworkBroken")

    code, printed = await site.cobalt("evict", "kvm-1", "--watch")

    assert code == 0, printed
    assert await site.where() == [("a", "kvm-3", "running"), ("b", "kvm-3", "running")]
    await broken.run("systemctl", "stop", agents.OVS_AGENT)
    await site.lab.up(Setup())
    await network(site, "kvm-2", "True/Healthy")


async def test_a_tap_made_again_is_found_dead_and_an_agent_that_hangs_is_shown_as_silent(
    site: Site,
) -> None:
    host, hung = site.vms.host("kvm-1"), site.vms.host("kvm-3")
    await site.vms.add(VMRequest(name="a", host="kvm-1"))
    await hung.run("systemctl", "kill", "--signal=STOP", agents.OVS_AGENT)
    tap = (await host.run("sh", "-c", "virsh domiflist a | awk '/tap|vnet/ {print $1}'")).strip()
    async with impatient_agent(host):
        await switch(site, "kvm-1", is_ready, SOON)
        get = ("ovs-vsctl", "get", "interface", tap)
        iface = (await host.run(*get, "external_ids:iface-id")).strip().strip('"')
        ids = (await host.run(*get, "external_ids")).strip().replace(", ", ",")
        await host.run("ovs-vsctl", "del-port", tap)
        cut = await switch(site, "kvm-1", shows("InstancePortMissing", iface), SOON)
        assert state(cut, "PortsHealthy") == "False/InstancesCutOff"
        await network(site, "kvm-1", "False/Degraded")
        again = ("--", "set", "interface", tap, f"external_ids={ids}")
        await host.run("ovs-vsctl", "add-port", "br-int", tap, *again)
        await switch(site, "kvm-1", is_ready, SOON)
        await host.run("ip", "link", "delete", tap)
        await switch(site, "kvm-1", shows("InstanceDeviceLost", tap), SOON)
        async with sending(host, tap):
            dead = await switch(site, "kvm-1", shows("PortSilentlyDead", tap), SOON)
        assert state(dead, "PortsHealthy") == "False/SilentlyDead"
        await host.run("sh", "-c", "virsh -q destroy a && virsh -q start a")
        await switch(site, "kvm-1", is_ready, SOON)
    for kind in (OVSNode, Hypervisor):
        type_ = "Ready" if kind is OVSNode else "NetworkHealthy"
        silent = await follow(
            site.kube,
            kind,
            "kvm-3",
            lambda one, type_=type_: state(one, type_) == "Unknown/AgentSilent",  # type: ignore[misc]
            seconds=SOON,
        )
        assert silent.metadata.name == "kvm-3"
    await hung.run("systemctl", "kill", "--signal=CONT", agents.OVS_AGENT)
    for name in HOSTS:
        await network(site, name, "True/Healthy")


def is_ready(node: OVSNode) -> bool:
    return state(node, "Ready") == "True/AllChecksPassed"


def shows(code: str, of: str) -> Callable[[OVSNode], bool]:
    return lambda node: (code, of) in {(one.code, one.object) for one in node.status.issues}


IMPATIENT = """
import os
import sys
from datetime import timedelta
from hypercobalt.runtime.process import main
from hypercobalt.ovs_agent import probes
from hypercobalt.ovs_agent.__main__ import run
from hypercobalt.ovs_agent.rules import ports
from hypercobalt.ovs_agent.settings import OVSAgentSettings
ports.GRACE = timedelta(seconds=1)
probes.SHAPE = probes.COUNTS = timedelta(seconds=2)
probes.TRAFFIC = timedelta(seconds=6)  # ovs-vswitchd writes statistics each 5 s
descriptor = os.memfd_create("settings")
os.write(descriptor, {settings!r})
os.lseek(descriptor, 0, os.SEEK_SET)
sys.argv[1:] = [str(descriptor)]
sys.exit(main(OVSAgentSettings, run))
"""


@asynccontextmanager
async def impatient_agent(host: Host) -> AsyncGenerator[None]:
    """The OVS agent of a host with graces and periods of seconds, which are a minute each."""
    settings = OVSAgentSettings(
        node=host.name, namespace=rights.OVS_NAMESPACE, kubeconfig=Path(agents.OVS_KUBECONFIG)
    )
    drop_in = f"/run/systemd/system/{agents.OVS_AGENT}.d/test.conf"
    program = "/root/impatient.py"
    lines = f"[Service]\nExecStart=\nExecStart={sys.executable} {program}\n"
    await host.run("tee", program, stdin=IMPATIENT.format(settings=encode_settings(settings)))
    await host.run("mkdir", "-p", str(Path(drop_in).parent))
    await host.run("tee", drop_in, stdin=lines)
    try:
        await restart(host)
        yield
    finally:
        await host.run("rm", drop_in)
        await restart(host)


async def restart(host: Host) -> None:
    await host.run("systemctl", "daemon-reload")
    await host.run("systemctl", "restart", agents.OVS_AGENT)


SEND = """
import fcntl, os, struct, subprocess, sys, time
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454CA, struct.pack("16sH22x", sys.argv[1].encode(), 0x1002))  # TUNSETIFF
subprocess.run(("ip", "link", "set", sys.argv[1], "up"), check=True)
while True:
    os.write(tap, bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(50))
    time.sleep(0.05)
"""


@asynccontextmanager
async def sending(host: Host, tap: str) -> AsyncGenerator[None]:
    """Make a tap of that name again, and send frames out of it as an emulator does."""
    work = host.run(sys.executable, "-c", SEND, tap, within=timedelta(seconds=SOON))
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
