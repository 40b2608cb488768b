"""cert-manager's kinds, which others define."""

from __future__ import annotations

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
