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


def verify_clients(context: ssl.SSLContext, authorities: str) -> None:
    """Have a context verify clients that show a certificate; those without one are let in.

    Args:
        context: of a server.
        authorities: CAs in PEM form; without any, no certificate is a good one.

    Raises:
        ValueError: they cannot be used.
    """
    context.verify_mode = ssl.CERT_OPTIONAL
    # As Go does: an intermediate CA that is trusted ends a chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A resumed session would count as verified by a CA that is trusted no more.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    if authorities.strip():
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError as error:
            raise ValueError(f"no PEM certificates: {error}") from error
