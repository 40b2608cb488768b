"""The TLS context of every listener of ours, before certificates and trust are added.

A client may not renegotiate: each time costs the server a handshake.
"""

from __future__ import annotations

import ssl


def server_context() -> ssl.SSLContext:
    """A context without a certificate: TLS 1.2 or 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
