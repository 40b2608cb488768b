"""A certificate made at start, for pages whose readers show a token and verify no name.

Apart from the guard, because the library that makes it takes 12 MiB: a node agent inherits one.
"""

from __future__ import annotations

import os
import socket
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME: Final = timedelta(days=365)  # a process lives shorter
_CLOCKS_DIFFER: Final = timedelta(hours=1)


def self_signed(*names: str) -> int:
    """A descriptor of certificate and key in PEM form, in memory only; the caller closes it.

    Args:
        names: DNS names for clients that verify one; without any, `localhost`.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host[:64])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LIFETIME)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(one) for one in names or ("localhost",)]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    descriptor = os.memfd_create("metrics-certificate", os.MFD_CLOEXEC)
    os.write(descriptor, pem)
    return descriptor
