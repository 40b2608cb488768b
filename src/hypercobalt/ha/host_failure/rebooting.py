"""Decides when a host that was fenced wrongly is rebooted by its fence device. Pure.

The host's boot counts as dead, so its agent has ended every instance, and the host serves again
with its next boot. The host is known to be empty, so its device may reboot it:

1. The order is recorded before the devices are called, with its process and a deadline. Before the
   deadline no attempt to fence begins, and the host is not taken back: a late call would undo the
   fencing, or switch off a host that is in service.
2. A device that does not report the power of such a host as on, although the host reports, lies or
   belongs to another host: it is given no order, and a person has to reboot the host.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from hypercobalt.api.fencing import Fencing
from hypercobalt.ha.host_failure.facts import HostFacts
from hypercobalt.ha.host_failure.fencing import AttemptPace, Record, WaitUntil
from hypercobalt.ha.host_failure.fencing_record import A_SECOND, with_evidence

_MARK = "reboot: "


@dataclass(frozen=True, slots=True)
class Reboot:
    """Call the devices now: this process has recorded the order."""

    fencing: Fencing


RebootStep = Record | Reboot | WaitUntil


def next_step(stored: Fencing, facts: HostFacts, pace: AttemptPace) -> RebootStep:
    """Return the next step for a host that lives and is empty.

    Args:
        stored: the record.
        facts: of this pass.
        pace: of the site; a host that has not come back is rebooted again after the longest pause.
    """
    before, now = stored.rebootDeadline, facts.now
    if before is not None and now < before and facts.mine == before:
        return Reboot(stored)
    if before is not None and now < before + pace.longest:
        return WaitUntil(before + pace.longest)
    until = (now + 2 * facts.fence.power.lasts).replace(microsecond=0) + A_SECOND
    return Record(replace(stored, rebootDeadline=until))


def answered(
    stored: Fencing, problem: str, devices: str, now: datetime, *, ordered: bool = True
) -> Fencing:
    """Return the record after the calls; the deadline stays where the devices may act late."""
    text = problem or f"{devices} has switched the host off and on again"
    late = bool(problem) and ordered
    over = (now - timedelta(seconds=1)).replace(microsecond=0)
    return replace(
        stored,
        rebootDeadline=stored.rebootDeadline if late else over,
        evidence=with_evidence(stored.evidence, f"{_MARK}{text}"),
    )


def last(stored: Fencing) -> str:
    """Return the result of the last order; "" for none."""
    results = (text for text in reversed(stored.evidence) if text.startswith(_MARK))
    return next(results, "").removeprefix(_MARK)
