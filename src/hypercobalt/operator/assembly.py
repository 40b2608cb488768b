"""Puts the operator's controllers together under one manager, with shared informers.

Nodes and Hypervisors are chosen on the server, by labels; so are Deployments and disruption
budgets. Pods are watched on single Nodes only (`agent_pods`).

Source: openstack-hypervisor-operator, cmd/main.go.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.workloads import Deployment, PodDisruptionBudget
from hypercobalt.errors import ConfigurationError
from hypercobalt.operator import certificates, gardener, hypervisor, ready, taint
from hypercobalt.operator.agent_pods import AgentPods
from hypercobalt.operator.certificates import Issuing
from hypercobalt.operator.newest import Newest
from hypercobalt.operator.node_facts import COPIED_LABELS, HYPERVISOR_LABEL
from hypercobalt.runtime import (
    Controller,
    Informer,
    Manager,
    Metrics,
    generation_changed,
    owned,
    primary,
    tasks,
)
from hypercobalt.runtime.client.requests import Selection

WORKERS: Final = 8
"""Passes of one controller at once: they wait for the API server, which has 16 connections."""

REPORTER: Final = "kvm.cloud.sap/hypervisor-operator"
"""Who the Events are from."""

_LEASE: Final = "4c28796a"
_LEASE_DOMAIN: Final = ".cloud.sap"

_REQUIREMENT: Final = re.compile(
    r"\s*!?\s*([A-Za-z0-9][A-Za-z0-9_./-]*)\s*"
    r"((==|=|!=)\s*[A-Za-z0-9_.-]*\s*|\s(in|notin)\s*\([A-Za-z0-9_.,\s-]*\)\s*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What a site says.

    Args:
        agent_namespaces: where the agents' pods live; at least one.
        issuing: where the hosts' certificates come from.
        signal_image: of the pod that holds a Node for Gardener.
        label_selector: restricts Nodes and Hypervisors to a shard; "" takes all.
    """

    agent_namespaces: tuple[str, ...]
    issuing: Issuing
    signal_image: str = gardener.IMAGE
    label_selector: str = ""


def lease_name(label_selector: str) -> str:
    """The lease of the shard: shards elect their leaders independently."""
    if not label_selector:
        return f"{_LEASE}{_LEASE_DOMAIN}"
    whole = f"{_LEASE}{_LEASE_DOMAIN}{label_selector}"
    return f"{hashlib.sha256(whole.encode()).hexdigest()}{_LEASE_DOMAIN}"


def copied_labels(label_selector: str) -> tuple[str, ...]:
    """Keys of the labels that a Hypervisor has from its Node: those that choose it belong to them.

    Args:
        label_selector: as Kubernetes reads one: `a=b,c!=d,e in (f,g),!h`.

    Raises:
        ConfigurationError: it is none.
    """
    keys: list[str] = []
    for part in re.split(r",(?![^(]*\))", label_selector) if label_selector else ():
        found = _REQUIREMENT.fullmatch(part)
        if found is None:
            raise ConfigurationError(
                f"--label-selector {label_selector!r}: {part!r} must look like zone=a, zone!=a, "
                "zone in (a,b), zone or !zone"
            )
        keys.append(found[1])
    return tuple(dict.fromkeys((*COPIED_LABELS, *keys)))


def add_controllers(manager: Manager, options: Options, metrics: Metrics) -> None:
    """Add every controller and what it watches."""
    chosen = ",".join(part for part in (HYPERVISOR_LABEL, options.label_selector) if part)
    nodes = manager.informer(Node, labels=chosen)
    informer = manager.informer(Hypervisor, labels=options.label_selector)
    hypervisors = Newest(informer)
    kube, clock = manager.kube, manager.clock
    pods = AgentPods(manager.kube, options.agent_namespaces, metrics)
    manager.add_service("agent-pods", pods.run)
    manager.add(
        Controller(
            hypervisor.NAME,
            hypervisor.HypervisorReconciler(
                kube,
                nodes.cache,
                hypervisors,
                pods,
                copied=copied_labels(options.label_selector),
                clock=clock,
                events=manager.recorder(REPORTER),
            ),
            watches=(primary(nodes), primary(informer), pods.watch),
            concurrency=WORKERS,
        )
    )
    manager.add(
        Controller(
            ready.NAME,
            ready.ReadyReconciler(kube, hypervisors, clock=clock),
            watches=(primary(informer, when=ready.worth_a_pass),),
            concurrency=WORKERS,
        )
    )
    manager.add(
        Controller(
            taint.NAME,
            taint.TaintReconciler(kube, hypervisors, clock=clock),
            watches=(primary(informer, when=generation_changed),),
            concurrency=WORKERS,
        )
    )
    budgets = manager.informer(PodDisruptionBudget, gardener.NAMESPACE, labels=gardener.LABEL)
    deployments = manager.informer(Deployment, gardener.NAMESPACE, labels=gardener.LABEL)
    manager.add(
        Controller(
            gardener.NAME,
            gardener.GardenerReconciler(
                kube,
                nodes.cache,
                hypervisors,
                Newest(budgets),
                Newest(deployments),
                image=options.signal_image,
            ),
            watches=(
                primary(nodes),
                primary(informer, when=gardener.worth_a_pass),
                owned(budgets, Node, when=generation_changed),
                owned(deployments, Node, when=generation_changed),
            ),
            concurrency=WORKERS,
        )
    )
    _add_certificates(manager, options.issuing, nodes, metrics)


def _add_certificates(
    manager: Manager, issuing: Issuing, nodes: Informer[Node], metrics: Metrics
) -> None:
    """Add the controller of certificates; a cluster without cert-manager holds up this one only."""
    selection = Selection(Certificate, issuing.namespace)
    informer = Informer(manager.kube, selection, metrics=metrics)

    async def follow(stop: asyncio.Event) -> None:
        await tasks.first(informer.run(), stop.wait())

    manager.add_service("certificates", follow)
    newest = Newest(informer)
    manager.add(
        Controller(
            certificates.NAME,
            certificates.CertificateReconciler(manager.kube, nodes.cache, newest, issuing),
            watches=(primary(nodes), owned(informer, Node)),
            concurrency=WORKERS,
        )
    )
