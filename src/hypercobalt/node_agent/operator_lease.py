"""Whether the operator lives, by its Lease: a dead one cannot write that its conditions are stale.

The agent measures on its own clock how long the Lease stays as it is; `renewTime` is only shown. A
Lease that is not there proves nothing: the operator may run without an election, or in shards.

Decision: docs/decisions/0059-agents-report-the-operator.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from hypercobalt.agent.board import ConditionReport
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.coordination import Lease, LeaseSpec
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, OperatorReportingReason
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock

log = get_logger(__name__)

EVERY: Final = timedelta(seconds=60)
"""Time between looks. A watch would send each renewal, one in 2 s, to each host of the fleet."""

_DURATION: Final = timedelta(seconds=15)  # as client-go, where the Lease has none
_STALE: Final = "; conditions that it writes may be out of date"


def judge(spec: LeaseSpec, unchanged: timedelta | None) -> ConditionReport | None:
    """The state of the operator; None while it is unknown.

    Args:
        spec: of its Lease.
        unchanged: for how long the Lease was seen as it is; None where it was seen to change.
    """
    lasts = timedelta(seconds=spec.leaseDurationSeconds) if spec.leaseDurationSeconds else _DURATION
    seen = "The node agent sees that"
    if unchanged is not None and unchanged > lasts:
        if not spec.holderIdentity:
            text = f"{seen} no operator leads: its Lease is released{_STALE}"
            return ConditionReport(ConditionStatus.FALSE, OperatorReportingReason.NO_LEADER, text)
        at = f"{spec.renewTime:%Y-%m-%dT%H:%M:%SZ}" if spec.renewTime else "an unknown time"
        text = f"{seen} the operator has not renewed its Lease since {at}{_STALE}"
        return ConditionReport(ConditionStatus.FALSE, OperatorReportingReason.SILENT, text)
    if unchanged is None and spec.holderIdentity:
        text = f"{seen} the operator renews its Lease"
        return ConditionReport(ConditionStatus.TRUE, OperatorReportingReason.RENEWED, text)
    return None


class OperatorLease:
    """Looks at the operator's Lease now and then.

    Args:
        read: gives the Lease; None when there is none.
        every: between looks; longer than the Lease lasts.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Lease | None]],
        board: Board,
        clock: Clock,
        *,
        every: timedelta = EVERY,
    ) -> None:
        self._read, self._board = read, board
        self._clock, self._every = clock, every
        self._seen: LeaseSpec | None = None
        self._seen_at = 0.0  # when it was seen to change

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                self._take(await self._read())
            except HypercobaltError as error:  # what was seen last stays
                log.debug("operator_lease_not_read", reason=str(error))
                self._seen = None
            await asyncio.sleep(self._every.total_seconds())

    def _take(self, lease: Lease | None) -> None:
        type_ = HypervisorConditionType.OPERATOR_REPORTING
        if lease is None:
            self._seen = None
            self._board.drop_condition(type_)
            return
        now, before = self._clock.monotonic(), self._seen
        if before != lease.spec:
            self._seen, self._seen_at = lease.spec, now
        renewed = before is not None and before != lease.spec
        unchanged = None if renewed else timedelta(seconds=now - self._seen_at)
        if (report := judge(lease.spec, unchanged)) is not None:
            self._board.put_condition(type_, report.status, report.reason, report.message)
