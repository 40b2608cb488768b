"""TLS towards OpenStack: whom we trust, who we are, what is not protected, and why it fails."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from hypercobalt.adapters.openstack.sdk import CloudRegion
from hypercobalt.errors import ConfigurationError

_DEEPEST: Final = 16  # causes that are followed


def check_files(region: CloudRegion) -> None:
    """See that the configuration's files can be used; requests finds out at the first call only.

    Raises:
        ConfigurationError: one cannot be read, or is no certificate or no key.
    """
    verify, cert = region.get_requests_verify_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if isinstance(verify, str):
        with _named("OS_CACERT (cacert in clouds.yaml)", verify):
            if not Path(verify).is_dir():
                context.load_verify_locations(cafile=verify)
    if cert is not None:
        mine, key = (cert, None) if isinstance(cert, str) else cert
        with _named("OS_CERT, OS_KEY (cert, key in clouds.yaml)", f"{mine}, {key or 'no key'}"):
            context.load_cert_chain(mine, key, password="")  # else OpenSSL would prompt for it


PLAIN: Final = "plain-http"
UNVERIFIED: Final = "unverified-tls"
EXPOSURES: Final = (PLAIN, UNVERIFIED)
"""What lets an attacker on the network read or change requests, tokens and passwords included."""


def exposures(region: CloudRegion) -> dict[str, str]:
    """What the configuration leaves unprotected: its kind, and what it is with the way out."""
    found: dict[str, str] = {}
    keystone = str(region.get_auth_args().get("auth_url") or "")
    if is_plain(keystone):
        found[PLAIN] = f"Keystone at {keystone}: the password is sent unencrypted; use https://"
    verify, _ = region.get_requests_verify_args()
    if verify is False:
        found[UNVERIFIED] = (
            "verify: false (clouds.yaml, OS_INSECURE): any server is accepted as OpenStack and "
            "receives the password; set OS_CACERT (cacert) to the CA instead"
        )
    return found


def is_plain(url: str) -> bool:
    """Whether what is sent there crosses a network without TLS; within this machine it does not."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not _is_here(parts.hostname or "")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def _named(what: str, value: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as exc:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"{what} {value!r}: {exc.strerror if isinstance(exc, OSError) else exc}: it must be a "
            "file in PEM form that this process can read"
        ) from exc


def why(exc: BaseException) -> str:
    """A failed request's error in one line; for a certificate, what to do."""
    text = " ".join(str(exc).split())
    cause: BaseException | None = exc
    for _ in range(_DEEPEST):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its TLS certificate is not accepted: {cause.verify_message}. OS_CACERT (cacert "
                f"in clouds.yaml) must name a file with the CA that signed it. In full: {text}"
            )
        if cause is None:
            break
        cause = cause.__cause__ or cause.__context__
    return text
