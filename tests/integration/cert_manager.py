"""cert-manager's kinds, which others define."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec

from hypercobalt.api.certificate import (
    CertificateRequest,
    CertificateRequestSpec,
    IssuerReference,
)
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import AGENT, LIFETIME, MANAGED_BY, USAGES, HostNames
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.signing_request import write
from tests.conformance.wire import Body


def definition(kind: str, plural: str) -> Body:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io",
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }


CERT_MANAGER: Body = definition("Certificate", "certificates")
CERTIFICATE_REQUESTS: Body = definition("CertificateRequest", "certificaterequests")


def request_of_agent(
    node: str,
    *addresses: str,
    name: str | None = None,
    names: str | None = None,
    issuer: str = "nova-hypervisor-agents-ca-issuer",
    key: ec.EllipticCurvePrivateKey | None = None,
) -> CertificateRequest:
    """The request of an agent as cert-manager's webhook stores it: with the requester.

    Args:
        node: of the agent's pod.
        addresses: of the certificate.
        name: of the object.
        names: the DNS name of the certificate; else the Node's.
        issuer: of the certificate.
        key: that it is for; a new one without.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    return CertificateRequest(
        metadata=ObjectMeta(
            name=name or f"libvirt-{node}-0123456789",
            namespace="monsoon3",
            labels={MANAGED_BY: AGENT},
        ),
        spec=CertificateRequestSpec(
            request=write(HostNames(names or node, addresses), key),
            issuerRef=IssuerReference(issuer, "Issuer", "cert-manager.io"),
            duration=format_duration(LIFETIME),
            isCA=False,
            usages=USAGES,
            username="system:serviceaccount:agents:node-agent",
            extra={"authentication.kubernetes.io/node-name": (node,)},
        ),
    )
