"""Requests and installs libvirt's certificate, for a key that is made on the host.

Agents read no Secret: see docs/decisions/0048-agents-have-no-verb-on-secrets.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.agent.certificates.install import Installer
from hypercobalt.agent.certificates.request import RequestSettings, Wanted
from hypercobalt.agent.certificates.requester import RequestedCertificate
from hypercobalt.api.certificate import IssuerReference
from hypercobalt.api.host_certificate import AGENT, HostNames
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Clock, Kube
from hypercobalt.runtime.write_cache import Latest

RESYNC: Final = timedelta(minutes=5)
"""Time between checks of the files in place, and between attempts after a failure."""


def requested(
    settings: NodeAgentSettings,
    kube: Kube,
    installer: Installer,
    hypervisor: Latest[Hypervisor],
    *,
    clock: Clock,
    resync: timedelta = RESYNC,
) -> RequestedCertificate[Hypervisor]:
    """The concern that requests a certificate for a key made on this host."""
    issuer = IssuerReference(settings.issuer, settings.issuer_kind, "cert-manager.io")

    def wanted(own: Hypervisor) -> Wanted | None:
        if own.spec.installCertificate is False:
            return None
        return Wanted(names_of(settings, own.status.internalIp), issuer)

    return RequestedCertificate(
        RequestSettings(f"libvirt-{settings.node}", settings.namespace, AGENT, settings.ca),
        kube,
        installer,
        own=hypervisor,
        wanted=wanted,
        clock=clock,
        resync=resync,
    )


def names_of(settings: NodeAgentSettings, internal_ip: str | None) -> HostNames:
    """The names and addresses that the host's certificate is for."""
    return HostNames.of(settings.node, (*settings.addresses, internal_ip or ""))
