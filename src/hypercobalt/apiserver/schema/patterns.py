"""Regular expressions that strangers write: RE2's, as in Go, so that matching takes linear time."""

from __future__ import annotations

import functools
from typing import TypeAlias

import re2

from hypercobalt.errors import HypercobaltError

Pattern: TypeAlias = "re2.Regexp[str]"


class PatternError(HypercobaltError):
    """A text is no regular expression in RE2's syntax."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    return options


_OPTIONS = _options()


@functools.lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; the latest ones are remembered.

    Raises:
        PatternError: it is malformed, too large, or uses what RE2 lacks (look-around, references).
    """
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_why(error)}") from error


def _why(error: Exception) -> str:
    (text,) = error.args
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
