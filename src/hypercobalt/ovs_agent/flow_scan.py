"""Flows that ovn-controller did not make, or that lead nowhere, found table by table. Pure.

All flows at once stall the switch for seconds, one table for some milliseconds. So one table is
read at a time, and what is wrong must be so in two readings of it with a pause between them: what
was being changed during one of them is over then. Whether a cookie names a row of the southbound
database is not read, as the server would search all rows for each host; but a cookie of OVN
has 32 bits, so a longer one is not OVN's.

Source: docs/decisions/0032; OVN, controller/lflow.c, for cookies; OpenFlow 1.3, section 7.2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.adapters.ovs.model import Flow

MOST: Final = 4_000
"""Flows of a table that is read: 40 ms of CPU of this process, 10 of ovs-vswitchd."""

PAUSE: Final = timedelta(seconds=50)
"""Between two readings of a table."""

RESERVED: Final = 0xFF00
"""Ports from here on are OpenFlow's own, such as LOCAL."""

_COOKIE_BITS: Final = 32
_KEPT: Final = 16  # of each kind and table


@dataclass(frozen=True, slots=True)
class TableScan:
    """What was wrong in the last reading of a table.

    Args:
        cookies: of flows that are not OVN's.
        outputs: ports that the bridge does not have, and that flows lead to.
        lasting_cookies: those that the reading before had, too.
        lasting_outputs: likewise.
    """

    cookies: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    lasting_cookies: frozenset[int] = frozenset()
    lasting_outputs: frozenset[int] = frozenset()

    @property
    def is_suspicious(self) -> bool:
        """Whether to read the table again before others."""
        return bool(self.cookies or self.outputs)


def next_table(
    counts: Mapping[int, int],
    scans: Mapping[int, TableScan],
    read_at: Mapping[int, float],
    now: float,
) -> int | None:
    """The table to read now; None if each was read within the pause, or is too large.

    Args:
        counts: flows of the bridge by table.
        scans: by table.
        read_at: of each table, seconds of the monotonic clock.
        now: seconds of the monotonic clock.
    """
    never = float("-inf")
    due = [
        table
        for table, count in counts.items()
        if 0 < count <= MOST and now - read_at.get(table, never) >= PAUSE.total_seconds()
    ]
    suspicious = {table for table in due if table in scans and scans[table].is_suspicious}
    return min(
        due, key=lambda table: (table not in suspicious, read_at.get(table, never)), default=None
    )


def scanned(flows: Iterable[Flow], ports: frozenset[int], before: TableScan | None) -> TableScan:
    """What is wrong with the flows of one table.

    Args:
        flows: of the table.
        ports: numbers of the bridge's ports now.
        before: the last reading of the table.
    """
    cookies: set[int] = set()
    outputs: set[int] = set()
    for flow in flows:
        if flow.cookie >> _COOKIE_BITS:
            cookies.add(flow.cookie)
        outputs.update(flow.outputs)
    gone = {port for port in outputs if port < RESERVED and port not in ports}
    known = before or TableScan()
    return TableScan(
        _first(cookies),
        _first(gone),
        _first(cookies & known.cookies),
        _first(gone & known.outputs),
    )


def _first(numbers: set[int]) -> frozenset[int]:
    return frozenset(sorted(numbers)[:_KEPT])
