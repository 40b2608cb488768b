"""`python -m hypercobalt.lab.pods.running SETTINGS`: what runs the pods of a host of a lab."""

from __future__ import annotations

import asyncio
import sys

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.lab.pods.running.process import run
from hypercobalt.lab.pods.running.settings import decode_settings
from hypercobalt.runtime.allocator import use_one_arena
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.text import printable


def main() -> int:
    """Run with the settings in the argument, and return the exit code, as of a command."""
    try:
        settings = decode_settings(sys.argv[1])
        logs.configure(level=settings.log_level)
        use_one_arena()
        bound_memory()
        asyncio.run(run(settings))
    except HypercobaltError as error:
        sys.stderr.write(printable(f"hypercobalt.lab.pods.running: {error}") + "\n")
        return 2 if isinstance(error, InvalidRequestError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
