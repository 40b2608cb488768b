"""How long things take in the simulated OpenStack."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Durations in seconds; change them at any time.

    Args:
        boot: from the request for a server until it runs.
        live: a live migration's copying of memory.
        cold: a cold migration, until it waits to be confirmed.
        evacuation: the rebuild of a server elsewhere.
        stop: of a guest.
        short: anything else: start, reboot, pause, delete, confirm.
        report: how often a compute service reports.
        down_after: silence after which a compute service counts as down.
        beat: from one line on a guest's console to the next.
        token: lifetime of a token.
        at_once: live migrations that leave a host at the same time, others are queued; 0 for all.
    """

    boot: float = 0.05
    live: float = 0.05
    cold: float = 0.05
    evacuation: float = 0.05
    stop: float = 0.02
    short: float = 0.01
    report: float = 0.1
    down_after: float = 1.0
    beat: float = 0.02
    token: float = 3600
    at_once: int = 0
