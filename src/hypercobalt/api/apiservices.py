"""Where an API server finds the server of a group that it does not serve itself.

Only fields that we use are here.

Source: k8s.io/kube-aggregator, pkg/apis/apiregistration/v1 types.go.
"""

from __future__ import annotations

from typing import ClassVar

from hypercobalt.api.meta import Object, ResourceInfo, Struct


class APIServiceSpec(Struct, frozen=True):
    caBundle: bytes | None = None  # PEM; base64 on the wire


class APIService(Object, frozen=True):
    """One version of a group."""

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "apiregistration.k8s.io", "v1", "APIService", "apiservices", "Cluster"
    )

    spec: APIServiceSpec = APIServiceSpec()
