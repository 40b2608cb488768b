"""`python -m hypercobalt.operator DESCRIPTOR`: the process that `cobalt operator` becomes."""

from __future__ import annotations

import asyncio
import os
import sys

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.operator.process import decode_settings, run
from hypercobalt.runtime.allocator import use_one_arena
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.text import printable


def main() -> int:
    """Run with the settings in the descriptor, and return the exit code, as of a command."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        settings = decode_settings(file.read())
    logs.configure(level=settings.log_level, text=settings.log_text)
    use_one_arena()  # the threads that call OpenStack: 9 MiB at 400 hosts
    bound_memory()
    try:
        asyncio.run(run(settings))
    except HypercobaltError as error:
        sys.stderr.write(printable(f"cobalt operator: {error}") + "\n")
        return 2 if isinstance(error, InvalidRequestError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
