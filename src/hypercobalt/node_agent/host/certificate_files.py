"""Puts a certificate, its key and the CA where libvirt, QEMU and Cloud Hypervisor look for them.

First everything is written beside its place and checked; only then is anything put in place, each
file by a rename. So a reader finds an old file or a new one, never half of one, and content that
does not fit together changes nothing. A crash between two renames is mended by the next run, which
compares every file.

Source: kvm-node-agent, internal/certificates (paths, links); libvirt, "TLS certificates".
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
from typing import Final

from hypercobalt.node_agent.host.certificate_check import (
    CertificateFilesError,
    Validity,
    check,
)

CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    CA: ("CA/cacert.pem", "qemu/ca-cert.pem", "ch/ca-cert.pem"),
    CERTIFICATE: ("libvirt/servercert.pem", "qemu/server-cert.pem", "ch/server-cert.pem"),
    KEY: ("libvirt/private/serverkey.pem", "qemu/server-key.pem", "ch/server-key.pem"),
}
"""Key of the Secret: the files with its content, below the directory for certificates."""

LINKS: Final[Mapping[str, str]] = {
    "libvirt/clientcert.pem": "servercert.pem",
    "qemu/client-cert.pem": "server-cert.pem",
    "ch/client-cert.pem": "server-cert.pem",
    "libvirt/private/clientkey.pem": "serverkey.pem",
    "qemu/client-key.pem": "server-key.pem",
    "ch/client-key.pem": "server-key.pem",
}
"""Symbolic link: what it leads to, in the same directory."""

MARK: Final = "CA/.installed"
"""A digest of what the services have loaded."""

_PRIVATE_DIRECTORIES: Final = frozenset({"libvirt/private"})


@dataclass(frozen=True, slots=True)
class File:
    """A file as it should be."""

    path: str
    content: bytes
    mode: int

    def __repr__(self) -> str:
        return f"File({self.path}, mode={self.mode:o})"


def plan(data: Mapping[str, bytes]) -> tuple[File, ...]:
    """The files that a Secret's data makes.

    Raises:
        CertificateFilesError: a key is missing or empty; it names all of them.
    """
    if missing := [key for key in FILES if not data.get(key)]:
        raise CertificateFilesError(
            f"the Secret lacks {', '.join(missing)}; it needs {', '.join(FILES)}"
        )
    return tuple(
        File(path, data[key], 0o600 if key == KEY else 0o644)
        for key, paths in FILES.items()
        for path in paths
    )


def digest(files: tuple[File, ...]) -> str:
    """What tells one set of contents from another."""
    parts = (hashlib.sha256(file.content).digest() for file in files)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def is_loaded(root: Path, files: tuple[File, ...]) -> bool:
    """Whether everything is in its place, and the services were told so."""
    return not strays(root, files) and _read(root / MARK) == digest(files).encode()


def strays(root: Path, files: tuple[File, ...]) -> tuple[str, ...]:
    """The files whose content or mode is another, and the links that lead elsewhere."""
    wrong = [file.path for file in files if not _is_right(root / file.path, file)]
    astray = [path for path, target in LINKS.items() if not _leads_to(root / path, target)]
    return (*wrong, *astray)


def install(root: Path, files: tuple[File, ...], names: Sequence[str]) -> None:
    """Put everything in place; what is right already is left as it is.

    Args:
        root: directory for certificates.
        files: of `plan`.
        names: DNS names and addresses that the certificate has to be good for.

    Raises:
        CertificateFilesError: the certificate is not one for this host: see `certificate_check`.
            Nothing was changed.
        OSError: a file cannot be written.
    """
    for directory in sorted({Path(path).parent for path in (*(f.path for f in files), *LINKS)}):
        private = str(directory) in _PRIVATE_DIRECTORIES
        (root / directory).mkdir(mode=0o700 if private else 0o755, parents=True, exist_ok=True)
    with ExitStack() as undo:
        staged = {
            root / file.path: _stage(root / file.path, file, undo)
            for file in files
            if not _is_right(root / file.path, file)
        }
        paths = {key: root / names[0] for key, names in FILES.items()}
        ca, certificate, key = (staged.get(path, path) for path in paths.values())
        check(ca, certificate, key, names)
        for path, temporary in staged.items():
            temporary.replace(path)
    for link, target in LINKS.items():
        if not _leads_to(root / link, target):
            _link(root / link, target)
    for directory in {path.parent for path in staged}:
        _sync(directory)


def check_installed(root: Path, names: Sequence[str]) -> Validity:
    """Check what libvirt's server has in place; gives for how long that is good.

    Raises:
        CertificateFilesError: it is not, or no longer, good for all of the names.
        OSError: a file cannot be read.
    """
    ca, certificate, key = (root / paths[0] for paths in FILES.values())
    return check(ca, certificate, key, names)


def in_place(root: Path) -> tuple[File, ...]:
    """The files as what libvirt's server has in place makes them; empty without all of it."""
    found = {key: _read(root / paths[0]) for key, paths in FILES.items()}
    data = {key: content for key, content in found.items() if content}
    return plan(data) if len(data) == len(FILES) else ()


def mark_loaded(root: Path, files: tuple[File, ...]) -> None:
    """Remember that the services have loaded these files.

    Raises:
        OSError: it cannot be written.
    """
    mark = File(MARK, digest(files).encode(), 0o600)
    with ExitStack() as undo:
        _stage(root / MARK, mark, undo).replace(root / MARK)
    _sync((root / MARK).parent)


def _stage(path: Path, file: File, undo: ExitStack) -> Path:
    """Write a file beside its place; `undo` removes it if it is not put there."""
    for left in path.parent.glob(f".{path.name}.*"):  # by a crash
        left.unlink()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    temporary = Path(name)
    undo.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(file.content)
        # QEMU reads its key as its own user: a key belongs to whom its directory belongs to.
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
