"""Traces of a real switch are read: passes, tables, bridges, what actions led to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hypercobalt.adapters.ovs.text.bridges import parse_dpif
from hypercobalt.adapters.ovs.text.trace import named, parse_trace
from hypercobalt.adapters.ovs.traced import Action, Trace, TracedStep

OF_ALL = Path(__file__).parent / "recorded"
RECORDED = OF_ALL / "3.1.0"
NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in OF_ALL.glob("*/trace-*.txt"))


def trace(name: str) -> Trace:
    return parse_trace((RECORDED / f"trace-{name}.txt").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_table_and_action_of_a_recorded_trace_is_read(name: str) -> None:
    text = (OF_ALL / f"{name}.txt").read_text()
    found = parse_trace(text)
    steps = [step for one in found.passes for step in one.steps]
    assert len(steps) == len(re.findall(r"^ *\d+\. ", text, re.MULTILINE))
    assert [step.cookie for step in steps if step.cookie] == [
        int(one, 16) for one in re.findall(r", cookie (0x\w+)$", text, re.MULTILINE)
    ]
    actions = [action for step in steps for action in step.actions]
    notes = sum(len(action.notes) for action in actions)
    assert notes == len(re.findall(r"^ *-> ", text, re.MULTILINE))
    assert sum(len(action.errors) for action in actions) == text.count(" >> ")
    assert all(one.flow and one.datapath_actions for one in found.passes)
    assert not any("===" in remark or "---" in remark for p in found.passes for remark in p.remarks)


def test_a_step_has_its_match_priority_cookie_and_actions() -> None:
    assert trace("spoofed").passes[0].steps[0] == TracedStep(
        "br-int",
        0,
        "in_port=tap1",
        100,
        0x72FD84CB,
        tuple(
            Action(text)
            for text in (
                *("set_field:0x5->reg13", "set_field:0x3->reg11", "set_field:0x2->reg12"),
                *("set_field:0x2->metadata", "set_field:0x2->reg14", "resubmit(,8)"),
            )
        ),
    )


def test_connection_tracking_begins_another_pass() -> None:
    found = trace("acl")
    assert [one.resumed.partition(" - ")[2][:16] for one in found.passes] == [
        *("", "resume conntrack", "resume conntrack")
    ]
    assert [one.datapath_actions for one in found.passes][-1] == "drop"
    assert found.passes[-1].steps[-1].actions == (Action("drop"),)


def test_actions_after_a_nested_table_belong_to_the_outer_one() -> None:
    eighth = trace("delivered").passes[0].steps[1]
    assert (eighth.table, eighth.actions[-1].text) == (8, "resubmit(,9)")
    assert "move:NXM_NX_REG10[12]->NXM_NX_XXREG0[111]" in [one.text for one in eighth.actions]


def test_a_table_without_a_matching_flow_has_no_priority() -> None:
    nested = [step for step in trace("routed").passes[1].steps if step.priority is None]
    assert [(step.table, step.actions) for step in nested] == [
        (75, (Action("drop"),)),
        (73, (Action("drop"),)),
    ]


def test_steps_after_a_tunnel_are_on_the_first_bridge_again() -> None:
    steps = trace("tunnel").passes[-1].steps[-3:]
    assert [(step.bridge, step.table) for step in steps] == [
        *(("br-int", 39), ("br-ex", 0), ("br-int", 40))
    ]
    output = next(one for one in steps[0].actions if one.text.startswith("output:"))
    assert output.text == 'output:"ovn-kvm-2-0"'
    assert "tunneling to 192.0.2.2 via br-ex" in output.notes


def test_a_tunnel_without_a_route_is_an_error_of_its_output() -> None:
    outputs = [
        action
        for step in trace("no-route").passes[-1].steps
        for action in step.actions
        if action.text.startswith("output:")
    ]
    assert [one.errors for one in outputs] == [("native tunnel routing failed",)]


def test_the_slow_path_is_a_remark() -> None:
    assert trace("arp").passes[0].remarks == (
        "This flow is handled by the userspace slow path because it:",
        "- Uses action(s) not supported by datapath.",
    )


def outputs(found: Trace) -> list[str]:
    steps = [step for one in found.passes for step in one.steps]
    texts = [action.text for step in steps for action in step.actions]
    sent = [text.replace('"', "") for text in texts if text.startswith("output:")]
    return [*sent, found.passes[-1].datapath_actions]


@pytest.mark.parametrize("name", ["ct", "patch", "no-route"])
def test_ports_have_names_also_of_a_switch_that_gives_numbers(name: str) -> None:
    old, new = (OF_ALL / version for version in ("2.17.12", "3.7.1"))
    unnamed = parse_trace((old / f"trace-{name}.txt").read_text())
    bridges = parse_dpif((old / "dpif-show.txt").read_text())
    expected = outputs(parse_trace((new / f"trace-{name}.txt").read_text()))
    assert outputs(unnamed) != expected
    assert outputs(named(unnamed, bridges)) == expected


KEPT_BACK = """Flow: icmp,in_port=1

bridge("br-int")
----------------
 0. in_port=1, priority 100, cookie 0xabc
    ct(zone=5,nat)
    drop
     -> A clone of the packet is forked to recirculate.
     -> Sets the packet to an untracked state, and clears all the conntrack fields.
    output:"tap2"

Final flow: unchanged
Megaflow: recirc_id=0,eth
Datapath actions: ct(zone=5,nat),recirc(0x1)

===============================================================================
recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x1,icmp,in_port=1

bridge("br-int")
----------------
    thaw
        Resuming from table 0
        Restoring actions: set_field:2->reg0,resubmit(,8),output:2
    set_field:2->reg0
    resubmit(,8)
     8. priority 0, cookie 0xdef
            drop
    output:"tap2"
     -> output is here

Final flow: unchanged
Megaflow: recirc_id=0x1,eth
Datapath actions: tap2
"""


def test_actions_that_were_kept_back_are_of_the_table_that_the_packet_left() -> None:
    (_, back) = parse_trace(KEPT_BACK).passes
    kept, below = back.steps
    assert (kept.bridge, kept.table, kept.cookie, kept.match) == ("br-int", 0, 0xABC, "in_port=1")
    assert [one.text for one in kept.actions] == [
        "set_field:2->reg0",
        "resubmit(,8)",
        'output:"tap2"',
    ]
    assert kept.actions[-1].notes == ("output is here",)
    assert (below.table, below.cookie) == (8, 0xDEF)
