"""cert-manager's Certificate and CertificateRequest, with the fields that we use.

Source: cert-manager, pkg/apis/certmanager/v1/types_certificate.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from hypercobalt.api.meta import Object, ResourceInfo, Struct

IssuerKind = Literal["Issuer", "ClusterIssuer"]


class IssuerReference(Struct, frozen=True):
    name: str
    kind: str = ""  # Issuer or ClusterIssuer
    group: str = ""


class CertificatePrivateKey(Struct, frozen=True):
    algorithm: str = ""  # RSA, ECDSA or Ed25519
    encoding: str = ""  # PKCS1 or PKCS8
    size: int | None = None  # bits
    rotationPolicy: str = ""  # Never or Always


class X509Subject(Struct, frozen=True):
    organizations: tuple[str, ...] = ()


class CertificateSpec(Struct, frozen=True):
    secretName: str = ""
    issuerRef: IssuerReference | None = None
    commonName: str = ""
    dnsNames: tuple[str, ...] = ()
    ipAddresses: tuple[str, ...] = ()
    duration: str = ""  # Go duration text, see duration.format_duration
    renewBefore: str = ""  # Go duration text
    isCA: bool | None = None
    privateKey: CertificatePrivateKey | None = None
    subject: X509Subject | None = None
    usages: tuple[str, ...] = ()


class CertificateCondition(Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    observedGeneration: int | None = None


class CertificateStatus(Struct, frozen=True):
    conditions: tuple[CertificateCondition, ...] = ()
    notBefore: datetime | None = None
    notAfter: datetime | None = None
    renewalTime: datetime | None = None
    revision: int | None = None


class Certificate(Object, frozen=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "cert-manager.io", "v1", "Certificate", "certificates", "Namespaced"
    )

    spec: CertificateSpec = CertificateSpec()
    status: CertificateStatus = CertificateStatus()


class CertificateRequestSpec(Struct, frozen=True):
    request: bytes = b""  # PEM; base64 on the wire
    issuerRef: IssuerReference | None = None
    duration: str = ""  # Go duration text
    isCA: bool | None = None
    usages: tuple[str, ...] = ()
    # The requester: written by cert-manager's webhook from the request, never by the client.
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class CertificateRequestStatus(Struct, frozen=True):
    conditions: tuple[CertificateCondition, ...] = ()  # Approved, Denied, Ready, InvalidRequest
    certificate: bytes = b""  # PEM; base64 on the wire
    ca: bytes = b""  # PEM; empty where the issuer does not give it
    failureTime: datetime | None = None


class CertificateRequest(Object, frozen=True):
    """One signing of one request; its spec never changes.

    Source: cert-manager, pkg/apis/certmanager/v1/types_certificaterequest.go.
    """

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "cert-manager.io", "v1", "CertificateRequest", "certificaterequests", "Namespaced"
    )

    spec: CertificateRequestSpec = CertificateRequestSpec()
    status: CertificateRequestStatus = CertificateRequestStatus()
