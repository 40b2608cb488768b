"""What ovs-vswitchd answers to a trace: the tables that an imaginary packet passes through.

A packet that goes through connection tracking comes back into the tables: each time is a pass.

Source: ovs-vswitchd(8), "ofproto/trace".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a flow.

    Args:
        text: as ovs-vswitchd has it, ports by name.
        notes: what it has led to.
        errors: why it has led to nothing.
    """

    text: str
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One table that was looked into.

    Args:
        bridge: name.
        table: its number.
        match: of the flow that matched; "" for any packet.
        priority: of the flow; None when no flow matched.
        cookie: of the flow, 64 bits.
        actions: that were executed.
    """

    bridge: str
    table: int
    match: str = ""
    priority: int | None = None
    cookie: int = 0
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """From the first table to the last one, or to where the packet waits to come back.

    Args:
        resumed: why it begins, such as `recirc(0x1) - resume conntrack …`; "" for the first.
        flow: the packet at the begin.
        steps: in order.
        final_flow: the packet at the end; `unchanged` for the same.
        megaflow: what of the packet has decided.
        datapath_actions: the datapath's actions, `drop` for none.
        remarks: of ovs-vswitchd, such as why its slow path is used.
    """

    resumed: str = ""
    flow: str = ""
    steps: tuple[TracedStep, ...] = ()
    final_flow: str = ""
    megaflow: str = ""
    datapath_actions: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole trace, at least one pass."""

    passes: tuple[Pass, ...]
