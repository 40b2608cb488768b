"""Keeps the metrics page to those who may read it, as the API server says.

The page is served over TLS with a certificate made at start, so that a token is never sent in the
clear; scrapers in a cluster do not verify it, as with any controller's. The token is reviewed, and
its user must be allowed to `get` the path.

Source: sigs.k8s.io/controller-runtime, pkg/metrics/filters, WithAuthenticationAndAuthorization.
"""

from __future__ import annotations

import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hypercobalt.api.access import (
    NonResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    TokenReview,
    TokenReviewSpec,
)
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.endpoints import Guard

log = get_logger(__name__)

_LIFETIME: Final = timedelta(days=365)  # a process lives shorter
_CLOCKS_DIFFER: Final = timedelta(hours=1)


def guard(kube: Kube) -> Guard:
    """A guard that asks the API server.

    Args:
        kube: may create TokenReviews and SubjectAccessReviews; writes whether this process leads or
            not.
    """

    async def admits(token: str, path: str) -> int:
        if not token:
            return 401
        try:
            return await _ask(kube, token, path)
        except HypercobaltError as error:
            log.warning("cannot_review_access", path=path, error=str(error))
            return 500

    return Guard(_self_signed(), admits)


async def _ask(kube: Kube, token: str, path: str) -> int:
    review = await kube.create(TokenReview(spec=TokenReviewSpec(token=token)))
    if not review.status.authenticated:
        return 401
    user = review.status.user
    asked = SubjectAccessReviewSpec(
        user=user.username,
        uid=user.uid,
        groups=user.groups,
        nonResourceAttributes=NonResourceAttributes(path=path, verb="get"),
    )
    answer = await kube.create(SubjectAccessReview(spec=asked))
    return 200 if answer.status.allowed else 403


def _self_signed() -> ssl.SSLContext:
    """A server's context with a fresh certificate; its key is on no disk."""
    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host[:64])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    descriptor = os.memfd_create("metrics-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, certificate.public_bytes(serialization.Encoding.PEM))
        os.write(
            descriptor,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
