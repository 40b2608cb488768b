"""The rights of the lab's processes, as they are written."""

from __future__ import annotations

import re

import pytest

from hypercobalt.api.admission import ValidatingAdmissionPolicy
from hypercobalt.api.codec import to_builtins
from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.rbac import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    ServiceAccount,
)
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.apiserver.schema.library import FUNCTIONS
from hypercobalt.lab import rights

both = pytest.mark.parametrize("compute", ["nova", "direct"])


@both
def test_every_right_of_a_chart_is_in_the_lab(compute: rights.Compute) -> None:
    given = {rights.key(one): one for one in rights.manifests(compute)}
    written = [to_builtins(one) for one in rights.of_charts(compute)]
    assert {rights.key(one): one for one in written} == given


@both
def test_every_account_that_gets_a_token_is_bound(compute: rights.Compute) -> None:
    objects = rights.of_charts(compute)
    accounts = {one.metadata.name for one in objects if isinstance(one, ServiceAccount)}
    assert accounts == {rights.NODE_AGENT, rights.OVS_AGENT, rights.OPERATOR}
    bindings = [one for one in objects if isinstance(one, ClusterRoleBinding | RoleBinding)]
    subjects = {(s.kind, s.name, s.namespace) for one in bindings for s in one.subjects}
    namespaces = {rights.OVS_AGENT: rights.OVS_NAMESPACE}
    assert subjects == {
        ("ServiceAccount", name, namespaces.get(name, rights.NAMESPACE)) for name in accounts
    }


@both
def test_no_role_has_every_verb(compute: rights.Compute) -> None:
    rules = _rules(compute)
    assert rules
    assert not [rule for rule in rules if "*" in (*rule.verbs, *rule.resources)]


def test_operator_on_nova_and_its_agents_have_no_right_to_definitions() -> None:
    definitions = SealedDefinitions.resource.plural
    assert not [rule for rule in _rules("nova") if definitions in rule.resources]
    assert [rule for rule in _rules("direct") if definitions in rule.resources]


@both
def test_policies_call_no_function_whose_values_the_engine_never_frees(
    compute: rights.Compute,
) -> None:
    """But for `substring`, of the names of Nodes: a client cannot have them grow."""
    names = "|".join({function.name for function in FUNCTIONS} - {"substring"})
    called = re.compile(rf"\b({names})\(")
    policies = [
        one for one in rights.of_charts(compute) if isinstance(one, ValidatingAdmissionPolicy)
    ]
    assert policies
    assert called.search("variables.sizes.sum()")
    for policy in policies:
        expressions = [variable.expression for variable in policy.spec.variables]
        expressions += [validation.expression for validation in policy.spec.validations]
        assert [one for one in expressions if called.search(one)] == []


def _rules(compute: rights.Compute) -> list[PolicyRule]:
    roles = [one for one in rights.of_charts(compute) if isinstance(one, ClusterRole | Role)]
    return [rule for one in roles for rule in one.rules]


def test_a_heartbeat_may_touch_nothing_but_its_own_node_and_lease() -> None:
    node = Node(metadata=ObjectMeta(name="kvm-2", uid="u"))
    objects = rights.of_heartbeat(node)
    rules = [rule for one in objects if isinstance(one, ClusterRole | Role) for rule in one.rules]
    assert {(rule.resources, rule.verbs, rule.resourceNames) for rule in rules} == {
        (("nodes",), ("get",), ("kvm-2",)),
        (("nodes/status",), ("patch",), ("kvm-2",)),
        (("leases",), ("patch",), ("kvm-2",)),
    }
    users = {
        subject.name
        for one in objects
        if isinstance(one, ClusterRoleBinding | RoleBinding)
        for subject in one.subjects
    }
    assert users == {"system:node:kvm-2"}
    assert {one.metadata.ownerReferences[0].uid for one in objects} == {"u"}
