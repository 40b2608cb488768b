"""Certificates of the embedded API server, and of the lab's hosts and boards, in folders of files.

`certificates` makes them; it loads a library of 10 MiB, so it is imported only where that is done.
"""

from hypercobalt.pki.files import (
    LIFETIME,
    RENEW,
    CertificateRecord,
    Pair,
    Pki,
    load,
    prepare,
    present,
    server_context,
    store,
    write_secret,
)

__all__ = (
    "LIFETIME",
    "RENEW",
    "CertificateRecord",
    "Pair",
    "Pki",
    "load",
    "prepare",
    "present",
    "server_context",
    "store",
    "write_secret",
)
