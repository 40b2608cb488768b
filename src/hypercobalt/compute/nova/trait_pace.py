"""Pace at which traits are created for one resource provider: Placement keeps each for good.

The traits of a host are those of its Node, and a Node is written by its kubelet too. A host in
earnest needs a few new names in its life; one that names new ones again and again would fill
Placement's table. So a provider has as many as a host can have at once, and then one an hour.
Traits that exist cost nothing. None is deleted again: a flavor that forbids a trait which Placement
does not have gets no host at all.

What was created is counted in memory: a restart of the operator gives each as many again.

Source: placement, objects/research_context.py: `forbidden_trait_map` is made by `ids_from_names`.
"""

from __future__ import annotations

from typing import Final

AT_ONCE: Final = 256
"""New traits of a provider that wait for nothing: as many as a host has at most."""
PAUSE: Final = 3600.0
"""Seconds, for each one beyond these."""


class TraitPace:
    """How many traits each provider may have created."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        """When the pauses of all created traits of a provider are over."""

    def take(self, provider: str, count: int, now: float) -> bool:
        """Whether so many may be created now; then they count.

        Args:
            provider: its UUID.
            count: of traits.
            now: monotonic seconds.
        """
        after = max(self._next.get(provider, now), now) + count * PAUSE
        if after - now > AT_ONCE * PAUSE:
            return False
        self._next = {one: time for one, time in self._next.items() if time > now}
        self._next[provider] = after
        return True
