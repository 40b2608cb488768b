"""The server's TLS files.

Certificates are made again when half their life is over or they do not name the address the server
listens on; the CA stays. Files with keys are 0600.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from hypercobalt.errors import ConfigurationError
from hypercobalt.tls.server import server_context as tls_context

LIFETIME = timedelta(days=365)  # of all but the CA
RENEW = LIFETIME / 2  # what was copied from a kubeconfig is good for as long after that
SERVICE_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Pki:
    """Material for TLS: the folder of files for the server, PEM for the client."""

    directory: Path
    ca: bytes
    admin: Pair


class CertificateRecord(msgspec.Struct):
    """Contents of the certificates in a directory, readable without parsing them."""

    expires: datetime
    hosts: tuple[str, ...]


def prepare(directory: Path, address: str) -> Pki:
    """The files in `directory`, made or renewed for `address` where needed.

    Raises:
        ConfigurationError: a file cannot be read or written.
    """
    hosts = server_names(address)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_current(directory, hosts):
            _make(directory, hosts)
        ca, admin = load(directory, "ca"), load(directory, "admin")
    except (OSError, ValueError) as error:
        raise _unusable(directory, error) from error
    return Pki(directory, ca.certificate, admin)


def server_context(files: Pki) -> ssl.SSLContext:
    """TLS of the server, for clients with a certificate of our CA and for those without any.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    context = tls_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    present(context, files)
    try:
        context.load_verify_locations(files.directory / "ca.crt")
    except OSError as error:
        raise _unusable(files.directory, error) from error
    return context


def present(context: ssl.SSLContext, files: Pki) -> None:
    """Have a server show new connections the certificate that is in the files now.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    try:
        context.load_cert_chain(files.directory / "server.crt", files.directory / "server.key")
    except OSError as error:
        raise _unusable(files.directory, error) from error


def _unusable(directory: Path, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"certificates in {directory} cannot be made or used: {error}; "
        "remove the folder to start with new ones"
    )


def _make(directory: Path, hosts: Sequence[str]) -> None:
    """Have the certificates made by a process of its own: seldom, and 10 MiB of a library.

    Raises:
        OSError, ValueError: they could not be made.
    """
    module = "hypercobalt.pki.certificates"
    done = subprocess.run(  # noqa: S603  # our own program, and no shell
        [sys.executable, "-m", module, directory, *hosts],
        capture_output=True,
        text=True,
        check=False,
        process_group=0,  # Ctrl-C ends the server, which waits for this
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ValueError(lines[-1] if lines else f"{module} ended with {done.returncode}")


def server_names(address: str) -> tuple[str, ...]:
    """Every name and address that the server's certificate is good for."""
    found = dict.fromkeys((*SERVICE_NAMES, socket.gethostname(), "127.0.0.1", "::1"))
    if address not in ("0.0.0.0", "::", ""):  # noqa: S104  # compared, not bound
        found[address] = None
    return tuple(found)


def _is_current(directory: Path, hosts: tuple[str, ...]) -> bool:
    files = [
        directory / f"{name}.{end}" for name in ("ca", "server", "admin") for end in ("crt", "key")
    ]
    if not all(file.exists() for file in files):
        return False
    try:
        record = msgspec.json.decode(
            (directory / "record.json").read_bytes(), type=CertificateRecord
        )
    except (OSError, msgspec.DecodeError):
        return False
    return set(hosts) <= set(record.hosts) and record.expires > datetime.now(UTC) + RENEW


def load(directory: Path, name: str) -> Pair:
    """A certificate and its key.

    Raises:
        OSError: one of the two cannot be read.
    """
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    return Pair(certificate.read_bytes(), key.read_bytes())


def store(directory: Path, name: str, pair: Pair) -> Pair:
    write_secret(directory / f"{name}.key", pair.key)
    (directory / f"{name}.crt").write_bytes(pair.certificate)
    return pair


def write_secret(path: Path, data: bytes) -> None:
    """Replace a file at once, readable by its owner only from the first byte on."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)
