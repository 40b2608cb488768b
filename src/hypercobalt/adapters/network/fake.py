"""Networks of pods and NICs of guests that live in memory, for tests."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

from hypercobalt.adapters.network import bridging, masquerade
from hypercobalt.adapters.network.addressing import (
    NAMESPACES,
    PodRange,
    check_uid,
    choose_address,
)
from hypercobalt.adapters.network.bridging import PodIdentity
from hypercobalt.adapters.network.guest_links import ETH0
from hypercobalt.adapters.network.model import Link, NetworkError
from hypercobalt.adapters.network.namespaces import namespace_file
from hypercobalt.adapters.network.port import Attached, GuestBinding, GuestNic, WantedNic


class FakePodNetworks:
    """Networks of pods that are names.

    Args:
        pods: what they get.

    Attributes:
        error: that every call raises; None for none.
    """

    def __init__(self, pods: PodRange) -> None:
        self._pods = pods
        self._addresses: dict[str, IPv4Address] = {}
        self.error: NetworkError | None = None

    async def attach(self, uid: str) -> Attached:
        self._check(uid)
        if uid not in self._addresses:
            taken = set(self._addresses.values())
            self._addresses[uid] = choose_address(self._pods.network, uid, taken).ip
        return self._attached(uid)

    async def find(self, uid: str) -> Attached | None:
        self._check(uid)
        return self._attached(uid) if uid in self._addresses else None

    async def detach(self, uid: str) -> None:
        self._check(uid)
        self._addresses.pop(uid, None)

    async def uids(self) -> frozenset[str]:
        if self.error:
            raise self.error
        return frozenset(self._addresses)

    def _attached(self, uid: str) -> Attached:
        return Attached(namespace_file(NAMESPACES + uid), str(self._addresses[uid]))

    def _check(self, uid: str) -> None:
        check_uid(uid)
        if self.error:
            raise self.error


class FakeGuestNics:
    """NICs of guests in pods that are set.

    Attributes:
        pods: what the NIC of a pod has, by the file of its namespace.
        connected: what was wanted last, by the same.
        error: that every call raises; None for none.
    """

    def __init__(self) -> None:
        self.pods: dict[Path, PodIdentity] = {}
        self.connected: dict[Path, WantedNic] = {}
        self.error: NetworkError | None = None

    async def connect(self, namespace: Path, wanted: WantedNic) -> GuestNic:
        if self.error:
            raise self.error
        if namespace not in self.pods:
            raise NetworkError(f"link {ETH0}: the pod has none with an address of IPv4")
        self.connected[namespace] = wanted
        pod = self.pods[namespace]
        if wanted.binding is GuestBinding.BRIDGE:
            return bridging.guest_nic(pod)
        return masquerade.nic({ETH0: Link(name=ETH0, mtu=pod.mtu, addresses=(pod.address,))})
