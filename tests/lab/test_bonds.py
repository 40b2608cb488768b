"""The bonds of the hosts, and the top of rack that they end in."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.lab import agents, bond, processes
from hypercobalt.lab.commands import cobalt_command
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.network.data_cables import MEMBERS
from hypercobalt.lab.network.member_faults import MemberFault
from hypercobalt.lab.network.rack import SWITCH
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.runtime import Kube
from tests.following import follow
from tests.lab.conftest import SWITCHED, TakeFleet, until
from tests.lab.kit.command import cobalt

pytestmark = pytest.mark.timeout(300)

UNPLUGGED, SILENT = MemberFault.UNPLUGGED, MemberFault.SILENT
FIRST, SECOND = MEMBERS
SECONDS = 60.0
_PINGED = re.compile(r"pinged \S+ (\d+) packets transmitted, (\d+) packets received")
_NETWORK = """ip -brief address; ip neighbor; ovs-appctl bond/show; ovs-appctl lacp/show
ovs-appctl fdb/show br-phy; ovs-ofctl dump-flows br-phy; ovs-appctl dpctl/dump-flows || :"""
_KUBECONFIG = "/root/ovs-agent.kubeconfig"


def enabled(shown: str) -> set[str]:
    """The enabled members, out of bond/show."""
    return set(re.findall(r"^member (\S+): enabled$", shown, re.MULTILINE))


async def carries(host: Host, *members: str) -> None:
    """Wait until these members of the bond are enabled, and no others."""

    async def attempt() -> None:
        shown = await host.run("ovs-appctl", "bond/show", bond.BOND)
        if enabled(shown) != set(members):
            raise LabError(shown)

    await until(attempt)


async def reaches(host: Host, other: Host) -> None:
    """Wait until the address of the tunnels answers; a failure shows the networks of both."""
    address = other.identity.tunnel_address
    try:
        await until(lambda: host.run("busybox", "ping", "-c", "1", "-W", "1", address))
    except TimeoutError:
        seen = [f"{one.name}:\n{await one.run('sh', '-c', _NETWORK)}" for one in (host, other)]
        pytest.fail(f"{host.name} does not reach {address}\n" + "\n".join(seen))


async def links(host: Host) -> dict[str, bool]:
    """Whether each member has a carrier."""
    files = [f"/sys/class/net/{member}/carrier" for member in MEMBERS]
    shown = (await host.run("cat", *files)).split()
    return {member: one == "1" for member, one in zip(MEMBERS, shown, strict=True)}


async def sent(host: Host) -> int:
    """Frames that have left by the members of the bond."""
    files = [f"/sys/class/net/{member}/statistics/tx_packets" for member in MEMBERS]
    return sum(map(int, (await host.run("cat", *files)).split()))


async def pinged(log: Path) -> tuple[int, int]:
    """Sent and received, as a guest counted them."""

    async def attempt() -> None:
        if not _PINGED.search(log.read_text()):
            raise LabError("the guest still pings")

    await until(attempt)
    ((count, received),) = _PINGED.findall(log.read_text())
    return int(count), int(received)


async def test_guests_on_two_hosts_ping_on_while_one_member_after_the_other_is_unplugged(
    fleet: TakeFleet,
) -> None:
    vms = await fleet(2)
    made = await vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))
    host, other = vms.host("kvm-1"), vms.host("kvm-2")
    for one in (host, other):
        await carries(one, *MEMBERS)
    # A tunnel whose other end has not answered ARP drops all that is sent into it without a pause.
    await reaches(host, other)
    await reaches(other, host)
    before = await sent(host)
    address = next(vm.title.split()[1] for vm in made if vm.name == "a")
    await vms.order("b", f"ping {address} 120 0.1")

    for member in MEMBERS:
        others = [one for one in MEMBERS if one != member]
        await bond.set_faults(host, [member], UNPLUGGED)
        await carries(host, *others)
        await bond.set_faults(host, [member], None)
        await carries(host, *MEMBERS)

    # Busy processors delay a failover: a second for each of the two, where it takes 0.1.
    count, received = await pinged(vms.log("b"))
    assert count == 120
    assert received >= 100
    assert await sent(host) - before >= 100


@asynccontextmanager
async def ovs_agent(lab: Lab, host: Host) -> AsyncGenerator[None]:
    """The OVS agent in a host, with an administrator's rights."""
    host.disk.write(_KUBECONFIG, lab.control.kubeconfig.read_bytes(), mode=0o600)
    command = host.entering(
        *(str(cobalt_command()), "ovs-agent", "--kubeconfig", _KUBECONFIG),
        *("--node", host.name, "--namespace", agents.NAMESPACE),
        *("--health-probe-bind-address", "127.0.0.1:0"),
        *("--metrics-bind-address", "127.0.0.1:0", "--no-metrics-secure"),
    )
    null = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdin=null, stdout=null, stderr=null)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def shows(condition: str, active: int, *issues: str) -> Callable[[OVSNode], bool]:
    """Whether an OVSNode has AllBondsHealthy, active members and issues about the bond so."""

    def holds(node: OVSNode) -> bool:
        stated = get_condition(node.status.conditions, "AllBondsHealthy")
        bonds = node.status.interfaces.bonds if node.status.interfaces else ()
        about = {f"{one.code} {one.object}" for one in node.status.issues}
        return (
            stated is not None
            and f"{stated.status}/{stated.reason}" == condition
            and [one.activeMembers for one in bonds] == [active]
            and {one for one in about if bond.BOND in one} == set(issues)
        )

    return holds


async def test_a_bond_that_is_broken_is_reported_with_its_reason_until_it_is_mended(
    fleet: TakeFleet, switched: Lab, api_server: Lab, api: Kube
) -> None:
    host = (await fleet(2)).host("kvm-1")

    async def reported(good: Callable[[OVSNode], bool]) -> OVSNode:
        return await follow(api, OVSNode, host.name, good, seconds=SECONDS)

    async with ovs_agent(switched, host):
        found = await reported(shows("True/AllMembersActive", 2))
        assert found.status.interfaces is not None
        (one,) = found.status.interfaces.bonds
        assert (one.name, one.members) == (bond.BOND, 2)
        assert (one.mode, one.status) == ("balance-tcp", "Active")

        await bond.set_faults(host, [FIRST], UNPLUGGED)
        await reported(shows("False/MemberDown", 1, f"MemberDown bond0/{FIRST}"))
        assert await links(host) == {FIRST: False, SECOND: True}
        await bond.set_faults(host, [FIRST], SILENT)
        await reported(shows("False/MemberDown", 1, f"MemberDown bond0/{FIRST}"))
        assert await links(host) == {FIRST: True, SECOND: True}
        await bond.set_faults(host, (), SILENT)
        await reported(shows("False/LACPNotNegotiated", 0, "LACPNotNegotiated bond0"))
        assert await links(host) == {FIRST: True, SECOND: True}
        await bond.set_faults(host, (), UNPLUGGED)
        down = [f"MemberDown bond0/{member}" for member in MEMBERS]
        await reported(shows("False/BondDown", 0, "BondDown bond0", *down))
        await bond.set_faults(host, (), None)
        await reported(shows("True/AllMembersActive", 2))


async def test_a_broken_bond_stays_broken_over_a_cut_a_second_up_and_a_crash_until_mended(
    fleet: TakeFleet, switched: Lab
) -> None:
    vms = await fleet(2)
    host, other = vms.host("kvm-1"), vms.host("kvm-2")
    data = switched.layout.data
    for _ in range(2):
        printed = await cobalt("bond", "unplug", host.name, SECOND, data=data)
        assert f"{SECOND} unplugged" in printed
    await reaches(host, other)

    await host.wire.cut()
    await switched.up_host(host, SWITCHED)
    assert await links(host) == dict.fromkeys(MEMBERS, False)
    assert f"bond0 of kvm-1: {SECOND} unplugged" in await cobalt("status", data=data)
    await host.wire.restore()
    assert await links(host) == {FIRST: True, SECOND: False}
    await host.crash()
    await switched.up_host(host, SWITCHED)
    await carries(host, FIRST)
    await reaches(host, other)

    for _ in range(2):
        assert "whole" in await cobalt("bond", "repair", host.name, data=data)
    await carries(host, *MEMBERS)
    assert "bond0" not in await cobalt("status", data=data)


async def test_a_rack_that_died_and_a_host_of_a_former_version_are_mended_by_up(
    fleet: TakeFleet, switched: Lab
) -> None:
    vms = await fleet(2)
    former, other = vms.host("kvm-1"), vms.host("kvm-2")
    await processes.kill(switched.state.id, lambda process: process.role == SWITCH)
    assert "no top of rack that runs" in await cobalt(
        "bond", "silence", former.name, data=switched.layout.data, code=1
    )
    assert "top of rack does not run" in await cobalt("status", data=switched.layout.data)
    await former.run("ip", "link", "add", "phy0", "type", "veth", "peer", "name", "phy0-peer")
    await former.run("ovs-vsctl", "del-port", "bond0", "--", "add-port", "br-phy", "phy0")

    await switched.up(SWITCHED)

    assert (await former.run("ovs-vsctl", "list-ports", "br-phy")).split() == [bond.BOND]
    for host in (former, other):
        await carries(host, *MEMBERS)
    await reaches(former, other)


async def test_a_member_that_a_bond_lacks_is_refused_with_those_that_it_has(
    fleet: TakeFleet, switched: Lab
) -> None:
    host = (await fleet(1)).host("kvm-1")
    with pytest.raises(LabError, match="has no member 'eth7'; it has data0, data1"):
        await bond.set_faults(host, ["eth7"], UNPLUGGED)
    assert host.wire.is_whole


def test_the_rack_is_no_process_of_a_host(switched: Lab) -> None:
    (rack,) = processes.find(switched.state.id, SWITCH)
    inside = {pid for host in switched.hosts for pid in host.pids()}
    assert rack.pid not in inside
    assert Path(f"/proc/{rack.pid}/ns/net").stat().st_ino != Path("/proc/self/ns/net").stat().st_ino
