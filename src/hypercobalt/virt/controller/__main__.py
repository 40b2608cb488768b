"""`python -m hypercobalt.virt.controller SETTINGS`: what `cobalt virt-controller` becomes."""

from __future__ import annotations

import asyncio
import sys

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.runtime.allocator import use_one_arena
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.text import printable
from hypercobalt.virt.controller.process import decode_settings, run


def main() -> int:
    """Run with the settings in the argument, and return the exit code, as of a command."""
    settings = decode_settings(sys.argv[1])
    logs.configure(level=settings.log_level, text=settings.log_text)
    use_one_arena()
    bound_memory()
    try:
        asyncio.run(run(settings))
    except HypercobaltError as error:
        sys.stderr.write(printable(f"cobalt virt-controller: {error}") + "\n")
        return 2 if isinstance(error, InvalidRequestError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
