"""The real `PodNetworks`: a veth pair for each pod, between its namespace and a bridge of the host.

The kernel is the only record: the host's end of a pair has the pod's UID and address as its alias,
before the address is used.

Source: veth(4), ip-netns(8); the CNI plugins `bridge` and `host-local` for the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hypercobalt.adapters.network.addressing import (
    NAMESPACES,
    PodRange,
    PodRecord,
    check_uid,
    choose_address,
    decode_record,
    host_link,
)
from hypercobalt.adapters.network.changes import link_changes
from hypercobalt.adapters.network.commands import change_ip, set_kernel
from hypercobalt.adapters.network.guest_links import ETH0
from hypercobalt.adapters.network.model import Link, NetworkError, WantedLink
from hypercobalt.adapters.network.namespaces import (
    is_namespace,
    make_namespace,
    named,
    namespace_file,
    remove_namespace,
)
from hypercobalt.adapters.network.port import Attached
from hypercobalt.adapters.network.reading import read_links

_VETH: Final = "veth"


class KernelPodNetworks:
    """Networks of the pods of this host; see `hypercobalt.adapters.network.port.PodNetworks`.

    Args:
        pods: what they get; one process at a time gives addresses of it.
        host: file of the host's network namespace; None: that of this process.
    """

    def __init__(self, pods: PodRange, host: Path | None = None) -> None:
        self._pods, self._host = pods, host
        self._lock = asyncio.Lock()  # two pods must not choose one address

    async def attach(self, uid: str) -> Attached:
        check_uid(uid)
        async with self._lock:
            namespace = await make_namespace(NAMESPACES + uid)
            host, inside = await asyncio.gather(read_links(self._host), read_links(namespace))
            if self._pods.bridge not in host:
                await set_kernel(self._host, {"net.ipv4.ip_forward": 1})
            has_end = any(link.kind == _VETH for link in inside.values())
            record = _record(host, uid, self._pods)
            await change_ip(self._host, self._of_host(host, record, namespace, has_end=has_end))
            if not has_end:
                inside = {**inside, ETH0: Link(name=ETH0, kind=_VETH, mtu=0)}
            await change_ip(namespace, self._of_pod(inside, record))
        return Attached(namespace, str(record.address.ip))

    async def find(self, uid: str) -> Attached | None:
        check_uid(uid)
        if not is_namespace(NAMESPACES + uid):
            return None
        pair = (await read_links(self._host)).get(host_link(uid))
        record = decode_record(pair.alias) if pair else None
        if record is None or record.uid != uid:
            return None
        return Attached(namespace_file(NAMESPACES + uid), str(record.address.ip))

    async def detach(self, uid: str) -> None:
        check_uid(uid)
        async with self._lock:
            name = host_link(uid)
            pair = (await read_links(self._host)).get(name)
            record = decode_record(pair.alias) if pair else None
            if pair and (record is None or record.uid == uid):
                # First: what is still in the namespace must not answer for the address.
                await change_ip(self._host, (f"link delete dev {name}",))
            await remove_namespace(NAMESPACES + uid)

    async def uids(self) -> frozenset[str]:
        of_namespaces = {name.removeprefix(NAMESPACES) for name in named(NAMESPACES)}
        records = (decode_record(link.alias) for link in (await read_links(self._host)).values())
        return frozenset(of_namespaces | {record.uid for record in records if record})

    def _of_host(
        self, found: Mapping[str, Link], record: PodRecord, namespace: Path, *, has_end: bool
    ) -> Iterator[str]:
        """Changes of the host: its bridge, then the pod's pair."""
        pods, name = self._pods, host_link(record.uid)
        bridge = WantedLink(
            name=pods.bridge, kind="bridge", mac=pods.mac, mtu=pods.mtu, addresses=(pods.gateway,)
        )
        yield from link_changes(found, (bridge,))
        pair = found.get(name)
        if pair and not has_end:  # its other end is in a namespace that has lost its name
            yield f"link delete dev {name}"
            pair = None
        if pair is None:
            yield f"link add name {name} type veth peer name {ETH0} netns {namespace}"
            pair = Link(name=name, kind=_VETH, mtu=0)
        if pair.alias != record.encode():
            yield f"link set dev {name} alias {record.encode()}"
        port = WantedLink(name=name, kind=_VETH, mtu=pods.mtu, master=pods.bridge)
        yield from link_changes({name: pair}, (port,))

    def _of_pod(self, found: Mapping[str, Link], record: PodRecord) -> Iterator[str]:
        """Changes of the pod's namespace; an eth0 that a guest was connected to is left alone."""
        yield from link_changes(found, (WantedLink(name="lo", addresses=found["lo"].addresses),))
        eth0 = found.get(ETH0)
        if eth0 and eth0.kind == _VETH and not eth0.master and not eth0.alias:
            wanted = WantedLink(name=ETH0, mtu=self._pods.mtu, addresses=(record.address,))
            yield from link_changes(found, (wanted,))
            yield f"route replace default via {self._pods.gateway.ip} dev {ETH0}"


def _record(host: Mapping[str, Link], uid: str, pods: PodRange) -> PodRecord:
    """What is recorded of a pod, or a new record with an address that is free."""
    records = {name: decode_record(link.alias) for name, link in host.items()}
    known = records.get(host_link(uid))
    if known and known.uid != uid:
        raise NetworkError(f"link {host_link(uid)}: is that of pod {known.uid}; remove that pod")
    if known and known.address.ip in pods.network:
        return known
    taken = {record.address.ip for record in records.values() if record}
    return PodRecord(uid, choose_address(pods.network, uid, taken))
