"""Assembles the operator's parts for the stored definitions of hosts' domains."""

from __future__ import annotations

from hypercobalt.compute.connect import ReadDefinitions
from hypercobalt.operator.definitions.keys import DefinitionsKeys
from hypercobalt.operator.definitions.publishing import (
    NAME,
    DefinitionsKeyReconciler,
    KeyFollower,
    worth_a_pass,
)
from hypercobalt.operator.definitions.reader import DefinitionsReader
from hypercobalt.operator.definitions.starts import RecordedStarts
from hypercobalt.operator.shared.hypervisors import Shared
from hypercobalt.runtime import Controller, Manager, primary


def add_definitions(
    manager: Manager, shared: Shared, secret: str, namespaces: tuple[str, ...]
) -> ReadDefinitions:
    """Add the controller that publishes the key, and return the reader of a host's definitions.

    Args:
        manager: runs it.
        shared: with the other controllers.
        secret: with the operator's keys, in its own namespace.
        namespaces: where agents keep theirs.
    """
    kube, hypervisors = manager.kube, shared.hypervisors
    keys = DefinitionsKeys(kube, secret, kube.namespace)
    follower = KeyFollower(keys, shared.informer.cache.keys)
    manager.add_service("definitions-key", follower.run, leader_only=True)
    manager.add_check("definitions-key", follower.problem, readiness=True)
    manager.add(
        Controller(
            NAME,
            DefinitionsKeyReconciler(keys, hypervisors, shared.statuses),
            watches=(primary(shared.informer, when=worth_a_pass), follower.source.watch),
        )
    )
    starts = RecordedStarts(kube, hypervisors)
    return DefinitionsReader(kube, namespaces, keys.read, hypervisors.get, starts)
