"""TLS towards the API server, without a private key ever on a disk.

Python's ssl reads a certificate chain from a path only, so inline data goes through an anonymous
file in memory that no other process can open and that is gone with its descriptor.
"""

from __future__ import annotations

import os
import ssl

from hypercobalt.errors import ConfigurationError
from hypercobalt.kubeconfig import Connection


def make_context(connection: Connection, certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
    """The context for a connection.

    Args:
        connection: its authority and whether to verify.
        certificate: PEM chain and PEM key of the client certificate, if there is one.

    Raises:
        ConfigurationError: an unusable authority, certificate or key.
    """
    if connection.verify and connection.authority is None:
        # The system's authorities, read only where they count: half a MiB for good, and 20 ms.
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not connection.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif connection.authority is not None:
        _load_authority(context, connection.authority.read())
    if certificate is not None:
        load_certificate(context, *certificate)
    return context


def _load_authority(context: ssl.SSLContext, pem: bytes) -> None:
    try:
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError) as exc:
        raise ConfigurationError(f"certificate-authority is not a PEM certificate: {exc}") from exc


def load_certificate(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    """Have a context show a client certificate, both in PEM form.

    Raises:
        ConfigurationError: they do not fit together, or the key is encrypted.
    """
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, chain.rstrip() + b"\n" + key)
        # With any password OpenSSL does not prompt for the one of an encrypted key.
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")
    except ssl.SSLError as exc:
        raise ConfigurationError(
            f"client-certificate and client-key do not fit together, or the key is encrypted: "
            f"{exc.reason}"
        ) from exc
    finally:
        os.close(descriptor)
