"""Which table is read next, and what counts as stale in it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hypercobalt.adapters.ovs.model import Flow
from hypercobalt.ovs_agent.flow_scan import MOST, RESERVED, TableScan, next_table, scanned

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
