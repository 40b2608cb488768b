"""Where the certificates of hosts come from."""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.api.certificate import IssuerKind, IssuerReference
from hypercobalt.api.host_certificate import CertificateSource


@dataclass(frozen=True, slots=True)
class Issuing:
    """Where certificates come from.

    Args:
        namespace: of the Certificates and their Secrets, or of the agents' CertificateRequests.
        issuer: name of the cert-manager issuer.
        kind: of that issuer; an Issuer is in the namespace.
        source: with `REQUEST` the agents' requests are approved and no Certificate is made.
    """

    namespace: str
    issuer: str
    kind: IssuerKind = "Issuer"
    source: CertificateSource = CertificateSource.SECRET

    @property
    def reference(self) -> IssuerReference:
        return IssuerReference(name=self.issuer, kind=self.kind, group="cert-manager.io")
