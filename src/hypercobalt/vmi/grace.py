"""How long a guest may take to shut down, and what is done about it at each moment. Pure.

Three parties give up one after the other, each 15 seconds later than the one before: virt-handler
after the grace period G, the launcher after G+15, the kubelet after G+30. So the one that knows
most about the guest always comes first.

Source: KubeVirt, pkg/virt-controller/services/template.go (deadlines) and pkg/virt-handler/vm.go
(helperVmShutdown).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from hypercobalt.api.kubevirt.names import DEFAULT_GRACE_SECONDS

DEFAULT_GRACE: Final = timedelta(seconds=DEFAULT_GRACE_SECONDS)
LAUNCHER_MARGIN: Final = timedelta(seconds=15)
POD_MARGIN: Final = timedelta(seconds=30)
LONGEST_GRACE_SECONDS: Final = 2**31 - 1
"""Longest grace period, some 68 years: no sum of it, its margins and a time overflows."""
RESEND: Final = timedelta(seconds=5)
"""Longest wait from one request to the guest to the next: a guest that boots ignores the first."""


def grace_period(seconds: int | None) -> timedelta:
    """G of a VMI.

    Args:
        seconds: `spec.terminationGracePeriodSeconds`; one that admission refuses counts as the
            nearest that it does not.
    """
    if seconds is None:
        return DEFAULT_GRACE
    return timedelta(seconds=min(max(seconds, 0), LONGEST_GRACE_SECONDS))


def launcher_grace(grace: timedelta) -> timedelta:
    """How long the launcher waits for virt-handler before it ends the domain itself."""
    return grace + LAUNCHER_MARGIN


def pod_grace(grace: timedelta) -> timedelta:
    """`terminationGracePeriodSeconds` of the launcher pod."""
    return grace + POD_MARGIN


class StopCall(StrEnum):
    """What virt-handler has the launcher do to a domain that must end."""

    SHUTDOWN = "Shutdown"  # ask the guest
    WAIT = "Wait"
    KILL = "Kill"  # end QEMU, which flushes its images


@dataclass(frozen=True, slots=True)
class StopStep:
    """The next step of a shutdown.

    Args:
        call: what to do now.
        look_again: when the next step is due; None: nothing is due, the call ends the guest.
        first: the guest is asked for the first time: the moment of the Event ShuttingDown.
    """

    call: StopCall
    look_again: timedelta | None = None
    first: bool = False


def stop_step(
    grace: timedelta,
    began: datetime | None,
    asked: datetime | None,
    now: datetime,
    *,
    can_ask: bool,
) -> StopStep:
    """Decide what is done to a domain that is alive and must end.

    Args:
        grace: G; zero ends the guest at once.
        began: when the shutdown began, as recorded with the domain; None: it begins now.
        asked: when the guest was asked last; None: never, or not known any more.
        now: time of this decision.
        can_ask: the guest has ACPI or an agent; one that cannot be asked is ended at once, since
            waiting would not change how it ends.
    """
    over = (began or now) + grace
    if not can_ask or now >= over:
        return StopStep(StopCall.KILL)
    due = now if asked is None else asked + RESEND
    if now < due:
        return StopStep(StopCall.WAIT, min(due, over) - now)
    return StopStep(StopCall.SHUTDOWN, min(now + RESEND, over) - now, first=began is None)


def launcher_wait(grace: timedelta, marked: datetime, now: datetime) -> timedelta:
    """How long the launcher waits for virt-handler to end the domain; zero: it does so itself.

    Args:
        grace: G.
        marked: when the launcher got its signal, and marked the domain for virt-handler.
        now: time of this decision.
    """
    return max(marked + launcher_grace(grace) - now, timedelta())
