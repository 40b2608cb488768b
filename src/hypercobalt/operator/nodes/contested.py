"""Finds who else holds or lists a host's address or host UUID, for the rule in `api.holders`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.core import Node
from hypercobalt.api.holders import (
    Claim,
    held_address,
    held_uuid,
    holder_of,
    reported_uuid,
    uuid_claim,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import addresses
from hypercobalt.operator.shared.node_names import BY_CLAIM
from hypercobalt.runtime import Cache
from hypercobalt.runtime.write_cache import WriteCache

BY_IDENTITY: Final = "identity"
"""Index of Hypervisors by `identity_of`."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """Other hosts' claims to the values that one host holds or lists.

    Args:
        addresses: claims to its addresses.
        uuids: claims to its host UUIDs.
    """

    addresses: tuple[Claim, ...] = ()
    uuids: tuple[Claim, ...] = ()


def identity_of(hypervisor: Hypervisor) -> Iterable[str]:
    """Index function: the values recorded for a host, and the UUID that it reports."""
    found = (held_address(hypervisor), held_uuid(hypervisor), reported_uuid(hypervisor))
    return frozenset(filter(None, found))


def address_claim(hypervisor: Hypervisor, node: Node | None) -> Claim:
    """Return a host's claim to addresses; without its Node it lists none."""
    stored = hypervisor.status.internalIp
    listed = tuple(addresses(node, stored)) if node is not None else ()
    return Claim(hypervisor.metadata.name, held_address(hypervisor), listed)


class Contested:
    """Finder of contested addresses and UUIDs.

    Args:
        nodes: those that are hypervisors, with the index `BY_CLAIM`.
        informed: Hypervisors, with the index `BY_IDENTITY`.
        hypervisors: the newest state of the same.
    """

    def __init__(
        self,
        nodes: Cache[Node],
        informed: Cache[Hypervisor],
        hypervisors: WriteCache[Hypervisor],
    ) -> None:
        self._nodes, self._informed, self._hypervisors = nodes, informed, hypervisors

    def rivals(self, node: Node, hypervisor: Hypervisor) -> Rivals:
        """Return the claims of other hosts to the values of a host."""
        own, uuid = address_claim(hypervisor, node), uuid_claim(hypervisor)
        name = hypervisor.metadata.name
        return Rivals(
            tuple(one for one in self._to_addresses({own.held, *own.listed}) if one.host != name),
            tuple(one for one in self._to_uuids({uuid.held, *uuid.listed}) if one.host != name),
        )

    def holder(self, address: str) -> str:
        """Return the host that holds an address; "" where none does, or two do."""
        return holder_of(address, self._to_addresses({address}))

    def beside(self, node: Node) -> Iterable[str]:
        """Return names of the other hosts whose Nodes list one of a Node's addresses."""
        return self._listing(node.metadata.name, addresses(node))

    def beside_hypervisor(self, hypervisor: Hypervisor) -> Iterable[str]:
        """Return names of other hosts that list a Hypervisor's held values, or report its UUID."""
        name = hypervisor.metadata.name
        yield from self._listing(name, filter(None, (held_address(hypervisor),)))
        for value in {held_uuid(hypervisor), reported_uuid(hypervisor)} - {""}:
            for one in self._informed.find(BY_IDENTITY, value):
                if one.metadata.name != name:
                    yield one.metadata.name

    def _listing(self, name: str, listed: Iterable[str]) -> Iterable[str]:
        for address in listed:
            for node in self._nodes.find(BY_CLAIM, address):
                if node.metadata.name != name:
                    yield node.metadata.name

    def _to_addresses(self, values: set[str]) -> Iterable[Claim]:
        names = {*self._listing("", values - {""}), *self._identified(values)}
        for one in self._newest(names):
            yield address_claim(one, self._nodes.get(one.metadata.name))

    def _to_uuids(self, values: set[str]) -> Iterable[Claim]:
        return map(uuid_claim, self._newest(self._identified(values)))

    def _identified(self, values: set[str]) -> set[str]:
        found = (self._informed.find(BY_IDENTITY, value) for value in values - {""})
        return {one.metadata.name for some in found for one in some}

    def _newest(self, names: Iterable[str]) -> Iterable[Hypervisor]:
        for name in sorted(names):
            if (found := self._hypervisors.get(name)) is not None:
                yield found


def identity_changed(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """A predicate: the values that a host holds may have become another's."""
    if old is None:
        return False  # each host has its own first pass
    return new is None or identity_of(old) != identity_of(new)


def addresses_changed(old: Node | None, new: Node | None) -> bool:
    """A predicate: the addresses that a Node lists may have become another host's."""
    if old is None:
        return False
    return new is None or [*addresses(old)] != [*addresses(new)]
