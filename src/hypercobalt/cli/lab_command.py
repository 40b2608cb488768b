"""Common parts of the commands of `cobalt lab`: directory, name of a host, run, exit codes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt import logs
from hypercobalt.cli import exit_codes
from hypercobalt.cli import lab_screen as screen
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import state as records
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.locks import locked
from hypercobalt.lab.state import Layout

HERE: Final = Path(".lab")
Data = Annotated[Path, Parameter(name="--data", help="Directory of the lab.")]
Name = Annotated[str, Parameter(help="Name of the host.")]


@contextmanager
def changing(data: Path) -> Generator[None]:
    """Lock a lab, so that no other command changes it meanwhile.

    Raises:
        LabError: there is no lab, and nothing is written; or another command holds the lock.
    """
    Lab.find(data)
    with locked(Layout.at(data)):
        yield


def run(work: Coroutine[object, object, int]) -> int:
    """Run a command to its end; an error is printed in one line."""
    logs.configure(level=logging.WARNING)
    try:
        return asyncio.run(work)
    except HypercobaltError as error:
        screen.print_error(str(error))
        return exit_codes.exit_code(error)
    except OSError as error:  # a full disk, for example
        screen.print_error(f"{error.filename or 'this machine'}: {records.why(error)}")
        return exit_codes.UNAVAILABLE
    except KeyboardInterrupt:
        screen.print_error("interrupted")
        return exit_codes.INTERRUPTED
