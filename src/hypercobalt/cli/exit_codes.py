"""Exit codes of all commands, and errors printed in one line.

0 done; 1 failed, or a server cannot be reached or refuses; 2 invalid request; 3 the Eviction
failed; 4 the Eviction was cancelled; 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Final

from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.text import printable

UNAVAILABLE: Final = 1
INVALID_REQUEST: Final = 2
FAILED: Final = 3
CANCELLED: Final = 4
INTERRUPTED: Final = 130


def exit_code(error: HypercobaltError) -> int:
    """The exit code of a command that ends with an error."""
    return INVALID_REQUEST if isinstance(error, InvalidRequestError) else UNAVAILABLE


def print_error(command: str, text: str) -> None:
    """Print an error; names and messages of objects in it may be hostile."""
    print(printable(f"cobalt {command}: {text}"), file=sys.stderr, flush=True)


def report_error(command: str, error: HypercobaltError) -> int:
    """Print an error; return the exit code."""
    print_error(command, str(error))
    return exit_code(error)
