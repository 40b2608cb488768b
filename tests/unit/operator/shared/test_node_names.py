"""Which names and addresses of a Node get into its host's certificate."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cost import cpu
from tests.unit.operator.samples import node

from hypercobalt.api.addresses import is_host_address
from hypercobalt.api.core import Node, NodeAddress, NodeStatus
from hypercobalt.operator.shared.node_facts import aggregates, custom_traits, internal_ip
from hypercobalt.operator.shared.node_names import claims, names_of


def made(name: str, *addresses: tuple[str, str]) -> Node:
    plain = node()
    listed = tuple(NodeAddress(type=type_, address=text) for type_, text in addresses)
    meta = replace(plain.metadata, name=name, uid=f"uid-{name}")
    return replace(plain, metadata=meta, status=NodeStatus(addresses=listed))


def among(*nodes: Node) -> object:
    def claimants(text: str) -> Iterable[Node]:
        return [one for one in nodes if text in claims(one)]

    return claimants


@pytest.mark.parametrize(
    "name",
    [
        "*.example.org",
        "*",
        "kvm-b",
        "kvm-b.example.org",
        "registry.example.org",
        "kvm-ab.example.org",
        "kvm-a.*",
        "kvm-a..example.org",
        "kvm-a.example.org\n",
        "kvm-a example.org",
        "kvm-a." + "a" * 64,
        "kvm-a." + ".".join(["a" * 60] * 5),
        "",
    ],
)
def test_name_that_is_not_the_nodes_own_is_left_out(name: str) -> None:
    own = made("kvm-a", ("Hostname", name))

    assert names_of(own, among(own)).dns == ("kvm-a",)  # type: ignore[arg-type]


def test_own_names_and_addresses_are_taken_in_their_one_form() -> None:
    own = made(
        "kvm-a",
        ("Hostname", "KVM-A"),
        ("InternalDNS", "kvm-a.example.org"),
        ("InternalIP", "192.0.2.1"),
        ("ExternalIP", "2001:DB8::1"),
        ("Odd", "192.0.2.9"),
    )

    found = names_of(own, among(own))  # type: ignore[arg-type]

    assert found.dns == ("kvm-a", "kvm-a.example.org")
    assert found.addresses == ("192.0.2.1", "2001:db8::1")


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1/8", "127.0.0.1", "0.0.0.0", "fe80::1", "2001:db8::1%x", "kvm-b", "224.0.0.1"],  # noqa: S104
)
def test_text_that_is_no_address_of_a_host_is_left_out(text: str) -> None:
    own = made("kvm-a", ("InternalIP", text))

    assert names_of(own, among(own)).addresses == ()  # type: ignore[arg-type]


def test_what_two_nodes_may_have_is_in_the_certificate_of_neither() -> None:
    one = made("kvm-a.x", ("InternalIP", "192.0.2.1"), ("InternalDNS", "kvm-a.example.org"))
    other = made(
        "kvm-a.y", ("InternalIP", "::ffff:192.0.2.1"), ("InternalDNS", "kvm-a.example.org")
    )

    for own in (one, other):
        found = names_of(own, among(one, other))  # type: ignore[arg-type]
        assert (found.dns, found.addresses) == ((own.metadata.name,), ())


def test_claim_of_another_node_takes_neither_name_nor_held_address() -> None:
    holder = made("kvm-a", ("InternalIP", "192.0.2.1"), ("InternalDNS", "kvm-a.example.org"))
    other = made("kvm-b", ("InternalIP", "192.0.2.1"), ("InternalDNS", "kvm-a.example.org"))

    def held(address: str) -> str:
        return "kvm-a" if address == "192.0.2.1" else ""

    kept, refused = (
        names_of(own, among(holder, other), held)  # type: ignore[arg-type]
        for own in (holder, other)
    )

    assert (kept.dns, kept.addresses) == (("kvm-a", "kvm-a.example.org"), ("192.0.2.1",))
    assert (refused.dns, refused.addresses) == (("kvm-b",), ())
    assert refused.taken == {"192.0.2.1": "kvm-a"}


HOSTILE = st.text(max_size=400) | st.sampled_from(["*", "10.0.0.1", "kvm-b", "::1", "x" * 100_000])
ADDRESSES = st.lists(st.tuples(st.sampled_from(["Hostname", "InternalIP", "?"]), HOSTILE))


@settings(max_examples=250)
@given(ADDRESSES, st.dictionaries(HOSTILE, HOSTILE, max_size=4))
def test_hostile_node_is_read_in_bounded_time(
    addresses: list[tuple[str, str]], annotations: dict[str, str]
) -> None:
    with cpu() as used:
        plain = made("kvm-a", *addresses * 20)
        hostile = replace(plain, metadata=replace(plain.metadata, annotations=annotations))

        found = names_of(hostile, among(hostile))  # type: ignore[arg-type]
        shown = internal_ip(hostile, None)
        aggregates(hostile)
        custom_traits(hostile)

    assert all(name.partition(".")[0] == "kvm-a" for name in found.dns)
    assert all(is_host_address(address) for address in found.addresses)
    assert shown is None or is_host_address(shown)
    assert used.seconds < 0.5
