from __future__ import annotations

import pytest

from hypercobalt.compute.nova.names import NameIndex


@pytest.mark.parametrize(
    ("name", "hosts", "found"),
    [
        ("node1", ["node1", "node10", "anode1"], ("node1",)),
        ("node1", ["node10"], ()),
        ("node1.zone.example", ["node1", "node10"], ("node1",)),
        ("node1", ["node1.zone.example", "node10.zone.example"], ("node1.zone.example",)),
        ("node1.a", ["node1.b"], ()),
        ("node1.a", ["node1.a", "node1"], ("node1.a",)),
        ("node1", ["node1", "node1.a"], ("node1",)),
        ("node1", ["node1.a", "node1.b"], ("node1.a", "node1.b")),
        ("node1", [], ()),
    ],
)
def test_search_by_name_finds_only_the_host_of_that_name(
    name: str, hosts: list[str], found: tuple[str, ...]
) -> None:
    assert NameIndex((host, (host,)) for host in hosts).best(name) == found


def test_the_name_of_the_hypervisor_counts_as_that_of_the_service() -> None:
    names = [("a", ("node1", "node1.zone.example")), ("b", ("node10", "node10.zone.example"))]
    assert NameIndex(names).best("node1.zone.example") == ("a",)
