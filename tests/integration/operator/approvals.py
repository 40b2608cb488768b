"""What the tests of CertificateRequests share: where they are, and what was decided of one."""

from __future__ import annotations

from hypercobalt.api.certificate import CertificateRequest
from hypercobalt.api.host_certificate import CertificateSource
from hypercobalt.operator.certificates.settings import Issuing

PLACE = "monsoon3"
ISSUING = Issuing(PLACE, "nova-hypervisor-agents-ca-issuer", source=CertificateSource.REQUEST)


def verdict(request: CertificateRequest) -> str:
    """`type: message` of what was decided, empty before."""
    return ", ".join(
        f"{c.type}: {c.message}"
        for c in request.status.conditions
        if c.type in ("Approved", "Denied") and c.status == "True"
    )
