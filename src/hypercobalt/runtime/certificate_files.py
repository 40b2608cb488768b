"""A listener's certificate in files that are replaced while the process runs.

A client that verifies it sends its token to no other server. A new connection gets the certificate
that the files have by then; files that cannot be used leave the one of before.

Source: a Secret of type kubernetes.io/tls as a volume; controller-runtime, pkg/certwatcher.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.tls.server import server_context, verify_clients

log = get_logger(__name__)

_Version = tuple[int, int] | None  # None: there is no such file


class CertificateFiles:
    """The TLS context of a listener.

    Args:
        directory: of `tls.crt`, the certificate and those of intermediate CAs, and `tls.key`.
        verifies: clients may show certificates; see `trust`.

    Attributes:
        context: for the listener.

    Raises:
        ConfigurationError: the files cannot be used.
    """

    def __init__(self, directory: Path, *, verifies: bool = False) -> None:
        self._authorities = "" if verifies else None
        self._files = directory / "tls.crt", directory / "tls.key"
        self._seen: tuple[_Version, ...] = self._versions()
        try:
            self.context = self._new()
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(
                f"{directory}: tls.crt and tls.key must be a certificate and its key in PEM form: "
                f"{error}"
            ) from error
        self.context.sni_callback = self._use_newest  # called for every client, with a name or not
        self._newest = self.context

    def trust(self, authorities: str) -> None:
        """Have new connections verified by these CAs, in PEM form; by none if it is empty.

        Raises:
            ValueError: they cannot be used, or not with the files as they are; those of before
                stay until then.
        """
        verify_clients(server_context(), authorities)
        self._authorities, self._seen = authorities, self._versions()
        try:
            self._newest = self._new()
        except OSError as error:
            self._seen = ()  # the next connection tries again
            raise ValueError(f"{self._files[0]}: {error}") from error

    def _use_newest(self, connection: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
        if (found := self._versions()) != self._seen:
            self._seen = found
            try:
                self._newest = self._new()
                log.info("certificate_replaced", file=str(self._files[0]))
            except OSError as error:
                log.warning("certificate_refused", file=str(self._files[0]), error=str(error))
        connection.context = self._newest

    def _new(self) -> ssl.SSLContext:
        context = server_context()
        context.load_cert_chain(*self._files, password="")  # a key with a password is refused
        if self._authorities is not None:
            verify_clients(context, self._authorities)
        return context

    def _versions(self) -> tuple[_Version, ...]:
        return tuple(_version(file) for file in self._files)


def _version(file: Path) -> _Version:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
