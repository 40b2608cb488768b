"""The bond of a host: two data cables, LACP, and the tunnels of OVN on top.

Open vSwitch in user space sends tunnels only through a bridge of its own that has the tunnel's
address. The bond is a port of that bridge; the management network has an interface of its own.

Source: ovs-vswitchd.conf.db(5), "Bonding Configuration"; Open vSwitch, "Bonding" (topics).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypercobalt.lab.errors import LabRequestError
from hypercobalt.lab.host import Host
from hypercobalt.lab.network.data_cables import MEMBERS
from hypercobalt.lab.network.member_faults import MemberFault

BOND: Final = "bond0"
TUNNEL_BRIDGE: Final = "br-phy"  # its address comes from networkd
_FORMER: Final = "phy0"  # the device for tunnels in labs before bonds
_WAIT_SECONDS: Final = 20


async def join(host: Host) -> None:
    """Plug the data cables of a host in, and have its bond carry its tunnels; safe to repeat.

    Raises:
        LabError: the host is off, the rack does not run, or a command fails.
    """
    ovs = ("ovs-vsctl", f"--timeout={_WAIT_SECONDS}")
    if await host.wire.data.plug(host.leader(), connected=not host.wire.is_cut):
        # A transaction of its own: ovs-vswitchd keeps the old device of a port that is back in it.
        await host.run(*ovs, "--if-exists", "del-port", BOND)
    # The kernel has no Open vSwitch module to count on: bridges run in user space.
    await host.run(
        *ovs, "--may-exist", "add-br", TUNNEL_BRIDGE,
        "--", "set", "bridge", TUNNEL_BRIDGE, "datapath_type=netdev",
        f'other-config:hwaddr="{host.identity.tunnel_mac}"',
        "--", "--if-exists", "del-port", TUNNEL_BRIDGE, _FORMER,
        "--", "--may-exist", "add-bond", TUNNEL_BRIDGE, BOND, *MEMBERS,
        "bond_mode=balance-tcp", "lacp=active", "other_config:lacp-time=fast",
    )  # fmt: skip


async def set_faults(host: Host, members: Iterable[str], fault: MemberFault | None) -> None:
    """Break or repair members of a host's bond; the others stay as they are.

    Args:
        host: of the lab.
        members: of its bond; none are all.
        fault: None repairs.

    Raises:
        LabError: there is no such member, or the rack does not run.
    """
    chosen = tuple(members) or MEMBERS
    for member in chosen:
        if member not in MEMBERS:
            raise LabRequestError(
                f"bond {BOND} of host {host.name} has no member {member!r}; "
                f"it has {', '.join(MEMBERS)}"
            )
    cables = host.wire.data
    cables.rack.check()
    faults = dict(cables.faults.read())
    for member in chosen:
        if fault is None:
            faults.pop(member, None)
        else:
            faults[member] = fault
    cables.faults.write(faults)
    await cables.apply(connected=not host.wire.is_cut)


def described(host: Host) -> str:
    """Describe the faults of the members of a host's bond."""
    faults = host.wire.data.faults.read()
    return ", ".join(f"{member} {fault}" for member, fault in faults.items()) or "whole"


def broken(hosts: Iterable[Host]) -> tuple[str, ...]:
    """The bonds that a command has broken, a sentence each."""
    return tuple(
        f"Bond {BOND} of {host.name}: {described(host)}; `cobalt lab bond repair {host.name}` "
        "repairs it"
        for host in hosts
        if host.wire.data.faults.read()
    )
