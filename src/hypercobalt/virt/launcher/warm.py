"""`python -m hypercobalt.virt.launcher.warm DIRECTORY [DRIVERS]`: make a host's capability cache.

It runs as a launcher pod does: libvirt waits for each emulator that it starts to be gone, so that
somebody has to reap them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hypercobalt.virt.launcher import first


def _warm() -> int:
    # Imported here, as in a launcher.
    import asyncio  # noqa: PLC0415

    from hypercobalt import logs  # noqa: PLC0415
    from hypercobalt.errors import HypercobaltError  # noqa: PLC0415
    from hypercobalt.virt.launcher.capability_cache import warm  # noqa: PLC0415
    from hypercobalt.virt.launcher.settings import DRIVERS  # noqa: PLC0415

    logs.configure()
    directory, drivers = (*sys.argv[1:], DRIVERS)[:2]
    try:
        return 0 if asyncio.run(warm(Path(directory), Path(drivers))) else 1
    except HypercobaltError as error:
        logs.get_logger(__name__).critical("capability_cache_not_made", error=str(error))
        return 1


if __name__ == "__main__":
    sys.exit(first.above(_warm))
