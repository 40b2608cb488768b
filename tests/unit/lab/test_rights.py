"""The rights of the lab's processes, as they are written."""

from __future__ import annotations

from importlib import resources

import yaml

from hypercobalt.api.codec import to_builtins
from hypercobalt.api.core import Node
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding, ServiceAccount
from hypercobalt.lab import rights


def test_every_right_of_a_chart_is_in_the_lab() -> None:
    text = (resources.files("hypercobalt.lab") / rights.DATA).read_text(encoding="utf-8")
    given = {(one["kind"], str(one["metadata"])): one for one in yaml.safe_load_all(text)}
    written = [to_builtins(one) for one in rights.of_charts()]
    assert {(one["kind"], str(one["metadata"])): one for one in written} == given


def test_every_account_that_gets_a_token_is_bound() -> None:
    objects = rights.of_charts()
    accounts = {one.metadata.name for one in objects if isinstance(one, ServiceAccount)}
    assert accounts == {rights.NODE_AGENT, rights.OVS_AGENT, rights.OPERATOR}
    bindings = [one for one in objects if isinstance(one, ClusterRoleBinding | RoleBinding)]
    subjects = {(s.kind, s.name, s.namespace) for one in bindings for s in one.subjects}
    namespaces = {rights.OVS_AGENT: rights.OVS_NAMESPACE}
    assert subjects == {
        ("ServiceAccount", name, namespaces.get(name, rights.NAMESPACE)) for name in accounts
    }


def test_no_role_has_every_verb() -> None:
    roles = [one for one in rights.of_charts() if isinstance(one, ClusterRole | Role)]
    assert roles
    assert not [r for one in roles for r in one.rules if "*" in (*r.verbs, *r.resources)]


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
