"""A second kind of agent on the common frame: it reports the bridges of a switch in an OVSNode.

usage: python -m tests.integration.agent.switch_agent SETTINGS
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

from hypercobalt.agent import board
from hypercobalt.agent.applier import Applier, Report
from hypercobalt.agent.certificates.files import CA, CERTIFICATE, KEY, Layout
from hypercobalt.agent.certificates.install import Installer
from hypercobalt.agent.certificates.request import RequestSettings, Wanted
from hypercobalt.agent.certificates.requester import RequestedCertificate
from hypercobalt.agent.process import Agent, managed
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.agent.status import conditions
from hypercobalt.api.certificate import IssuerReference
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.host_certificate import HostNames
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import Bridge, NodeReference, OVSNode, OVSNodeSpec, OVSNodeStatus
from hypercobalt.runtime import AlreadyExistsError, Manager, load_connection
from hypercobalt.runtime.process import main
from hypercobalt.runtime.write_cache import Latest

NAME = "ovs-agent"
OWN = ("AllBridgesHealthy", "CertificateInstalled")


@dataclass(frozen=True, slots=True)
class Settings(AgentSettings):
    """Args: bridges: the switch's; none: it does not answer."""

    pki: Path
    _: KW_ONLY
    bridges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts(board.Parts):
    bridges: tuple[str, ...] | None = None


def report(settings: Settings, own: Collection[str]) -> Report[OVSNode, Parts, OVSNodeStatus]:
    def compose(parts: Parts, stored: OVSNode, kept: OVSNodeStatus) -> OVSNodeStatus:
        known = parts.bridges
        return OVSNodeStatus(
            bridges=kept.bridges if known is None else tuple(Bridge(name=one) for one in known),
            conditions=conditions(
                parts.conditions, stored.status.conditions, own, stored.metadata.generation
            ),
        )

    def carrying(status: OVSNodeStatus) -> OVSNode:
        mine = new_object(settings)
        return OVSNode(metadata=mine.metadata, spec=mine.spec, status=status)

    return Report(NAME, ("bridges",), lambda found: found.status, carrying, compose)


def new_object(settings: Settings) -> OVSNode:
    return OVSNode(
        metadata=ObjectMeta(name=settings.node, namespace=settings.namespace),
        spec=OVSNodeSpec(nodeRef=NodeReference(name=settings.node)),
    )


def layout(root: Path) -> Layout:
    files = {CA: ("ca.pem",), CERTIFICATE: ("tls.pem",), KEY: ("private/key.pem",)}
    private = frozenset({"private"})
    return Layout(root, files, {}, private, mark=".loaded", pending="private/.pending.json")


def register(settings: Settings, manager: Manager) -> None:
    kube, made = manager.kube, board.Board(manager.clock, Parts())
    informer = manager.informer(
        OVSNode, settings.namespace, fields=f"metadata.name={settings.node}"
    )
    own = Latest(informer)
    agent = Agent(NAME, settings, manager, lambda: own.value)

    async def observe() -> None:
        if settings.bridges:
            made.put(replace(made.parts, bridges=settings.bridges))
            made.put_condition("AllBridgesHealthy", ConditionStatus.TRUE, "AllActive")
        else:
            made.put_condition("AllBridgesHealthy", ConditionStatus.UNKNOWN, "NoAnswer")

    async def ensure() -> None:
        await informer.wait_synced()
        if own.value is None:
            with suppress(AlreadyExistsError):
                await kube.create(new_object(settings))

    async def load() -> None:
        """Load no files."""

    def wanted(found: OVSNode) -> Wanted:
        issuer = IssuerReference("ovs-ca", "Issuer", "cert-manager.io")
        return Wanted(HostNames.of(found.spec.nodeRef.name, ()), issuer)

    applier = Applier(kube, report(settings, OWN), made, informer)
    installer = Installer(layout(settings.pki), load, made, "CertificateInstalled")
    request = RequestSettings(f"ovs-{settings.node}", settings.namespace, NAME)
    certificate = RequestedCertificate(
        request, kube, installer, own=own, wanted=wanted, clock=manager.clock
    )
    agent.observe("switch", observe)
    agent.act("object", ensure)
    agent.act("status", applier.run)
    agent.act("certificate", certificate.run)
    manager.add_check("status", lambda: applier.refusal, readiness=True)


async def run(settings: Settings) -> None:
    async with managed(settings, load_connection(settings.kubeconfig), NAME) as manager:
        register(settings, manager)
        await manager.run()


if __name__ == "__main__":
    sys.exit(main(Settings, run))
