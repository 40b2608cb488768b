"""`Tainted`: whether the Hypervisor was edited by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, hypervisor

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ManagedFieldsEntry
from hypercobalt.operator.nodes.taint import condition, is_judged


def written_by(*managers: str) -> Hypervisor:
    entries = tuple(ManagedFieldsEntry(manager=name) for name in managers)
    plain = hypervisor()
    return replace(plain, metadata=replace(plain.metadata, managedFields=entries))


@pytest.mark.parametrize(
    ("managers", "shown"),
    [
        ((), ("False", "NoKubectl", "🟢")),
        (("hypervisor", "kvm-node-agent"), ("False", "NoKubectl", "🟢")),
        (("hypervisor", "kubectl-edit"), ("True", "Kubectl", "⚠️")),
        (("kubectl",), ("True", "Kubectl", "⚠️")),
        (("not-kubectl",), ("False", "NoKubectl", "🟢")),
    ],
)
def test_condition_tainted_follows_from_the_field_managers(
    managers: tuple[str, ...], shown: tuple[str, str, str]
) -> None:
    found = condition(written_by(*managers), NOW)
    assert (found.status, found.reason, found.message) == shown
    assert found.observedGeneration == 3


def test_each_generation_is_judged_once() -> None:
    given = written_by("kubectl-edit")
    assert not is_judged(given)
    judged = replace(given, status=HypervisorStatus(conditions=(condition(given, NOW),)))
    assert is_judged(judged)
    edited = replace(judged, metadata=replace(judged.metadata, generation=4))
    assert not is_judged(edited)
