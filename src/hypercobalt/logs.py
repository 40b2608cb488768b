"""Structured logs: JSON lines in service, text on a terminal.

A line is a constant event and key/value pairs, written through `logging`, so that what libraries
log comes out in the same form. Keys that name a secret are blanked here, as the last line of
defence: callers never pass one.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO
from uuid import uuid4

_SECRET_WORDS = ("token", "password", "passphrase", "authorization", "private_key", "client_key")
_BLANK = "***"
_VERBOSE = ("httpx2", "uvicorn")  # at INFO they repeat our own lines, with less
_COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33"}  # errors: red
_RED, _BOLD = "31", "1"

_bound: ContextVar[Mapping[str, object] | None] = ContextVar("bound", default=None)


@dataclass(frozen=True, slots=True)
class Line:
    """The message of a log record: what happened, and to what."""

    event: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        return " ".join((self.event, *(f"{key}={_text(v)}" for key, v in self.fields.items())))


class Logger:
    """Writes events of one module.

    `event` is a constant verb phrase in snake case, `exc_info` an exception whose traceback is
    written, without local variables: those hold tokens and Secrets.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **fields: object) -> None:
        """Write what only a developer looks for."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Write what is about to be done."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Write what went wrong and repairs itself."""
        self._write(logging.WARNING, event, fields)

    def error(
        self, event: str, /, *, exc_info: BaseException | None = None, **fields: object
    ) -> None:
        """Write what a person has to correct."""
        self._write(logging.ERROR, event, fields, exc_info)

    def exception(self, event: str, /, **fields: object) -> None:
        """Write an error with the exception that is being handled."""
        self._write(logging.ERROR, event, fields, sys.exception())

    def critical(self, event: str, /, **fields: object) -> None:
        """Write why the process ends."""
        self._write(logging.CRITICAL, event, fields)

    def _write(
        self,
        level: int,
        event: str,
        fields: Mapping[str, object],
        exc_info: BaseException | None = None,
    ) -> None:
        if self._logger.isEnabledFor(level):
            line = Line(event, _without_secrets({**(_bound.get() or {}), **fields}))
            self._logger.log(level, line, exc_info=exc_info, stacklevel=3)


def get_logger(name: str) -> Logger:
    """The logger of a module.

    Args:
        name: the module's `__name__`.
    """
    return Logger(name)


def configure(
    *, level: int = logging.INFO, stream: TextIO | None = None, text: bool | None = None
) -> None:
    """Set up logging for the process; called once, by a command's start.

    Args:
        level: lowest level written, as in `logging`.
        stream: where to write; None is stderr.
        text: whether to write text rather than JSON lines; None: a terminal gets text.
    """
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    as_text = out.isatty() if text is None else text
    formatter = _TextFormatter(coloured=out.isatty()) if as_text else _JsonFormatter()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for library in _VERBOSE:
        logging.getLogger(library).setLevel(max(level, logging.WARNING))


@contextmanager
def bound(**fields: object) -> Generator[None]:
    """Put fields on every line that is logged inside, tasks made there included."""
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


@contextmanager
def reconcile_context(controller: str, key: str) -> Generator[str]:
    """Put `controller`, `key` and a fresh `reconcile_id` on every line logged inside.

    Yields:
        The reconcile id, 12 hexadecimal digits.
    """
    reconcile_id = uuid4().hex[:12]
    with bound(controller=controller, key=key, reconcile_id=reconcile_id):
        yield reconcile_id


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = _line(record)
        head = {
            "timestamp": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": line.event,
        }
        trace = {"exception": self.formatException(record.exc_info)} if record.exc_info else {}
        return json.dumps({**head, **line.fields, **trace}, default=str)


class _TextFormatter(logging.Formatter):
    def __init__(self, *, coloured: bool) -> None:
        super().__init__()
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        line = _line(record)
        level, event = f"{record.levelname.lower():8}", line.event
        if self._coloured:
            level = _coloured(level, _COLOURS.get(record.levelno, _RED))
            event = _coloured(event, _BOLD)
        text = f"{_time(record)} {level} {Line(event, line.fields)}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _line(record: logging.LogRecord) -> Line:
    """Our own line, or a library's message as one."""
    return record.msg if isinstance(record.msg, Line) else Line(record.getMessage(), {})


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")


def _without_secrets(fields: Mapping[str, object]) -> dict[str, object]:
    return {k: _BLANK if k.lower().endswith(_SECRET_WORDS) else v for k, v in fields.items()}


def _text(value: object) -> str:
    """A value in one line of text; quoted when it has anything but plain, unbroken characters."""
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(text)


def _coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"
