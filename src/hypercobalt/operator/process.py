"""The operator's process: its settings, passed on by the command line, and its start."""

from __future__ import annotations

import os
from importlib.metadata import version

from prometheus_client import CollectorRegistry

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.connect import connect_direct, connect_nova
from hypercobalt.operator.assembly import Connect, add_controllers
from hypercobalt.operator.election import election
from hypercobalt.operator.ha.contract import AUDIENCE, add_contract
from hypercobalt.operator.settings import COMPONENT, OperatorSettings
from hypercobalt.runtime import load_connection
from hypercobalt.runtime.guard import guard
from hypercobalt.runtime.process import managed


async def run(settings: OperatorSettings) -> None:
    """Run the operator until it has to stop.

    Raises:
        ConfigurationError: the account, the kubeconfig or an address cannot be used.
    """
    options = settings.options
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    candidate = (
        election(options.label_selector, connection.namespace) if settings.leader_elect else None
    )
    async with managed(settings, connection, agent, election=candidate) as manager:
        metrics = manager.metrics
        add_controllers(manager, options, metrics, _connect(settings, metrics.registry))
        if settings.contract is not None:
            kube, listen = manager.client, settings.contract
            hypervisors = manager.informer(Hypervisor, labels=options.label_selector)
            certificate = settings.contract_files or settings.contract_certificate
            admitted = guard(kube, AUDIENCE, certificate) if settings.contract_secure else None
            add_contract(manager, kube, hypervisors, listen, admitted)
        await manager.run()


def _connect(settings: OperatorSettings, registry: CollectorRegistry) -> Connect | None:
    """Return the factory of the chosen compute service, called with the Hypervisors; None for none.

    Calling it raises `ConfigurationError` if it cannot be made of settings and environment.
    """
    if settings.compute == "direct":
        return lambda hypervisors, guard, definitions: connect_direct(
            hypervisors, registry, settings.direct, guard, definitions
        )
    if settings.compute == "none":
        return None
    return lambda _, guard, __: connect_nova(os.environ, registry, settings.nova, guard)
