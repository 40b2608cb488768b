"""Names of Nodes and namespaces."""

from __future__ import annotations

import pytest

from hypercobalt.api.names import namespace_name, node_name
from hypercobalt.errors import ConfigurationError


@pytest.mark.parametrize("name", ["a", "kvm-1", "kvm-1.az1.example.com", "1", "a" * 253])
def test_a_name_that_a_node_may_have_is_taken(name: str) -> None:
    assert node_name("--node", name) == name


@pytest.mark.parametrize(
    "name", ["", "KVM-1", "kvm_1", "kvm/1", "-a", "a-", "a..b", ".a", "a\n", "ä", "a" * 254]
)
def test_another_name_of_a_node_is_refused_with_its_flag(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--node '.*': must be the name of a Node"):
        node_name("--node", name)


@pytest.mark.parametrize(
    ("name", "taken"), [("kvm-agents", True), ("a.b", False), ("a" * 64, False)]
)
def test_a_namespace_has_no_dots_and_63_characters(name: str, *, taken: bool) -> None:
    if taken:
        assert namespace_name("--namespace", name) == name
        return
    with pytest.raises(ConfigurationError, match="at most 63 characters"):
        namespace_name("--namespace", name)
