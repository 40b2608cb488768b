"""A certificate for libvirt on every hypervisor: a cert-manager Certificate for each Node.

It is applied only when it is not as it should be, so an idle operator writes nothing. A Certificate
that a node agent made for itself is left to that agent: two writers would fight. Where keys are
made on the hosts there are no Certificates (`approval`); older ones stay, for a person to delete.

Source: openstack-hypervisor-operator, internal/controller/node_certificate_controller.go.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.certificate import (
    Certificate,
    CertificatePrivateKey,
    CertificateSpec,
    X509Subject,
)
from hypercobalt.api.core import Node
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import AGENT, MANAGED_BY
from hypercobalt.api.meta import ObjectMeta, owner_reference
from hypercobalt.logs import get_logger
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.shared.node_names import BY_CLAIM, Holder, NodeNames, names_of
from hypercobalt.runtime import Cache, Kube, Result
from hypercobalt.runtime.subset import is_within
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "certificate"

DURATION: Final = timedelta(days=47)
RENEW_BEFORE: Final = timedelta(days=37)
USAGES: Final = ("server auth", "client auth", "digital signature", "key encipherment")
"""What a leaf certificate may be used for; signing others is not among it."""


def decide(node: Node, names: NodeNames, issuing: Issuing) -> Certificate:
    """Return the Certificate that a Node should have.

    Args:
        node: as read.
        names: its own.
        issuing: where it comes from.
    """
    name = node.metadata.name
    return Certificate(
        metadata=ObjectMeta(
            name=f"libvirt-{name}",
            namespace=issuing.namespace,
            ownerReferences=(owner_reference(node, controller=True, blocks=True),),
        ),
        spec=CertificateSpec(
            secretName=f"tls-libvirt-{name}",
            issuerRef=issuing.reference,
            commonName=name,
            subject=X509Subject(organizations=("nova",)),
            dnsNames=names.dns,
            ipAddresses=names.addresses,
            duration=format_duration(DURATION),
            renewBefore=format_duration(RENEW_BEFORE),
            privateKey=CertificatePrivateKey(algorithm="RSA", encoding="PKCS1", size=4096),
            usages=USAGES,
        ),
    )


def is_the_agents(certificate: Certificate) -> bool:
    """Whether the node agent made the Certificate, and keeps it."""
    return certificate.metadata.labels.get(MANAGED_BY) == AGENT


class CertificateReconciler:
    """The shell around `decide`."""

    def __init__(
        self,
        kube: Kube,
        nodes: Cache[Node],
        certificates: WriteCache[Certificate],
        issuing: Issuing,
        holder: Holder,
    ) -> None:
        self._kube, self._issuing = kube.as_manager(NAME), issuing
        self._nodes, self._certificates, self._holder = nodes, certificates, holder

    async def reconcile(self, name: str, /) -> Result:
        node = self._nodes.get(name)
        if node is None or node.metadata.deletionTimestamp is not None:
            return Result()
        names = names_of(node, lambda claimed: self._nodes.find(BY_CLAIM, claimed), self._holder)
        wanted = decide(node, names, self._issuing)
        stored = self._certificates.get(wanted.metadata.name, self._issuing.namespace)
        if stored is not None and (is_the_agents(stored) or is_within(wanted, stored, key="uid")):
            return Result()
        log.info("applying_certificate", certificate=wanted.metadata.name, node=name)
        self._certificates.added(await self._kube.apply(wanted, force=True))
        return Result()
