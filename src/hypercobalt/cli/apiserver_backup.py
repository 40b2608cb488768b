"""`cobalt apiserver backup` and `restore`: copies of a data directory, and back."""

from __future__ import annotations

from pathlib import Path

from hypercobalt.apiserver.storage.backup import Copied, back_up
from hypercobalt.apiserver.storage.backup import restore as put_back
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.errors import HypercobaltError


def backup(to: Path, *, data: Path) -> int:
    """Copy a data directory to a new one; its server may run and write meanwhile.

    Certificates and their keys are copied too: keep a backup as secret as the data directory.

    Parameters
    ----------
    to
        Directory for the backup; made when missing, else it must be empty.
    data
        Directory of the server.
    """
    try:
        copied = back_up(data, to)
    except HypercobaltError as error:
        return report_error("apiserver backup", error)
    print(f"{to}: {_shown(copied)}")
    return 0


def restore(backup: Path, *, data: Path, replace: bool = False) -> int:
    """Make a data directory of a backup. Every client lists again.

    Certificates that are in the data directory stay; where there are none, the backup's are used.

    Parameters
    ----------
    backup
        Directory that `cobalt apiserver backup` made.
    data
        Directory of the server, which must not run.
    replace
        Set the database aside that is there; it stays beside the restored one.
    """
    try:
        copied = put_back(backup, data, replace=replace)
    except HypercobaltError as error:
        return report_error("apiserver restore", error)
    print(f"{data}: {_shown(copied)}")
    return 0


def _shown(copied: Copied) -> str:
    text = f"{copied.objects} objects at revision {copied.revision}"
    return f"{text}; {copied.damaged} damaged objects cannot be served" if copied.damaged else text
