"""Which table is read next, and what counts as stale in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from hypercobalt.adapters.ovs.model import Flow, FlowShape
from hypercobalt.ovs_agent.flow_scan import (
    MOST,
    RESERVED,
    ForeignFlow,
    TableScan,
    is_foreign,
    next_table,
    scanned,
)

NOW = 1000.0
LONG_AGO, JUST_NOW = 900.0, 990.0
FINE, SUSPICIOUS = TableScan(), TableScan(frozenset({7}))
BOTH = {0: 1, 8: 1}
NEXT: dict[
    str, tuple[Mapping[int, int], Mapping[int, TableScan], Mapping[int, float], int | None]
] = {
    "nothing to read": ({}, {}, {}, None),
    "never read goes first": (BOTH, {0: FINE}, {0: LONG_AGO}, 8),
    "then the oldest": (BOTH, {0: FINE, 8: FINE}, {0: 900, 8: 890}, 8),
    "suspicious goes before never read": (BOTH, {0: SUSPICIOUS}, {0: LONG_AGO}, 0),
    "suspicious waits for the pause": (BOTH, {0: SUSPICIOUS}, {0: JUST_NOW}, 8),
    "all were read just now": ({0: 1}, {0: FINE}, {0: JUST_NOW}, None),
    "too large": ({0: MOST + 1}, {}, {}, None),
    "as large as may be": ({0: MOST}, {}, {}, 0),
}


@pytest.mark.parametrize("case", NEXT)
def test_next_table_to_scan_follows_from_counts_and_ages(case: str) -> None:
    counts, scans, read_at, expected = NEXT[case]
    assert next_table(counts, scans, read_at, NOW) == expected


def flow(cookie: int, *outputs: int) -> Flow:
    return Flow(0, cookie, 1, 0, None, outputs)


def test_wrong_flow_counts_only_when_it_was_wrong_before() -> None:
    flows = [flow(0xABCD, 1, 9, RESERVED, 0xFFFFFFFD), flow(1 << 32), flow(0xFFFFFFFF, 2)]
    first = scanned(flows, frozenset({1, 2}), None)
    assert (list(first.outputs), list(first.cookies)) == ([9], [1 << 32])
    assert not first.lasting_outputs | first.lasting_cookies
    second = scanned(flows, frozenset({1, 2}), first)
    assert (list(second.lasting_outputs), list(second.lasting_cookies)) == ([9], [1 << 32])
    back = scanned(flows[:1], frozenset({1, 2, 9}), second)
    assert (back.is_suspicious, back.lasting_outputs) == (False, frozenset())


def test_very_many_wrong_flows_take_little_memory() -> None:
    flows = [flow(number << 32, 100 + number) for number in range(1, 1000)]
    found = scanned(flows, frozenset(), scanned(flows, frozenset(), None))
    assert len(found.lasting_outputs) == len(found.lasting_cookies) == 16


def shaped(
    table: int, priority: int, cookie: int = 0, in_port: int | None = None, **fields: object
) -> Flow:
    """A flow that matches fields of the packet alone, and has actions."""
    shape = FlowShape(pipeline=False, acts=True, resubmits=False, joins=False)
    outputs = cast("tuple[int, ...]", fields.pop("outputs", ()))
    return Flow(table, cookie, priority, 0, in_port, outputs, replace(shape, **fields))  # type: ignore[arg-type]


TUNNEL, VIF = 3, 1
OF_OVN = {
    "default of a table": shaped(0, 0, acts=False),
    "from a tunnel": shaped(0, 100, in_port=TUNNEL, resubmits=True),
    "from a port": shaped(0, 100, 0xABC, in_port=VIF, resubmits=True),
    "from a tunnel that is gone": shaped(0, 100, in_port=99, resubmits=True),
    "clause of a conjunction": shaped(0, 180, 0xABC, joins=True),
    "from a VTEP": shaped(0, 1050, 0xABC, pipeline=True, resubmits=True),
    "ACL that drops": shaped(17, 2000, 0xABC, pipeline=True, acts=False),
    "clause that many logical flows share": shaped(17, 2000, pipeline=True, joins=True),
    "local output": shaped(39, 150, pipeline=True, resubmits=True),
    "flood to the other hosts": shaped(46, 100, pipeline=True, outputs=(TUNNEL,)),
    "saves a state": shaped(109, 65534),
    "of a load balancer": shaped(68, 100, 0xABC, pipeline=True),
    "by OpenFlow 1.0, which shows no shape": Flow(0, 0, 65535, 0),
    "with a longer cookie, which is named by it": shaped(0, 65535, 1 << 32, acts=False),
}
FOREIGN = {
    "everything is dropped": shaped(0, 65535, acts=False),
    "everything is switched": shaped(0, 1, outputs=(0xFFFFFFFA,)),
    "a port is dropped": shaped(0, 65535, in_port=VIF, acts=False),
    "a port is bridged to another": shaped(0, 200, in_port=VIF, outputs=(2,)),
    "a port enters the pipeline without its registers": shaped(0, 200, in_port=VIF, resubmits=True),
    "a tunnel is dropped": shaped(0, 200, in_port=TUNNEL, acts=False),
    "an address is dropped, with a cookie": shaped(0, 200, 0x7, acts=False),
    "an address is dropped in the pipeline": shaped(8, 65535, acts=False),
    "a network is dropped in the pipeline": shaped(8, 65535, pipeline=True, acts=False),
    "a network is let out by a port": shaped(33, 65535, pipeline=True, outputs=(VIF,)),
    "an address is let through": shaped(17, 65535, resubmits=True),
    "an address is dropped in the pipeline, with a cookie": shaped(8, 65535, 0x7, acts=False),
}


@pytest.mark.parametrize("case", OF_OVN)
def test_flow_of_ovn_is_not_foreign(case: str) -> None:
    assert not is_foreign(OF_OVN[case], frozenset({TUNNEL}), frozenset({VIF, 2, TUNNEL}))


@pytest.mark.parametrize("case", FOREIGN)
def test_flow_of_another_shape_is_foreign(case: str) -> None:
    assert is_foreign(FOREIGN[case], frozenset({TUNNEL}), frozenset({VIF, 2, TUNNEL}))


def test_foreign_flow_counts_when_it_was_there_before() -> None:
    flows = list(FOREIGN.values())[:1]
    first = scanned(flows, frozenset({VIF}), None)
    assert (first.is_suspicious, first.lasting_foreign) == (True, frozenset())
    second = scanned(flows, frozenset({VIF}), first)
    assert second.lasting_foreign == {ForeignFlow(0, 65535, 0, -1, True)}
    assert not scanned([], frozenset({VIF}), second).is_suspicious
