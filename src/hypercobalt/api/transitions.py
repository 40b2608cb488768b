"""Which state may follow which: a table that rules are held to, and that the docs draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypercobalt.errors import HypercobaltError


class ImpossibleTransitionError(HypercobaltError):
    """A rule has decided on a state that cannot follow the present one: a fault in the rule."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """The states of one aspect of a kind.

    Args:
        of: the aspect, for messages and as the heading of its diagram.
        first: states that an object may begin in.
        after: for each state, those that may follow it; none: it is an end. To stay is allowed.
    """

    of: str
    first: tuple[str, ...]
    after: Mapping[str, tuple[str, ...]]

    @property
    def ends(self) -> frozenset[str]:
        """States that nothing follows."""
        return frozenset(state for state, following in self.after.items() if not following)

    def allow(self, old: str | None, new: str) -> bool:
        """Whether a state may follow; from one that is not known here all may.

        Args:
            old: the present one; None for none.
            new: that may follow.
        """
        if old is not None and old not in self.after:
            return new in self.after
        return new == old or new in (self.first if old is None else self.after[old])

    def check(self, old: str | None, new: str) -> None:
        """Refuse a state that cannot follow.

        Raises:
            ImpossibleTransitionError: naming both.
        """
        if not self.allow(old, new):
            raise ImpossibleTransitionError(f"{self.of}: {new} cannot follow {old or 'no state'}")

    def mermaid(self) -> str:
        """The diagram, as Mermaid's `stateDiagram-v2`."""
        lines = ["stateDiagram-v2", *(f"    [*] --> {state}" for state in self.first)]
        for state, following in self.after.items():
            lines += [f"    {state} --> {other}" for other in following or ("[*]",)]
        return "\n".join(lines)
