"""How long recovery pauses after a gate about many hosts was closed. Pure.

Where a switch fails, its hosts come back one after the other: without a pause the last one would be
fenced as soon as so few are left that the gate opens. What no single host could have closed pauses
recovery for the whole cool-down. Else the pause is as long as the gate was closed, at most: hosts
that retry at doubled intervals are back within that time, and a captured host that is unwell for
two seconds every few minutes keeps no dead one from being recovered. A gate of a failure domain
pauses the hosts of that domain only: a host chooses its own one.

Source: medik8s node-healthcheck-operator (storm cool-down), whose pause is always the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.ha.host_failure.guard import FLEET, Closure, GateLimits

LOOKS: Final = timedelta(minutes=1)
"""Longest time between two looks that count as one closing: hosts that are unwell are looked at
every few seconds, but the power of one may take this long to be read.
"""


@dataclass(frozen=True, slots=True)
class Storm:
    """The last closing of a gate.

    Args:
        began: of that closing.
        seen: the last look that found the gate closed.
        until: end of the pause.
        shut: no look since has found it open.
    """

    began: datetime
    seen: datetime
    until: datetime
    shut: bool = True


Storms = Mapping[str, Storm]
"""Storms of failure domains, and of the fleet as `FLEET`."""


def inherited(limits: GateLimits, now: datetime) -> Storms:
    """Return the storm of a leader whose predecessor may have found a gate closed."""
    return {FLEET: Storm(now, now, now + limits.cool_down, shut=False)}


def followed(
    storms: Storms, closures: Mapping[str, Closure], limits: GateLimits, now: datetime
) -> Storms:
    """Return the storms after a look at some gates, without those that are over.

    Args:
        storms: until now.
        closures: of the gates that were looked at.
        limits: see there.
        now: the clock of the look; it may have gone back since the last one.
    """
    found = dict(storms)
    for name, closure in closures.items():
        if closure is not Closure.OPEN:
            found[name] = _closed(storms.get(name), closure, limits, now)
        elif name in found:
            found[name] = replace(found[name], shut=False)
    latest = now + limits.cool_down
    kept = {name: replace(one, until=min(one.until, latest)) for name, one in found.items()}
    return {
        name: one
        for name, one in kept.items()
        if one.until > now or (one.shut and now - one.seen <= LOOKS)
    }


def _closed(storm: Storm | None, closure: Closure, limits: GateLimits, now: datetime) -> Storm:
    goes_on = storm is not None and storm.shut and now - storm.seen <= LOOKS
    began = min(storm.began, now) if storm is not None and goes_on else now
    pause = limits.cool_down
    if closure is Closure.BY_ONE:
        pause = min(pause, now - began)
    until = now + pause
    return Storm(began, now, max(until, storm.until) if storm is not None else until)


def pauses(storms: Storms) -> Mapping[str, datetime]:
    """Return until when recovery pauses, by failure domain."""
    return {name: storm.until for name, storm in storms.items()}
