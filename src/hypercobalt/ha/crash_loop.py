"""Detects a host that boots again and again, each time too fast to count as failed. Pure.

The instances end with each boot, and are never restarted there, since the host is not in order for
long enough. So the host is reported, and is fenced without the usual wait when it is silent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

WINDOW: Final = timedelta(hours=1)
"""How long a boot is remembered."""

BOOTS: Final = 3
"""Number of boots within the window that make a loop."""

MOST: Final = 10
"""Boots that are remembered."""


def remembered(boots: Sequence[datetime], newest: datetime) -> tuple[datetime, ...]:
    """Return the boots of the last window, with the newest one; later boots are dropped."""
    recent = (at for at in boots if newest - WINDOW < at < newest)
    return (*recent, newest)[-MOST:]


def loop(boots: Sequence[datetime], now: datetime) -> tuple[datetime, ...]:
    """Return the boots of a host that is in a loop; () when it is not in one, or no longer is."""
    recent = tuple(at for at in boots if now - WINDOW < at <= now)
    return recent if len(recent) >= BOOTS else ()
