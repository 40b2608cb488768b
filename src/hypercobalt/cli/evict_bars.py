"""An Eviction as bars; needs rich, which only people's installations have."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hypercobalt.api.duration import human_duration
from hypercobalt.api.eviction import UNDER_WAY, Eviction, EvictionInstance, InstancePhase
from hypercobalt.text import printable
from hypercobalt.views.eviction_progress import EvictionFollower, summary

_REFRESH_SECONDS = 0.5  # ages; what the API reports is shown when it comes
_BAR = 24  # characters: the text behind it still fits on a terminal of 80
_SHOWN = 12  # instances; the bar above counts the others

_COLOURS = {
    **dict.fromkeys((*UNDER_WAY, InstancePhase.CONFIRMING), "cyan"),
    InstancePhase.FAILED: "red",
    InstancePhase.PENDING: "yellow",
}


async def show_bars(follower: EvictionFollower, console: Console | None = None) -> None:
    """Show the Eviction's bars until it has ended, or is gone."""
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(picture(follower.eviction, datetime.now(UTC)), refresh=True)
            if follower.over:
                return
            follower.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await follower.changed.wait()


def picture(eviction: Eviction, now: datetime) -> Group:
    """Return a bar for the whole Eviction, and a row for each instance that has not left."""
    progress = eviction.status.progress
    total, done = (progress.total or 0, progress.done or 0) if progress else (0, 0)
    head = Table.grid(padding=(0, 1))
    head.add_row(
        Text(printable(eviction.spec.hypervisor), style="bold"),
        ProgressBar(total=max(total, 1), completed=done if total else 0, width=_BAR),
        Text(summary(eviction, now)),
    )
    shown = [entry for entry in eviction.status.instances if entry.phase in _COLOURS]
    order = list(_COLOURS)
    shown.sort(key=lambda entry: order.index(InstancePhase(entry.phase or "Pending")))
    rows = Table.grid(padding=(0, 2))
    for entry in shown[:_SHOWN]:
        rows.add_row(*_row(entry, now))
    if len(shown) > _SHOWN:
        rows.add_row("", Text(f"and {len(shown) - _SHOWN} more", style="dim"))
    return Group(head, rows)


def _row(entry: EvictionInstance, now: datetime) -> tuple[str, ...]:
    phase = InstancePhase(entry.phase or "Pending")
    age = ""
    if entry.startedAt is not None and phase in UNDER_WAY:
        age = human_duration(max(now - entry.startedAt, now - now))
    where = f"→ {entry.target}" if entry.target and phase is not InstancePhase.PENDING else ""
    return (
        f"  [{_COLOURS[phase]}]{phase.lower()}[/]",
        escape(printable(entry.name or entry.id)),
        escape(printable(where)),
        age,
        escape(printable(entry.message or "")),
    )
