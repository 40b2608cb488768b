"""TLS to an OVN database as ovn-controller has it: the same key, certificate and authority.

Source: ovn-controller(8), "PKI Options"; ovs-pki(8): certificates name the chassis or the database,
not an address, so the chain is verified and no host name.
"""

from __future__ import annotations

import ssl
import stat
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.model import TlsFiles
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.errors import words

LARGEST: Final = 1024 * 1024
"""Bytes of a file; a bundle of a hundred CAs is 200 KB."""


def client_context(files: TlsFiles, root: Path) -> ssl.SSLContext:
    """Make a client's context; files are read each time, as they are replaced when renewed.

    Args:
        files: as ovn-controller names them.
        root: of the file system that they are in.

    Raises:
        SwitchError: UNSUPPORTED, with the file that is missing, cannot be read or makes no sense.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    key = _readable("private key", files.private_key, root)
    certificate = _readable("certificate", files.certificate, root)
    authority = _readable("CA certificate", files.authority, root)
    try:
        # Without a password OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(certificate, key, password=b"")
    except (OSError, ValueError) as exc:
        text = f"certificate {files.certificate} and private key {files.private_key}: {_words(exc)}"
        raise SwitchError(ProducerFault.UNSUPPORTED, text) from exc
    try:
        context.load_verify_locations(authority)
    except (OSError, ValueError) as exc:
        text = f"CA certificate {files.authority}: {_words(exc)}"
        raise SwitchError(ProducerFault.UNSUPPORTED, text) from exc
    return context


def _readable(what: str, name: str, root: Path) -> Path:
    """The file, once it is known to be one that can be read: OpenSSL's errors name none."""
    if not name.startswith("/"):
        cause = f"{name!r} is not an absolute path" if name else "none is configured"
        raise SwitchError(ProducerFault.UNSUPPORTED, f"{what}: {cause}")
    file = root / name.lstrip("/")
    try:
        found = file.stat()
        if stat.S_ISREG(found.st_mode):
            with file.open("rb") as opened:
                opened.read(1)
    except (OSError, ValueError) as exc:
        text = f"{what} {name} cannot be read: {_cause(exc)}"
        raise SwitchError(ProducerFault.UNSUPPORTED, text) from exc
    if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
        # OpenSSL would read a device, or wait for a pipe, without end.
        text = f"{what} {name} is no regular file of up to {LARGEST} bytes"
        raise SwitchError(ProducerFault.UNSUPPORTED, text)
    return file


def _cause(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _words(error: OSError | ValueError) -> str:
    return getattr(error, "reason", None) or words(error)
