"""Answers of diagnostics, as they are sent, and as the commands of `cobalt` read them."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class TraceOutcome(StrEnum):
    """What becomes of a packet."""

    DELIVERED = "Delivered"  # to a port of this host
    SENT = "Sent"  # to another host, or out of an uplink
    CONTROLLER = "Controller"  # to ovn-controller, which answers or makes something of it
    DROPPED = "Dropped"


class LogicalStep(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The logical flow that a flow was made of.

    Args:
        stage: its table's name, as `ls_in_acl`.
        pipeline: `ingress` or `egress`.
        table: number in the pipeline.
        priority: of the logical flow.
        match: in OVN's language.
        actions: in OVN's language.
        hint: first digits of the northbound row that it comes from, such as an ACL.
    """

    stage: str
    pipeline: str
    table: int
    priority: int
    match: str
    actions: str
    hint: str = ""


class TraceAction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An action, what it has led to, and why it has led to nothing."""

    text: str
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class TraceStep(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A table that the packet passed.

    Args:
        bridge: name.
        table: its number.
        match: of the flow; "" for any packet.
        priority: of the flow; absent when no flow matched.
        cookie: of the flow, hexadecimal; "" for none.
        actions: of the flow.
        network: switch or router that the packet is in, such as `switch net`; "" if unknown.
        logical: the logical flow; absent if unknown, or if there is none.
        port: logical port that the flow belongs to; absent if unknown, or if there is none.
    """

    bridge: str
    table: int
    match: str = ""
    priority: int | None = None
    cookie: str = ""
    actions: tuple[TraceAction, ...] = ()
    network: str = ""
    logical: LogicalStep | None = None
    port: str = ""


class TracePass(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """From the first table to where the packet leaves or waits for connection tracking.

    Args:
        resumed: why it begins; "" for the first.
        flow: the packet at its begin.
        steps: in order.
        final_flow: the packet at its end.
        megaflow: what of the packet has decided.
        datapath_actions: the datapath's actions.
        remarks: of ovs-vswitchd.
    """

    resumed: str
    flow: str
    steps: tuple[TraceStep, ...]
    final_flow: str
    megaflow: str
    datapath_actions: str
    remarks: tuple[str, ...] = ()


class Onward(msgspec.Struct, frozen=True, rename="camel"):
    """Where a packet goes on that leaves by a tunnel.

    Args:
        chassis: of the next host.
        host: its name; the chassis, if that is unknown.
        parameters: of a trace there, so that the packet goes on as it left.
    """

    chassis: str
    host: str
    parameters: dict[str, str]


class TraceReport(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to a trace.

    Args:
        outcome: what becomes of the packet.
        verdict: the same in one line.
        bridge: that it came in at.
        port: that it came in by.
        packet: as ovs-vswitchd was given it.
        unnamed: why logical flows have no names; "" if they have.
        passes: in order.
        onward: where it goes on, if it leaves by one tunnel of OVN.
    """

    outcome: TraceOutcome
    verdict: str
    bridge: str
    port: str
    packet: str
    unnamed: str
    passes: tuple[TracePass, ...]
    onward: Onward | None = None


class PortFlow(msgspec.Struct, frozen=True, rename="camel"):
    """A flow of table 0 that matches packets of a port: priority, cookie and packets so far."""

    priority: int
    cookie: str
    packets: int


class PortReport(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a bridge.

    Args:
        name: of the interface.
        bridge: that it is on.
        bond: that it is a member of; "" for none.
        type: as Open vSwitch has it; `system` for a device of the kernel.
        ofport: number; absent when ovs-vswitchd has not made it.
        error: why it was not made; "" for none.
        admin_up: whether it is switched on; absent if unknown.
        link_up: whether it has a link; absent if unknown.
        mtu: bytes; absent if unknown.
        mac: MAC address in use; "" if unknown.
        tag: VLAN of an access port; absent for none.
        iface_id: name of its logical port; "" for none.
        instance: UUID, as Nova (`vm-uuid`) or libvirt (`vm-id`) wrote it; "" for none.
        installed: whether OVN has made its flows; absent for a port that OVN does not have.
        remote: of a tunnel or patch, its other end; "" for none.
        counters: `rx_packets` … of the device.
        flows: in table 0, for packets that it delivers; absent where they are not read.
        issues: codes, as the OVSNode has them.
        mirrored_to: where mirrors copy its packets to: names of ports, or `VLAN 7`.
        status: of the driver, as Open vSwitch has it: `driver_name`; of DPDK `numa_id`, `n_rxq`; of
            vhost-user `mode`, `status`, `socket`, which a port without a network device has alone.
    """

    name: str
    bridge: str
    bond: str = ""
    type: str = "system"
    ofport: int | None = None
    error: str = ""
    admin_up: bool | None = None
    link_up: bool | None = None
    mtu: int | None = None
    mac: str = ""
    tag: int | None = None
    iface_id: str = msgspec.field(name="ifaceID", default="")
    instance: str = ""
    installed: bool | None = None
    remote: str = ""
    counters: dict[str, int] = {}
    flows: tuple[PortFlow, ...] | None = None
    issues: tuple[str, ...] = ()
    mirrored_to: tuple[str, ...] = ()
    status: dict[str, str] = {}


class PortsReport(msgspec.Struct, frozen=True, rename="camel"):
    """Ports of a host by bridge and name; `notes` has what could not be read, and why."""

    ports: tuple[PortReport, ...]
    notes: tuple[str, ...] = ()


class LearnedMac(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A MAC address that a bridge has learned.

    Args:
        mac: with colons.
        vlan: that it was seen in; 0 for none.
        port: name of the port that it is behind; its number, if that has no name.
        age: seconds since the last packet; absent for one that was given and does not age.
    """

    mac: str
    vlan: int
    port: str
    age: int | None = None


class BridgePort(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A port of a bridge, and of the datapath below it.

    Args:
        name: of the interface.
        ofport: OpenFlow number.
        type: as the datapath has it: `system`, `tap`, `vxlan` …
        number: in the datapath; absent for one that is not in it, as a patch port.
        options: as `remote_ip=192.0.2.9`; "" for none.
    """

    name: str
    ofport: int
    type: str
    number: int | None = None
    options: str = ""


class BridgeReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A bridge as ovs-vswitchd runs it.

    Args:
        name: of the bridge.
        datapath: as `system@ovs-system`, which bridges of one type share; "" if unknown.
        hits: packets of the datapath with a cached flow.
        missed: packets of the datapath without.
        ports: by name.
        macs: of the bridge, by VLAN and address; of very many the first.
        macs_total: how many there are.
        mac_counters: since ovs-vswitchd started, by their names there.
        notes: what could not be read, and why.
    """

    name: str
    datapath: str = ""
    hits: int | None = None
    missed: int | None = None
    ports: tuple[BridgePort, ...] = ()
    macs: tuple[LearnedMac, ...] = ()
    macs_total: int = 0
    mac_counters: dict[str, int] = {}
    notes: tuple[str, ...] = ()


class BoundPort(msgspec.Struct, frozen=True, rename="camel"):
    """An interface as ovn-controller binds it: `ports` is 0 if no logical port has its name."""

    iface_id: str = msgspec.field(name="ifaceID")
    interface: str
    ports: int


class EnginePart(msgspec.Struct, frozen=True, rename="camel"):
    """A part of what ovn-controller computes, and how often: from scratch, by change, given up."""

    name: str
    recompute: int
    compute: int
    abort: int


class ControllerReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What ovn-controller shows of itself.

    Args:
        connected: whether its session with the southbound database is up; absent if unknown.
        paused: whether debug/pause has paused it; absent if unknown.
        bindings: of interfaces, by name of the interface.
        zones: of connection tracking, by logical port or router.
        engine: parts of its work; those most often computed from scratch first.
        cache: counters of its cache of logical flows, by their names there.
        notes: what could not be read, and why.
    """

    connected: bool | None = None
    paused: bool | None = None
    bindings: tuple[BoundPort, ...] = ()
    zones: dict[str, int] = {}
    engine: tuple[EnginePart, ...] = ()
    cache: dict[str, int] = {}
    notes: tuple[str, ...] = ()
