"""Resource providers of hosts, in Placement."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hypercobalt.adapters.openstack.request import Answer
from hypercobalt.compute.errors import ComputeError, RefusedError
from hypercobalt.compute.model import Host
from hypercobalt.compute.nova.calls import PLACEMENT, Allocations, Calls, read, refused
from hypercobalt.compute.nova.hosts import NovaHosts
from hypercobalt.compute.nova.names import NameIndex

_PLACING: Final = (1, 39)
_NOT_FOUND, _CONFLICT = 404, 409
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class NovaProviders:
    """See `hypercobalt.compute.port.Providers`."""

    def __init__(self, calls: Calls, hosts: NovaHosts) -> None:
        self._calls, self._hosts = calls, hosts

    async def exists(self, host: Host) -> bool:
        """Make one call, and list where Placement gives no usable answer."""
        about, path = f"find the resource provider of host {host.name}", _provider(host)
        try:
            return (await self._placement(about, "GET", path, _NOT_FOUND)).ok
        except ComputeError:
            if await self._is_listed(about, host):
                raise
            return False

    async def _is_listed(self, about: str, host: Host) -> bool:
        """Whether Placement lists the provider of a host.

        A proxy before Placement may answer anything about a provider that is gone.
        """
        path, query = "/resource_providers", (("uuid", host.hypervisor_id),)
        answer = await self._calls(about, PLACEMENT, "GET", path, query=query, version=_PLACING)
        listed = read(answer, _Providers).resource_providers
        return any(one.uuid == host.hypervisor_id for one in listed)

    async def left_over(self, name: str, provider: str) -> Host | None:
        """Make one call, and list the fleet where the provider's name fits."""
        if not _UUID.fullmatch(provider):
            return None
        about, path = f"find what is left of host {name}", f"/resource_providers/{provider}"
        answer = await self._placement(about, "GET", path, _NOT_FOUND)
        if not answer.ok:
            return None
        found = read(answer, _Provider)
        host = Host(name, found.uuid, "", enabled=False, up=False)
        is_its_own = found.uuid == provider and bool(NameIndex([(host, (found.name,))]).best(name))
        return host if is_its_own and not await self._hosts.lists(provider) else None

    async def remove(self, host: Host) -> None:
        """Remove the provider; a refusal counts only if the provider is still there."""
        about = f"delete the resource provider of host {host.name}"
        try:
            await self._remove(about, host)
        except ComputeError:
            if await self._is_listed(about, host):
                raise

    async def _remove(self, about: str, host: Host) -> None:
        path = _provider(host)
        listing = await self._placement(about, "GET", f"{path}/allocations", _NOT_FOUND)
        consumers = read(listing, Allocations).allocations if listing.ok else {}
        for consumer in consumers:
            own = await self._placement(about, "GET", f"/allocations/{consumer}")
            if read(own, Allocations).allocations:
                raise RefusedError(
                    f"{about}: {consumer} still has resources on it. Move or delete that server, "
                    f"or remove what it left: openstack resource provider allocation delete "
                    f"{consumer}",
                    reason="InUse",
                    code=_CONFLICT,
                )
            await self._placement(about, "DELETE", f"/allocations/{consumer}", _NOT_FOUND)
        gone = await self._placement(about, "DELETE", path, _NOT_FOUND, _CONFLICT)
        if gone.code == _CONFLICT:
            raise refused(gone, PLACEMENT)

    async def _placement(self, about: str, method: str, path: str, *allow: int) -> Answer:
        return await self._calls(about, PLACEMENT, method, path, version=_PLACING, allow=allow)


def _provider(host: Host) -> str:
    return f"/resource_providers/{host.hypervisor_id}"


class _Provider(msgspec.Struct, frozen=True):
    uuid: str
    name: str = ""


class _Providers(msgspec.Struct, frozen=True):
    resource_providers: tuple[_Provider, ...]
