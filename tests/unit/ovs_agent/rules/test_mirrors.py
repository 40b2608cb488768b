"""Mirrors without a reader are found; those that may be in use are not."""

from __future__ import annotations

import pytest
from tests.unit.ovs_agent.switches import (
    NOW,
    database,
    found,
    healthy,
    interface,
    later,
    mirrored,
    tap,
    without,
)

from hypercobalt.adapters.ovs.mirror_tags import EXPIRES, OWNER
from hypercobalt.adapters.ovs.rows import Database, MirrorRow
from hypercobalt.ovs_agent.assess import judge
from hypercobalt.ovs_agent.rules.mirrors import assess_mirrors

ROWS = database({"br-int": [tap()], "br-ex": [interface("eth0")]})
UNTIL = NOW.timestamp()


def ours(until: str) -> MirrorRow:
    tags = {OWNER: "kvm-1", EXPIRES: until}
    return MirrorRow(
        "m-1", "hcm1", select_src_port=("p-tap1",), output_port="p-hcm1", external_ids=tags
    )


@pytest.mark.parametrize(
    ("mirror", "cause"),
    [
        (MirrorRow("m-1", "m", select_src_port=("p-tap1",), output_port="p-x"), ""),
        (MirrorRow("m-1", "m", select_dst_port=("p-tap1",), output_vlan=7), ""),
        (MirrorRow("m-1", "m", select_all=True, output_port="p-x"), ""),
        (MirrorRow("m-1", "m", select_src_port=("p-tap1",)), "no port that it copies to"),
        (MirrorRow("m-1", "m", output_port="p-x"), "no port that it copies is there"),
        (ours(f"{UNTIL + 1:.0f}"), ""),
        (ours(f"{UNTIL - 1:.0f}"), "the time of its capture is over"),
        (ours("\u00b2"), "the time of its capture is over"),
        (ours("9" * 5000), "the time of its capture is over"),
    ],
)
def test_mirror_without_a_reader_is_left_over(mirror: MirrorRow, cause: str) -> None:
    rows = mirrored(ROWS, "br-int", mirror)
    assessed = assess_mirrors(healthy(rows), NOW)
    assert found(assessed) == ([("MirrorLeftOver", mirror.name)] if cause else [])
    assert all(cause in one.message for one in assessed.findings)


def test_mirror_that_is_left_over_is_an_issue_after_a_minute_and_no_condition() -> None:
    facts = healthy(mirrored(ROWS, "br-ex", MirrorRow("m-1", "m0", select_all=True)))
    first = judge(facts, {}, now=NOW, monotonic=0.0)
    assert first.status.issues == ()
    last = judge(facts, first.ledger, now=later(60), monotonic=60.0)
    ((code, severity, message),) = [
        (one.code, one.severity, one.message) for one in last.status.issues
    ]
    assert (code, severity) == ("MirrorLeftOver", "Warning")
    assert message.endswith("remove it with `ovs-vsctl remove bridge br-ex mirrors m-1`")
    assert all(one.status == "True" for one in last.conditions.values())


def test_command_of_the_message_quotes_a_hostile_name() -> None:
    rows = mirrored(database({"$(reboot)": [tap()]}), "$(reboot)", MirrorRow("m-1", "m0"))
    (finding,) = assess_mirrors(healthy(rows), NOW).findings
    assert "remove bridge '$(reboot)' mirrors m-1" in finding.message


@pytest.mark.parametrize(("lost", "known"), [("vswitchd", True), ("database", False)])
def test_ovsdb_server_alone_proves_a_mirror(lost: str, known: bool) -> None:
    rows: Database = mirrored(ROWS, "br-int", MirrorRow("m-1", "m0"))
    assessed = assess_mirrors(without(healthy(rows), lost), NOW)
    assert found(assessed) == ([("MirrorLeftOver", "m0")] if known else [])
    assert {one.value for one in assessed.unmeasured} == (set() if known else {"MirrorLeftOver"})
