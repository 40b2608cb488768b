"""Which CA may be installed on a host: the administrator's, or else the one that is there. Pure.

Certificate and CA come together, by a Secret or the status of a CertificateRequest, so who can
write those could have the host trust a CA of their own. The services trust what the CA's file has:
it is pinned. Without a file of the administrator the first CA is believed, as nothing is known yet;
another one never is.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

_BLOCK: Final = re.compile(
    rb"-----BEGIN (?:TRUSTED )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)"
    rb"-----END (?:TRUSTED )?CERTIFICATE-----"
)


def foreign(offered: bytes, installed: bytes | None, configured: bytes | None) -> str:
    """Why a CA is not installed; "" when it may be.

    Args:
        offered: the file that came with the certificate, PEM.
        installed: the files in place; None without one.
        configured: the administrator's file; None without one.
    """
    trusted = certificates(configured if configured is not None else installed or b"")
    if configured is None and not trusted:
        return ""
    if certificates(offered) and certificates(offered) <= trusted:
        return ""
    if configured is not None:
        return "its CA is not in the file of --pki-ca-file"
    return (
        "its CA is not the one that is installed; a new CA has to be in a file that --pki-ca-file "
        "names"
    )


def certificates(pem: bytes) -> frozenset[bytes]:
    """The certificates of a file, however it is wrapped; text between them is left out."""
    found = set[bytes]()
    for block in _BLOCK.finditer(pem):
        try:
            found.add(base64.b64decode(b"".join(block[1].split()), validate=True))
        except binascii.Error:
            found.add(block[1])
    return frozenset(found)
