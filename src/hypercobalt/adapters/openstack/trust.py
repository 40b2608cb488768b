"""TLS towards OpenStack: the files that say whom we trust and who we are; and why it fails."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from openstack.config.cloud_region import CloudRegion

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
            context.load_cert_chain(mine, key, password="")  # else it would ask a person


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
    """What a failed request says, in one line; of a certificate what to do."""
    said = " ".join(str(exc).split())
    cause: BaseException | None = exc
    for _ in range(_DEEPEST):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return (
                f"its TLS certificate is not accepted: {cause.verify_message}. OS_CACERT (cacert "
                f"in clouds.yaml) must name a file with the CA that signed it. In full: {said}"
            )
        if cause is None:
            break
        cause = cause.__cause__ or cause.__context__
    return said
