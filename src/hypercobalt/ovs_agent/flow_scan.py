"""Flows that ovn-controller did not make, or that lead nowhere, found table by table. Pure.

All flows at once stall the switch for seconds, one table for some milliseconds. So one table is
read at a time, and what is wrong must be so in two readings of it with a pause between them: a
change under way during one of them is over then. Whether a cookie names a row of the southbound
database is not read, as the server would search all rows for each host. But a cookie of OVN has
32 bits, so a longer one is not OVN's; and every flow of OVN has a shape that is known, so one of
another shape is not OVN's, whatever its cookie. Table numbers move between releases, shapes do not:

- table 0: it matches a port, tunnels, or is a clause of a conjunction; with the cookie 0 it matches
  the port of a tunnel and resubmits;
- other tables: it matches what an earlier table has set; with the cookie 0 it does not drop and its
  outputs are tunnels, and without such a match it sets fields alone;
- priority 0, which is the default of a table.

Source: docs/decisions/0032 and 0058; OVN, controller/lflow.c and physical.c, 22.03 to 26.03;
OpenFlow 1.3, section 7.2.1.
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
"""Time between two readings of a table."""

RESERVED: Final = 0xFF00
"""Ports from here on are OpenFlow's own, such as LOCAL."""

AT_ONCE: Final = 8
"""Tables of one look."""

BUDGET: Final = 1_000
"""Flows of one look, unless its first table alone has more."""

_COOKIE_BITS: Final = 32
_KEPT: Final = 16  # of each kind and table


@dataclass(frozen=True, slots=True, order=True)
class ForeignFlow:
    """A flow whose shape is not OVN's.

    Args:
        table: number of the table.
        priority: of the flow.
        cookie: of the flow.
        in_port: number of the port that it matches; -1 for any.
        drops: it has no actions.
    """

    table: int
    priority: int
    cookie: int
    in_port: int
    drops: bool


@dataclass(frozen=True, slots=True)
class TableScan:
    """What was wrong in the last reading of a table.

    Args:
        cookies: of flows that are not OVN's.
        outputs: ports that flows lead to and the bridge does not have.
        lasting_cookies: the cookies that were wrong in the reading before, too.
        lasting_outputs: the outputs that were wrong in the reading before, too.
        foreign: flows of another shape than OVN's.
        lasting_foreign: the foreign flows that the reading before had, too.
    """

    cookies: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()
    lasting_cookies: frozenset[int] = frozenset()
    lasting_outputs: frozenset[int] = frozenset()
    foreign: frozenset[ForeignFlow] = frozenset()
    lasting_foreign: frozenset[ForeignFlow] = frozenset()

    @property
    def is_suspicious(self) -> bool:
        """Whether to read the table again before others."""
        return bool(self.cookies or self.outputs or self.foreign)


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


def is_foreign(flow: Flow, tunnels: frozenset[int], ports: frozenset[int]) -> bool:
    """Whether a flow has a shape that none of OVN's has.

    Args:
        flow: of any table.
        tunnels: numbers of the bridge's tunnels.
        ports: numbers of all its ports; a flow of one that is gone is stale, and no more.
    """
    shape = flow.shape
    if shape is None or not flow.priority or flow.cookie >> _COOKIE_BITS or shape.joins:
        return False
    if flow.table == 0:
        if flow.cookie:
            return flow.in_port is None and not shape.pipeline
        if flow.in_port is not None and flow.in_port not in ports:
            return False
        return flow.in_port not in tunnels or not shape.resubmits
    if flow.cookie:
        return not shape.pipeline
    if not shape.acts or not tunnels.issuperset(flow.outputs):
        return True
    return not shape.pipeline and shape.resubmits


def scanned(
    flows: Iterable[Flow],
    ports: frozenset[int],
    before: TableScan | None,
    tunnels: frozenset[int] = frozenset(),
) -> TableScan:
    """What is wrong with the flows of one table.

    Args:
        flows: of the table.
        ports: numbers of the bridge's ports now.
        before: the last reading of the table.
        tunnels: numbers of those that lead to other hosts.
    """
    cookies: set[int] = set()
    foreign: set[ForeignFlow] = set()
    outputs: set[int] = set()
    for flow in flows:
        if flow.cookie >> _COOKIE_BITS:
            cookies.add(flow.cookie)
        outputs.update(flow.outputs)
        if is_foreign(flow, tunnels, ports):
            foreign.add(_foreign(flow))
    gone = {port for port in outputs if port < RESERVED and port not in ports}
    known = before or TableScan()
    return TableScan(
        _first(cookies),
        _first(gone),
        _first(cookies & known.cookies),
        _first(gone & known.outputs),
        _worst(foreign),
        _worst(foreign & known.foreign),
    )


def _foreign(flow: Flow) -> ForeignFlow:
    in_port = -1 if flow.in_port is None else flow.in_port
    drops = flow.shape is not None and not flow.shape.acts
    return ForeignFlow(flow.table, flow.priority, flow.cookie, in_port, drops)


def _worst(flows: set[ForeignFlow]) -> frozenset[ForeignFlow]:
    """Return the flows that take the most packets: of high priority, and of any port."""
    ordered = sorted(flows, key=lambda one: (-one.priority, one.in_port, one))
    return frozenset(ordered[:_KEPT])


def _first(numbers: set[int]) -> frozenset[int]:
    return frozenset(sorted(numbers)[:_KEPT])
