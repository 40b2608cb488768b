"""Truth values that people write as text: in annotations, labels and metadata of servers. Pure.

In any case, and with the words of OpenStack. What is neither yes nor no is for the reader to judge:
the value of some annotations is a reason, which people write in their own words.

Source: oslo.utils, strutils (TRUE_STRINGS, FALSE_STRINGS).
"""

from __future__ import annotations

from typing import Final

_YES: Final = frozenset({"true", "t", "yes", "y", "on", "1"})
_NO: Final = frozenset({"false", "f", "no", "n", "off", "0"})


def truth(text: str) -> bool | None:
    """The truth value that a text is; None for one that is none."""
    word = text.strip().lower()
    if word in _YES:
        return True
    return False if word in _NO else None


def is_no(text: str | None) -> bool:
    """Whether a text says no; what is absent does not."""
    return text is not None and truth(text) is False
