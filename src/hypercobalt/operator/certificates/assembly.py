"""Puts the controllers of the hosts' certificates together, each held up without cert-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

from hypercobalt.api.certificate import Certificate, CertificateRequest
from hypercobalt.api.core import Node
from hypercobalt.api.host_certificate import AGENT, MANAGED_BY
from hypercobalt.api.meta import Object
from hypercobalt.operator.certificates import approval
from hypercobalt.operator.certificates.approval import requester_node
from hypercobalt.operator.certificates.issuing import NAME, CertificateReconciler
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.operator.shared.node_names import Holder
from hypercobalt.runtime import (
    Controller,
    Informer,
    Manager,
    Metrics,
    key_of,
    mapped,
    owned,
    primary,
    tasks,
)
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.precedence import Precedence
from hypercobalt.runtime.write_cache import WriteCache

T = TypeVar("T", bound=Object)


def add_certificates(
    manager: Manager,
    issuing: Issuing,
    nodes: Informer[Node],
    creation: Precedence,
    metrics: Metrics,
    *,
    holder: Holder,
) -> None:
    """Add the controller of certificates; a cluster without cert-manager holds up this one only."""
    selection = Selection(Certificate, issuing.namespace)
    informer = Informer(manager.kube, selection, metrics=metrics)
    _follow(manager, "certificates", informer)
    newest = WriteCache(informer)
    manager.add(
        Controller(
            NAME,
            CertificateReconciler(manager.kube, nodes.cache, newest, issuing, holder),
            watches=(primary(nodes), owned(informer, Node)),
            yields_to=creation,
        )
    )


def add_approval(
    manager: Manager,
    issuing: Issuing,
    agent_namespaces: tuple[str, ...],
    shared: Shared,
    metrics: Metrics,
    *,
    holder: Holder,
) -> None:
    """Add the approver of the agents' requests, held up without cert-manager as those above."""
    agents = f"{MANAGED_BY}={AGENT}"
    informer = Informer(
        manager.kube,
        Selection(CertificateRequest, issuing.namespace, agents),
        metrics=metrics,
        share=False,  # they are few, and gone within the hour
        indexes={approval.BY_REQUESTER: lambda it: (requester_node(it),)},
    )
    _follow(manager, "certificate-requests", informer)

    def requests_of(host: Object) -> Iterable[str]:
        found = informer.cache.find(approval.BY_REQUESTER, host.metadata.name)
        return map(key_of, found)

    manager.add(
        Controller(
            approval.NAME,
            approval.ApprovalReconciler(
                manager.kube,
                shared.nodes.cache,
                WriteCache(informer),
                issuing,
                agent_namespaces,
                hypervisors=shared.hypervisors,
                events=shared.events,
                holder=holder,
                clock=manager.clock,
            ),
            watches=(
                primary(informer),
                mapped(shared.nodes, requests_of, when=lambda old, _: old is None),
                mapped(shared.informer, requests_of, when=lambda old, _: old is None),
            ),
        )
    )


def _follow(manager: Manager, name: str, informer: Informer[T]) -> None:
    """Run an informer of a kind that the cluster need not have."""

    async def follow(stop: asyncio.Event) -> None:
        await tasks.first(informer.run(), stop.wait())

    manager.add_service(name, follow)
