"""Backups: made of a data directory while its server runs, put back where none does.

A backup is a directory with a copy of the database and of the certificates, keys included.

After a restore, no version that a client holds may mean something else: those that were given after
the backup are lost. So a restored server has no history, and begins at a revision that was never
given: at least the clock's milliseconds, which no server reaches by writing. Every watch gets 410
and lists again.

Source: etcdutl snapshot restore, --bump-revision and --mark-compacted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from hypercobalt.apiserver.storage.database import lock_directory
from hypercobalt.apiserver.storage.file import FILE, connect, translate
from hypercobalt.apiserver.storage.loading import load
from hypercobalt.errors import ConfigurationError

PKI = "pki"


@dataclass(frozen=True, slots=True)
class Copied:
    """Contents of a backup or a restored database."""

    objects: int
    damaged: int
    revision: int


def back_up(data: Path, to: Path) -> Copied:
    """Copy a data directory as it is at one revision; writes go on meanwhile.

    Raises:
        ConfigurationError: there is no database, or the target holds something or is unusable.
        StoreError: the database is damaged as a whole.
    """
    if not (data / FILE).is_file():
        raise ConfigurationError(f"{data} holds no database; name the server's --data")
    try:
        to.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(to.iterdir()):
            raise ConfigurationError(f"{to} is not empty; name a new directory for the backup")
        partial = _copy(data / FILE, to)
        copied = _check(partial)
        if (data / PKI).is_dir():
            shutil.copytree(data / PKI, to / PKI)
        _publish(partial, to)
    except OSError as error:
        raise ConfigurationError(f"{to} cannot be written: {error.strerror}") from error
    return copied


def restore(backup: Path, data: Path, *, replace: bool) -> Copied:
    """Make a data directory from a backup; a database that is replaced stays beside the new one.

    Raises:
        ConfigurationError: a server runs on `data`, or it has a database and `replace` is false.
        StoreError: the backup is damaged as a whole.
    """
    if not (backup / FILE).is_file():
        raise ConfigurationError(f"{backup} is not a backup: {FILE} is missing")
    lock = lock_directory(data)
    try:
        if (data / FILE).exists() and not replace:
            raise ConfigurationError(f"{data} holds a database already; --replace sets it aside")
        partial = _copy(backup / FILE, data)
        copied = _check(partial, begin_anew=True)
        _set_aside(data)
        if (backup / PKI).is_dir() and not (data / PKI).exists():
            shutil.copytree(backup / PKI, data / PKI)
        _publish(partial, data)
    except OSError as error:
        raise ConfigurationError(f"{data} cannot be written: {error.strerror}") from error
    finally:
        os.close(lock)
    return copied


def _copy(source: Path, directory: Path) -> Path:
    """Copy a database, which may be in use, as of one moment."""
    partial = directory / f"{FILE}.partial"
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    address = f"{source.absolute().as_uri()}?mode=rw"
    try:
        with (
            contextlib.closing(sqlite3.connect(address, uri=True)) as db,
            contextlib.closing(sqlite3.connect(partial)) as copy,
        ):
            db.backup(copy)  # in one step: of one snapshot
    except sqlite3.Error as error:
        raise translate(error, source) from error
    return partial


def _check(path: Path, *, begin_anew: bool = False) -> Copied:
    """Check everything in a copy, and leave one file with everything on disk."""
    try:
        with contextlib.closing(connect(path)) as db:
            loaded = load(db, path)
            revision = loaded.revision
            if begin_anew:
                revision = max(revision + 1, time.time_ns() // 1_000_000)
                db.execute("DELETE FROM events")
                db.execute("UPDATE horizon SET compacted = ?", (revision,))
            db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise translate(error, path) from error
    return Copied(len(loaded.objects), len(loaded.damaged), revision)


def _set_aside(data: Path) -> None:
    """Rename the database that is there, with what was not yet written back from its log."""
    aside = f"{FILE}.replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    (data / f"{FILE}-shm").unlink(missing_ok=True)
    for suffix in ("-wal", ""):
        with contextlib.suppress(FileNotFoundError):
            (data / f"{FILE}{suffix}").rename(data / f"{aside}{suffix}")


def _publish(partial: Path, directory: Path) -> None:
    """Give a whole copy its name, so that nothing else ever has it."""
    partial.rename(directory / FILE)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
