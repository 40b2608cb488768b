"""Whether a certificate, its key and its CA are this host's: two peers in memory try them out.

One peer shows the certificate as a server does, the other as a client does, and both trust the CA's
file alone. So chain, dates, key, names, addresses and both purposes are checked by
the rules of TLS, on files that nothing uses yet. No certificate is parsed here: a library for that
would cost the agent more memory than all of its other parts.

Source: RFC 5280, 6; RFC 9525; OpenSSL, X509_verify_cert_error_string.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hypercobalt.api.host_certificate import CertificateReason
from hypercobalt.errors import TerminalError

_FLIGHTS: Final = 8  # a handshake has fewer


class CertificateFilesError(TerminalError):
    """The certificate cannot be installed as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=CertificateReason.FAILED_TO_UPDATE)


@dataclass(frozen=True, slots=True)
class Validity:
    """The time in which a certificate is good, UTC."""

    not_before: datetime
    not_after: datetime


def check(ca: Path, certificate: Path, key: Path, names: Sequence[str]) -> Validity:
    """Try the files out, and return from when until when they are good.

    Args:
        ca: file with the certificates to trust.
        certificate: file with the host's certificate, and those between it and the CA.
        key: file with its key.
        names: DNS names and addresses that the certificate must be good for; at least one.

    Raises:
        CertificateFilesError: they are no PEM, do not fit together, are expired or not valid yet,
            or not for a name; the message has no content of the files.
        OSError: a file cannot be read.
    """
    server, client = _context(ssl.PROTOCOL_TLS_SERVER, ca), _context(ssl.PROTOCOL_TLS_CLIENT, ca)
    for context in (server, client):
        _show(context, certificate, key)
    found: Validity | None = None
    for name in names:
        try:
            found = _shake_hands(server, client, name)
        except ssl.SSLCertVerificationError as error:
            raise CertificateFilesError(f"for {name}: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise CertificateFilesError(f"for {name}: {error.reason}") from error
    if found is None:
        raise CertificateFilesError("the certificate has no name that it should be for")
    return found


def _context(protocol: int, ca: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    # As GnuTLS: a CA between the root and the host may be all that is trusted.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise CertificateFilesError(f"the CA is not a certificate in PEM form: {error}") from error
    return context


def _show(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateFilesError(
            f"certificate and key are not in PEM form, or do not fit together: {error}"
        ) from error


def _no_password() -> str:
    """Refuse an encrypted key, for which OpenSSL would prompt on the terminal."""
    raise ValueError("the key is encrypted")


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> Validity:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_side=False, server_hostname=name)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_FLIGHTS):
        waiting = [side for side in (here, there) if not _goes_on(side)]
        if not waiting:
            break
    peer = here.getpeercert() or {}
    return Validity(_time(peer.get("notBefore")), _time(peer.get("notAfter")))


def _goes_on(side: ssl.SSLObject) -> bool:
    """Take the handshake as far as it goes, and return whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _time(text: object) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(text)), UTC)
