"""A host with three instances' ports, a tunnel and an uplink, as the recorded traces name them."""

from __future__ import annotations

from pathlib import Path

from tests.unit.ovs_agent.switches import database, healthy, interface, tap

from hypercobalt.adapters.ovn.logical import (
    Explained,
    LogicalDatapath,
    LogicalFlow,
    LogicalPort,
)
from hypercobalt.adapters.ovs.fake import FakeSwitch
from hypercobalt.adapters.ovs.model import Flow
from hypercobalt.adapters.ovs.rows import Database, PortRow
from hypercobalt.adapters.ovs.text.trace import parse_trace
from hypercobalt.adapters.ovs.traced import Trace
from hypercobalt.ovs_agent.facts import SwitchFacts

RECORDED = Path(__file__).parents[2] / "adapters" / "ovs" / "recorded" / "3.1.0"
NET, ROUTER = "net", "r1"
DROPPING = 0xCCA3FB61
"""Cookie of the ACL's flow in the recorded trace."""


def vm(number: int) -> str:
    return f"0f2c1a5e-0000-4000-8000-00000000000{number}"


def lport(number: int) -> str:
    return f"c0ffee00-0000-4000-8000-00000000000{number}"


def mac(number: int) -> str:
    return f"fa:16:3e:00:00:0{number}"


def rows() -> Database:
    taps = [
        tap(
            f"tap{number}",
            number + 1,
            external_ids={
                "iface-id": lport(number),
                "vm-uuid": vm(number),
                "attached-mac": mac(number).upper(),
                "ovn-installed": "true",
            },
        )
        for number in (1, 2, 3)
    ]
    tunnel = interface(
        "ovn-kvm-2-0", 1, type="geneve", options={"remote_ip": "192.0.2.2"}, ifindex=None
    )
    port = PortRow(
        "p-ovn-kvm-2-0",
        "ovn-kvm-2-0",
        (tunnel.uuid,),
        external_ids={"ovn-chassis-id": "kvm-2@192.0.2.2"},
    )
    patch = interface("patch-br-int-to-ln", 6, type="patch", options={"peer": "patch-ln"})
    return database({"br-int": [*taps, (port, (tunnel,)), patch], "br-ex": [interface("eth0", 1)]})


def facts(found: Database | None = None) -> SwitchFacts:
    return healthy(found or rows())


def recorded(name: str) -> Trace:
    return parse_trace((RECORDED / f"trace-{name}.txt").read_text())


def explained() -> Explained:
    """Names of what the recorded trace of the ACL has passed."""
    return Explained(
        flows={
            DROPPING: LogicalFlow(
                "ls_out_acl", "egress", 4, 2001, "tcp.dst == 23", "/* drop */", "92c2ebf4"
            )
        },
        datapaths={2: LogicalDatapath(NET), 3: LogicalDatapath(ROUTER, is_router=True)},
        hosts={"kvm-2": "kvm-2.example.org"},
    )


def logical(number: int, datapath: str = NET) -> LogicalPort:
    addresses = f"{mac(number)} 10.0.0.{number} fd00::{number}"
    return LogicalPort(lport(number), datapath, (addresses,))


def gateway(name: str = "r1-net", end: str = "01", address: str = "10.0.0.254/24") -> LogicalPort:
    return LogicalPort(name, ROUTER, (f"00:00:00:00:ff:{end} {address}",), "patch", "net-r1")


def switch() -> FakeSwitch:
    found = FakeSwitch(rows())
    found.flow_table["br-int"] = (Flow(0, 0x72FD84CB, 100, 5, 2),)
    found.flow_table["br-ex"] = ()
    found.logical_ports = {lport(number): logical(number) for number in (1, 2, 4)}
    found.logical_ports[lport(3)] = logical(3, "net2")
    found.routers_ports = {NET: (gateway(),)}
    found.explained = explained()
    return found


TELNET = (
    f"in_port=2,tcp,dl_src={mac(1)},dl_dst={mac(2)},nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,"
    "tcp_dst=23"
)
"""The flow of the recorded trace of the ACL, as it is requested from tap1 to tap2."""

HTTP = (
    f"in_port=2,tcp,dl_src={mac(1)},dl_dst={mac(4)},nw_src=10.0.0.1,nw_dst=10.0.0.4,nw_ttl=64,"
    "tcp_dst=80"
)
"""The flow of the recorded trace that ends in a tunnel, as it is requested from tap1."""
