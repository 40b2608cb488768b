"""Explains libvirt's and QEMU's errors about TLS, with the remedy. Pure.

Neither of them names the setting or the host that lacks something, which a person who reads an
Eviction needs.

Source: libvirt's tlscerts.html and remote.html; qemu.conf, `migrate_tls_x509_cert_dir`.
"""

from __future__ import annotations

from typing import Final

STREAMS: Final = (
    "QEMU's certificates in /etc/pki/qemu of both hosts must fit (docs/host.md, Certificates); "
    "without TLS: --no-direct-tls of the operator"
)
CONTROL: Final = (
    "libvirtd must serve TLS on 16514 (libvirtd-tls.socket), with certificates of one CA on both "
    "sides (docs/host.md, Without OpenStack); without TLS: qemu+tcp:// in the operator's "
    "--direct-libvirt-uri and --direct-migration-uri"
)
_SIGNS: Final = (
    *((sign, STREAMS) for sign in ("/etc/pki/qemu", "migration TLS directory")),
    *(
        (sign, CONTROL)
        for sign in (
            "remote libvirt URI qemu+tls://",
            ":16514",
            "cacert.pem",
            "clientcert.pem",
            "clientkey.pem",
            "owner does not match the hostname",
            "verify peer's certificate",
            "our TLS certificate",
        )
    ),
    *((sign, STREAMS) for sign in ("ertificate", "TLS handshake")),
)
"""Texts that identify an error, in this order: some texts of QEMU and libvirt overlap."""


def explained(error: Exception) -> str:
    """Return the text of an error; for an error of TLS, with what to set up."""
    text = str(error)
    way = next((way for sign, way in _SIGNS if sign in text), "")
    return f"{text}. {way}" if way else text
