"""Certificates that are renewed while the server runs, long before the old ones expire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta

from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.pki import Pki
from hypercobalt.runtime.tasks import beside

log = get_logger(__name__)


@contextlib.asynccontextmanager
async def keeping_current(
    files: Pki, *, every: timedelta, prepare: Callable[[], Pki], use: Callable[[Pki], None]
) -> AsyncGenerator[None]:
    """Look at the certificates from time to time, until the block is left.

    Args:
        files: those in use.
        every: between two looks; what went wrong is tried again at the next.
        prepare: gives the files, renewed if it is time; called in a thread.
        use: puts renewed files into use; called in the loop.
    """
    async with beside(_keep(files, every, prepare, use), name="certificates"):
        yield


async def _keep(
    files: Pki, every: timedelta, prepare: Callable[[], Pki], use: Callable[[Pki], None]
) -> None:
    while True:
        # Checked at fixed intervals: a certificate's age raises no event.
        await asyncio.sleep(every.total_seconds())
        try:
            found = await asyncio.to_thread(prepare)
            if found != files:
                use(found)
                files = found
                log.info("certificates_renewed", directory=str(files.directory))
        except ConfigurationError as error:
            log.warning("certificates_not_renewed", error=str(error))
