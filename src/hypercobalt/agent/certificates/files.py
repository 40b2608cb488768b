"""Puts a certificate, its key and the CA where the services of a host look for them.

First everything is written beside its place and checked; only then is anything put in place, each
file by a rename. So a reader finds an old file or a new one, never half of one, and content that
does not fit together changes nothing. A crash between two renames is repaired by the next run,
which compares every file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from hypercobalt.agent.certificates.check import (
    CertificateFilesError,
    Validity,
    check,
)

CA, CERTIFICATE, KEY = KEYS = "ca.crt", "tls.crt", "tls.key"
"""Contents, by their names in a Secret."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as it should be."""

    path: str
    content: bytes
    mode: int

    def __repr__(self) -> str:
        return f"File({self.path}, mode={self.mode:o})"


def digest(files: tuple[File, ...]) -> str:
    """A digest of the contents: equal for equal contents."""
    parts = (hashlib.sha256(file.content).digest() for file in files)
    return hashlib.sha256(b"".join(parts)).hexdigest()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the services of a host look for their certificate.

    Args:
        root: directory for certificates; the paths are below it.
        files: key of the content to the files that have it; the first of each are checked.
        links: symbolic link to its target, in the same directory.
        private: directories that none but their owner may enter.
        mark: file with a digest of what the services have loaded.
        pending: file with a key that waits for its certificate.
    """

    root: Path
    files: Mapping[str, tuple[str, ...]]
    links: Mapping[str, str]
    private: frozenset[str]
    mark: str
    pending: str

    def plan(self, data: Mapping[str, bytes]) -> tuple[File, ...]:
        """The files that these contents make.

        Raises:
            CertificateFilesError: a content is missing or empty; it names all of them.
        """
        if missing := [key for key in KEYS if not data.get(key)]:
            raise CertificateFilesError(f"lacks {', '.join(missing)}; needs {', '.join(KEYS)}")
        return tuple(
            File(path, data[key], 0o600 if key == KEY else 0o644)
            for key, paths in self.files.items()
            for path in paths
        )

    def is_loaded(self, files: tuple[File, ...]) -> bool:
        """Whether everything is in its place, and the services have loaded it."""
        loaded = _read(self.root / self.mark)
        return not self.strays(files) and loaded == digest(files).encode()

    def strays(self, files: tuple[File, ...]) -> tuple[str, ...]:
        """The files whose content or mode is another, and the links that lead elsewhere."""
        wrong = [file.path for file in files if not _is_right(self.root / file.path, file)]
        astray = [link for link, to in self.links.items() if not _leads_to(self.root / link, to)]
        return (*wrong, *astray)

    def install(self, files: tuple[File, ...], names: Sequence[str]) -> None:
        """Put everything in place; what is right already is left as it is.

        Args:
            files: of `plan`.
            names: DNS names and addresses that the certificate has to be good for.

        Raises:
            CertificateFilesError: the certificate is not one for this host: see `check`. Nothing
                was changed.
            OSError: a file cannot be written.
        """
        self._make_directories(files)
        with ExitStack() as undo:
            staged = {
                self.root / file.path: _stage(self.root / file.path, file, undo)
                for file in files
                if not _is_right(self.root / file.path, file)
            }
            ca, certificate, key = (staged.get(path, path) for path in self._checked)
            check(ca, certificate, key, names)
            for path, temporary in staged.items():
                temporary.replace(path)
        for link, target in self.links.items():
            if not _leads_to(self.root / link, target):
                _link(self.root / link, target)
        for directory in {path.parent for path in staged}:
            _sync(directory)

    def check_installed(self, names: Sequence[str]) -> Validity:
        """Check the files in place, and return how long they are good.

        Raises:
            CertificateFilesError: they are not, or no longer, good for all of the names.
            OSError: a file cannot be read.
        """
        ca, certificate, key = self._checked
        return check(ca, certificate, key, names)

    def in_place(self) -> tuple[File, ...]:
        """The files as the checked ones make them; empty if any of those is missing."""
        found = dict(zip(KEYS, map(_read, self._checked), strict=True))
        data = {key: content for key, content in found.items() if content}
        return self.plan(data) if len(data) == len(KEYS) else ()

    def installed_key(self) -> bytes:
        """The host's key, whatever its certificate is; empty without one."""
        return _read(self._checked[2]) or b""

    def installed_ca(self) -> bytes | None:
        """What the services trust now, by all files of the CA; None without one.

        One of them may have been damaged by hand.

        Raises:
            OSError: one is there and cannot be read.
        """
        found = list[bytes]()
        for path in self.files[CA]:
            with suppress(FileNotFoundError):
                found.append((self.root / path).read_bytes())
        return b"\n".join(found) or None

    def mark_loaded(self, files: tuple[File, ...]) -> None:
        """Remember that the services have loaded these files.

        Raises:
            OSError: it cannot be written.
        """
        put(self.root / self.mark, File(self.mark, digest(files).encode(), 0o600))

    @property
    def _checked(self) -> tuple[Path, Path, Path]:
        """CA, certificate and key."""
        first = {key: self.root / paths[0] for key, paths in self.files.items()}
        return first[CA], first[CERTIFICATE], first[KEY]

    def _make_directories(self, files: tuple[File, ...]) -> None:
        paths = (*(file.path for file in files), *self.links, self.mark)
        for directory in sorted({str(Path(path).parent) for path in paths}):
            mode = 0o700 if directory in self.private else 0o755
            (self.root / directory).mkdir(mode=mode, parents=True, exist_ok=True)


def put(path: Path, file: File) -> None:
    """Write one file whole, in place of any other.

    Raises:
        OSError: it cannot be written.
    """
    with ExitStack() as undo:
        _stage(path, file, undo).replace(path)
    _sync(path.parent)


def _stage(path: Path, file: File, undo: ExitStack) -> Path:
    """Write a file beside its place; `undo` removes it if it is not put there."""
    for left in path.parent.glob(f".{path.name}.*"):  # by a crash
        left.unlink()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    temporary = Path(name)
    undo.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(file.content)
        # A service may read its key as its own user: a key has the owner of its directory.
        owner = path.parent.stat()
        with suppress(PermissionError):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.fchmod(descriptor, file.mode)
        stream.flush()
        os.fsync(descriptor)
    return temporary


def _link(path: Path, target: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    try:
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _is_right(path: Path, file: File) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    regular = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == file.mode
    return regular and _read(path) == file.content


def _leads_to(path: Path, target: str) -> bool:
    try:
        return str(path.readlink()) == target
    except OSError:
        return False


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
