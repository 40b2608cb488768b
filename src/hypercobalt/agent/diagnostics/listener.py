"""TLS of the diagnostics server: one certificate for the process, trust that follows the cluster.

Clients may show a certificate of the cluster's client CA, which kube-apiserver publishes. When that
changes, new connections are verified by the new CA alone; those that are open go on.

Source: Kubernetes, ConfigMap kube-system/extension-apiserver-authentication, `client-ca-file`, as
extension API servers use it; OpenSSL, SSL_set_SSL_CTX (a connection takes over the store of CAs).
"""

from __future__ import annotations

import hashlib
import os
import ssl
from pathlib import Path
from typing import Final

from hypercobalt.api.core import ConfigMap
from hypercobalt.logs import get_logger
from hypercobalt.runtime.write_cache import Latest
from hypercobalt.tls.server import server_context, verify_clients

log = get_logger(__name__)

CLIENT_CA_NAMESPACE: Final = "kube-system"
CLIENT_CA_CONFIG: Final = "extension-apiserver-authentication"
CLIENT_CA_KEY: Final = "client-ca-file"


class ListenerTls:
    """The TLS context of a listener.

    Args:
        certificate: descriptor of the certificate and its key in PEM form; it stays open.

    Attributes:
        context: for the listener.
        fingerprint: SHA-256 of the certificate, in hexadecimal digits.
    """

    def __init__(self, certificate: int) -> None:
        os.set_inheritable(certificate, False)  # programs that the agent starts do not get it
        self._file = Path(f"/proc/self/fd/{certificate}")
        head, end, _ = self._file.read_text("ascii").partition("-----END CERTIFICATE-----")
        self.fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(head + end)).hexdigest()
        self.context = self._new()
        self.context.sni_callback = self._use_newest  # called for every client, with a name or not
        self._newest = self.context

    def trust(self, authorities: str) -> None:
        """Have new connections verified by these CAs, in PEM form; by none if it is empty.

        Raises:
            ValueError: they cannot be used; those of before stay.
        """
        self._newest = self._new(authorities)

    async def follow(self, published: Latest[ConfigMap]) -> None:
        """Keep the trust equal to what the cluster publishes, until cancelled."""
        while True:
            found = published.value
            authorities = found.data.get(CLIENT_CA_KEY, "") if found is not None else ""
            try:
                self.trust(authorities)
                log.info("client_ca_trusted", bytes=len(authorities))
            except ValueError as error:
                about = f"{CLIENT_CA_NAMESPACE}/{CLIENT_CA_CONFIG}"
                log.warning("client_ca_refused", config_map=about, error=str(error))
            await published.changed(found)

    def _new(self, authorities: str = "") -> ssl.SSLContext:
        context = server_context()
        context.load_cert_chain(self._file)
        verify_clients(context, authorities)
        return context

    def _use_newest(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._newest
