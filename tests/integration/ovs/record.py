"""Records what a version of Open vSwitch prints, for the tests of the parsers.

PATH=BUILD/ovsdb:BUILD/vswitchd:BUILD/utilities:$PATH \
    .venv/bin/python -m tests.integration.ovs.record BUILD/vswitchd/vswitch.ovsschema

Root is needed. Whatever version is first in PATH is started in a network namespace, with one bond
of each kind, and recorded to tests/unit/adapters/ovs/recorded/VERSION.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.integration.ovs.daemons import OVSDB_SERVER, VSWITCHD, Daemons
from tests.pages import ROOT

RECORDED = ROOT / "tests/unit/adapters/ovs/recorded"
MAC = "fa:16:3e:00:00:{:02x}"
FRAME = f"dl_src={MAC.format(1)},dl_dst={MAC.format(2)}"
SEND = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
    made.bind(("e1", 0))
    made.send(bytes.fromhex("ffffffffffff" "fa163e000003" "88b5") + bytes(50))
"""
BONDS = {
    "bond-tcp": ("p0", "p1", "bond_mode=balance-tcp", "lacp=active"),
    "bond-ab": ("p2", "p3"),
    "bond-slb": ("p4", "p5", "bond_mode=balance-slb"),
    "bond-silent": ("p6", "p7", "lacp=active", "other_config:lacp-fallback-ab=true"),
}
FLOWS = (
    "table=0,priority=100,in_port=tap1,cookie=0x72fd84cb,actions=set_field:0x5->reg0,resubmit(,8)",
    "table=8,priority=50,ip,cookie=0xfa85dd3b,actions=ct(table=9,zone=5)",
    "table=8,priority=40,arp,actions=resubmit(,7),output:tap2,patch-int",
    "table=8,priority=30,dl_type=0x88b5,actions=output:vx0",
    "table=8,priority=0,actions=resubmit(,7)",
    "table=9,ct_state=+new+trk,tcp,cookie=0x1,actions=ct(commit,zone=5),output:tap2",
    "table=9,ct_state=+est+trk,actions=resubmit(,7)",
)
TRACES = {
    "ct": f"tcp,in_port=tap1,{FRAME}",
    "patch": f"arp,in_port=tap1,{FRAME}",
    "no-route": f"in_port=tap1,dl_type=0x88b5,{FRAME}",
    "no-match": f"in_port=tap1,{FRAME}",
    "unknown-port": "in_port=99",
}


def create(daemons: Daemons, schema: str) -> None:
    """Create daemons as `Daemons.create` does, with a database of this schema."""
    daemons.create_database("conf.db", schema)
    daemons.start(OVSDB_SERVER)
    daemons.vsctl("--no-wait", "init")
    daemons.start(VSWITCHD, "--enable-dummy")


def add_bridge(daemons: Daemons, name: str, kind: str = "netdev") -> None:
    bridge = ("set", "bridge", name, f"datapath_type={kind}", "fail_mode=secure")
    daemons.vsctl("add-br", name, "--", *bridge)


def add_port(daemons: Daemons, bridge: str, name: str, *columns: str) -> None:
    daemons.vsctl("add-port", bridge, name, "--", "set", "interface", name, *columns)


def bonds(daemons: Daemons, record: Callable[..., str]) -> None:
    """A bond of each kind, well, with a cut cable, and without any; then one without a partner."""
    for name in ("br-x", "br-tor"):
        add_bridge(daemons, name)
    for number in range(8):
        daemons.add_link(f"p{number}", f"q{number}")
    for name, settings in BONDS.items():
        daemons.vsctl("add-bond", "br-x", name, *settings)
    partner = ("bond_mode=balance-tcp", "lacp=passive")
    daemons.vsctl("add-bond", "br-tor", "bond-tor", "q0", "q1", *partner)
    show = partial(daemons.appctl, VSWITCHD, "bond/show")

    def off() -> list[str]:
        return re.findall(r"^member (\w+): disabled", show(), re.MULTILINE)

    daemons.wait(lambda: not off() and show().count("negotiated") == 2)
    record("healthy-bond-show", "bond/show")
    daemons.namespace.run("ip", "link", "set", "q0", "down")
    daemons.wait(lambda: sorted(off()) == ["p0", "q0"])
    record("cut-bond-show", "bond/show")
    for name in ("q1", "q4", "q5"):
        daemons.namespace.run("ip", "link", "set", name, "down")
    daemons.wait(lambda: sorted(off()) == ["p0", "p1", "p4", "p5", "q0", "q1"])
    record("broken-bond-show", "bond/show")
    for name in ("br-x", "br-tor"):
        daemons.vsctl("del-br", name)
    for name in ("q0", "q1"):
        daemons.namespace.run("ip", "link", "set", name, "up")
    add_bridge(daemons, "br-x")
    daemons.vsctl("add-bond", "br-x", "bond0", "p0", "p1", *partner[:1], "lacp=active")
    daemons.wait(lambda: sorted(off()) == ["p0", "p1"])
    record("silent-bond-show", "bond/show")
    daemons.vsctl("del-br", "br-x")


def bridges(daemons: Daemons, record: Callable[..., str]) -> None:
    """MAC addresses, the datapath, counters, and a packet of each kind."""
    for name in ("br-int", "br-ex"):
        add_bridge(daemons, name)
    for name in ("tap1", "tap2"):
        add_port(daemons, "br-int", name, "type=internal")
    add_port(daemons, "br-int", "patch-int", "type=patch", "options:peer=patch-ex")
    add_port(daemons, "br-ex", "patch-ex", "type=patch", "options:peer=patch-int")
    add_port(daemons, "br-int", "vx0", "type=vxlan", "options:remote_ip=192.0.2.9")
    daemons.ofctl("add-flow", "br-ex", "actions=NORMAL")
    for flow in FLOWS:
        daemons.ofctl("add-flow", "br-int", flow)
    trace = ("ofproto/trace", *names_of_ports(daemons))
    record("trace-normal-flood", *trace, "br-ex", f"in_port=LOCAL,{FRAME}")
    daemons.appctl(VSWITCHD, "fdb/add", "br-ex", "patch-ex", "7", MAC.format(2))
    daemons.appctl(VSWITCHD, "fdb/add", "br-ex", "patch-ex", "0", MAC.format(2))
    record("trace-normal-learned", *trace, "br-ex", f"in_port=LOCAL,{FRAME}")
    daemons.add_link("e0", "e1")
    daemons.vsctl("add-port", "br-ex", "e0", "tag=9")
    daemons.wait(lambda: learn(daemons))
    record("fdb-show", "fdb/show", "br-ex")
    record("fdb-stats-show", "fdb/stats-show", "br-ex")
    for name, flow in TRACES.items():
        record(f"trace-{name}", *trace, "br-int", flow)
    for command in ("dpif/show", "dpctl/show", "upcall/show", "coverage/show", "version"):
        record(command.replace("/", "-"), command)
    daemons.wait(lambda: "ports:" in daemons.appctl(VSWITCHD, "memory/show"))
    record("memory-show", "memory/show")
    for name in ("br-int", "br-ex"):
        daemons.vsctl("del-br", name)  # the command takes no datapath while there is one only
    add_bridge(daemons, "br-pmd", "dummy")
    add_port(daemons, "br-pmd", "pmd0", "type=dummy-pmd")
    daemons.wait(lambda: "numa_id" in daemons.appctl(VSWITCHD, "dpif-netdev/pmd-perf-show"))
    record("pmd-perf-show", "dpif-netdev/pmd-perf-show")
    daemons.vsctl("set", "interface", "pmd0", "options:n_rxq=2")
    daemons.wait(lambda: "queue-id:  1" in daemons.appctl(VSWITCHD, "dpif-netdev/pmd-rxq-show"))
    record("pmd-rxq-show", "dpif-netdev/pmd-rxq-show")


def names_of_ports(daemons: Daemons) -> tuple[str, ...]:
    """The option for names of ports in traces, which came with 3.1."""
    *_, version = daemons.appctl(VSWITCHD, "version").splitlines()[0].split()
    return () if tuple(map(int, version.split(".")[:2])) < (3, 1) else ("--names",)


def learn(daemons: Daemons) -> bool:
    """Send a frame into the port `e0`, and return whether its sender is known by now."""
    daemons.namespace.run(sys.executable, "-c", SEND)
    return MAC.format(3) in daemons.appctl(VSWITCHD, "fdb/show", "br-ex")


def main(schema: str) -> None:
    """Record."""
    folder = Path(tempfile.mkdtemp(prefix="ovs-"))  # a socket's path has 107 characters at most
    daemons = Daemons(folder)
    try:
        create(daemons, schema)
        *_, version = daemons.appctl(VSWITCHD, "version").splitlines()[0].split()
        target = RECORDED / version
        target.mkdir(exist_ok=True)

        def record(name: str, *command: str) -> str:
            text = daemons.appctl(VSWITCHD, *command)
            (target / f"{name}.txt").write_text(text)
            return text

        bonds(daemons, record)
        bridges(daemons, record)
    finally:
        daemons.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
