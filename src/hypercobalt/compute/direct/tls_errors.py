"""libvirt's and QEMU's errors about TLS, with the way out. Pure.

Neither of them names the setting or the host that lacks something, so a person who reads an
Eviction would not know where to begin.

Source: libvirt's tlscerts.html and remote.html; qemu.conf, `migrate_tls_x509_cert_dir`.
"""

from __future__ import annotations

from typing import Final

STREAMS: Final = (
    "TLS between the QEMUs: both hosts need ca-cert.pem, server-cert.pem, server-key.pem, "
    "client-cert.pem and client-key.pem in /etc/pki/qemu, of one CA, for their own addresses and "
    "readable by QEMU (docs/host.md, Certificates); the operator's flag --no-direct-tls moves "
    "memory and disks in clear"
)
CONTROL: Final = (
    "TLS to libvirtd: if libvirtd runs on that host, it must listen on 16514 (libvirtd-tls.socket) "
    "and both sides need certificates of one CA (docs/host.md, Without OpenStack); without TLS: "
    "qemu+tcp:// in the operator's --direct-libvirt-uri and --direct-migration-uri"
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
        )
    ),
    *((sign, STREAMS) for sign in ("ertificate", "TLS handshake")),
)
"""By what a text is known, in this order: QEMU and libvirt share some words."""


def explained(error: Exception) -> str:
    """The text of an error; where TLS is what failed, with what to set up."""
    text = str(error)
    way = next((way for sign, way in _SIGNS if sign in text), "")
    return f"{text}. {way}" if way else text
