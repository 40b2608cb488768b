"""Answers of diagnostics, as they are sent: `cobalt trace` and `cobalt ports` read them."""

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
        port: logical port that the flow belongs to, likewise.
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
        datapath_actions: what the datapath is told.
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


class PortsReport(msgspec.Struct, frozen=True, rename="camel"):
    """Ports of a host by bridge and name; `notes` has what could not be read, and why."""

    ports: tuple[PortReport, ...]
    notes: tuple[str, ...] = ()
