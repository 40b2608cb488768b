"""Structured logs: JSON lines in service, colours on a terminal.

A line is a constant event and key/value pairs. Keys that name a secret are blanked here, as the
last line of defence: callers never pass one.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO
from uuid import uuid4

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET_WORDS = ("token", "password", "passphrase", "authorization", "private_key", "client_key")
_BLANK = "***"


def configure(*, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Set up logging for the process; called once, by a command's start.

    Args:
        level: lowest level written, as in `logging`.
        stream: where to write; None is stderr. A terminal gets text, anything else JSON lines.
    """
    out = stream or sys.stderr
    # Tracebacks without local variables: those hold tokens and Secrets.
    plain = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    render: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if out.isatty()
        else [structlog.processors.ExceptionRenderer(plain), structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            blank_secrets,
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    # httpx2 writes a line for each request at INFO; ours has the object's name.
    logging.getLogger("httpx2").setLevel(logging.WARNING)


def blank_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Blank the value of every key whose name speaks of a secret."""
    for key in event:
        if key.lower().endswith(_SECRET_WORDS):
            event[key] = _BLANK
    return event


@contextmanager
def reconcile_context(controller: str, key: str) -> Generator[str]:
    """Put `controller`, `key` and a fresh `reconcile_id` on every line logged inside.

    Yields:
        The reconcile id, 12 hexadecimal digits.
    """
    reconcile_id = uuid4().hex[:12]
    with structlog.contextvars.bound_contextvars(
        controller=controller, key=key, reconcile_id=reconcile_id
    ):
        yield reconcile_id
