"""Decides whether a host that is cut off from everything has to end its own instances. Pure.

Losing the Kubernetes API is never enough: a control plane that is away, or a partition between two
clusters, must not cost one instance. A host fences itself when for the whole window the API, every
witness and the shared storage were silent; the operator may then have declared it dead, which it
cannot find out. A sign that was not observed even once since the start does not count as lost.

Time in which this process did not run, as on a frozen host, does not count: signs that it missed
may still be there.

Source: medik8s self-node-remediation, where more than half of the peers without the API make a
node healthy; here one answer is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final


class Sign(StrEnum):
    """A sign that the host is not cut off."""

    API = "api"
    WITNESS = "witness"
    STORAGE = "storage"


_ZERO: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class History:
    """Signs observed so far, timed by the time in which this process ran.

    Args:
        ran: time in which this process ran.
        seen: when each sign was seen last.
    """

    ran: timedelta = _ZERO
    seen: Mapping[Sign, timedelta] = field(default_factory=dict[Sign, timedelta])

    def after(self, passed: timedelta, tick: timedelta, signs: frozenset[Sign]) -> History:
        """Return the history after one more observation.

        Args:
            passed: time since the last observation.
            tick: interval between observations; time beyond twice this does not count.
            signs: signs observed now.
        """
        ran = self.ran + min(passed, 2 * tick)
        return replace(self, ran=ran, seen={**self.seen, **dict.fromkeys(signs, ran)})

    def silent(self, sign: Sign) -> timedelta | None:
        """Time for which a sign has not been observed; None if it never was."""
        seen = self.seen.get(sign)
        return None if seen is None else self.ran - seen


def is_cut_off(history: History, window: timedelta) -> bool:
    """Whether every sign was there once, and none was observed within the window."""
    return all((gone := history.silent(sign)) is not None and gone >= window for sign in Sign)
