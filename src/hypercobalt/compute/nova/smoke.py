"""Servers booted on a new host to see that it works, in a project of their own.

`find` is one call, `create` one (and two the first time, for the image and the network).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from hypercobalt.compute.errors import RefusedError
from hypercobalt.compute.model import TestServer
from hypercobalt.compute.nova.calls import COMPUTE, Calls, read
from hypercobalt.compute.nova.pages import LIMIT
from hypercobalt.compute.nova.servers import ServerFault
from hypercobalt.compute.nova.settings import FIRST_NETWORK, NO_NETWORK, SmokeSettings
from hypercobalt.compute.nova.times import read_time

IMAGE: Final = "image"
NETWORK: Final = "network"
_VERSION = (2, 95)
_NOT_FOUND = 404


class NovaSmokeTests:
    """See `hypercobalt.compute.port.SmokeTests`.

    Args:
        calls: of the project's account.
        settings: what to boot.
    """

    def __init__(self, calls: Calls, settings: SmokeSettings) -> None:
        self._calls, self._settings = calls, settings

    async def find(self, name: str) -> tuple[TestServer, ...]:
        """Drop longer names: Nova takes the name for a pattern, and finds those as well."""
        answer = await self._calls(
            f"find test server {name}",
            COMPUTE,
            "GET",
            "/servers/detail",
            query=(("name", name), LIMIT),
            version=_VERSION,
            allow={_NOT_FOUND},
        )
        if not answer.ok:
            return ()
        return tuple(_server(one) for one in read(answer, _Servers).servers if one.name == name)

    async def create(self, name: str, host: str, zone: str) -> TestServer:
        """Name the host in the zone, so that a disabled one is no obstacle."""
        about, settings = f"boot test server {name}", self._settings
        image, network = await self._image(about), await self._network(about)
        wanted: dict[str, object] = {
            "name": name,
            "availability_zone": f"{zone}:{host}",
            "flavorRef": settings.flavor,
            "imageRef": image,
            "networks": [{"uuid": network}] if network else NO_NETWORK,
        }
        if settings.volume_gib:
            wanted["imageRef"] = ""
            wanted["block_device_mapping_v2"] = [_volume(image, settings)]
        body = {"server": wanted}
        answer = await self._calls(about, COMPUTE, "POST", "/servers", body=body, version=_VERSION)
        made = read(answer, _Made).server.id
        return TestServer(made, name, "BUILD", datetime.now(UTC))

    async def console(self, server: TestServer, lines: int) -> str:
        about = f"read the console of test server {server.name}"
        action = {"os-getConsoleOutput": {"length": lines}}
        answer = await self._calls.act(about, server.id, action, _VERSION)
        return read(answer, _Console).output or ""

    async def delete(self, server: TestServer) -> None:
        about, path = f"delete test server {server.name}", f"/servers/{server.id}"
        await self._calls(about, COMPUTE, "DELETE", path, version=_VERSION, allow={_NOT_FOUND})

    async def _image(self, about: str) -> str:
        name = self._settings.image
        answer = await self._calls(about, IMAGE, "GET", "/v2/images", query=(("name", name), LIMIT))
        for image in read(answer, _Images).images:
            if image.name == name:
                return image.id
        raise RefusedError(f"{about}: there is no image {name!r}", reason="NoImage")

    async def _network(self, about: str) -> str:
        """Return the UUID of the network; "" for none."""
        wanted = self._settings.network
        if wanted == NO_NETWORK:
            return ""
        query = (("shared", "false"),) if wanted == FIRST_NETWORK else ()
        answer = await self._calls(about, NETWORK, "GET", "/v2.0/networks", query=query)
        for network in read(answer, _Networks).networks:
            if wanted in {FIRST_NETWORK, network.id, network.name}:
                return network.id
        which = f"network {wanted!r}" if wanted else "network that is not shared"
        raise RefusedError(f"{about}: there is no {which}", reason="NoNetwork")


def _volume(image: str, settings: SmokeSettings) -> dict[str, object]:
    volume: dict[str, object] = {
        "uuid": image,
        "source_type": "image",
        "destination_type": "volume",
        "boot_index": 0,
        "delete_on_termination": True,
        "disk_bus": "virtio",
        "volume_size": settings.volume_gib,
    }
    return {**volume, "volume_type": settings.volume_type} if settings.volume_type else volume


def _server(one: _Server) -> TestServer:
    return TestServer(
        id=one.id,
        name=one.name,
        status=one.status,
        created=read_time(one.created) or datetime.fromtimestamp(0, UTC),
        launched=read_time(one.launched),
        fault=one.fault.message if one.fault else "",
    )


class _Server(msgspec.Struct, frozen=True):
    id: str
    status: str
    name: str = ""
    created: str = ""
    launched: str | None = msgspec.field(default=None, name="OS-SRV-USG:launched_at")
    fault: ServerFault | None = None


class _Servers(msgspec.Struct, frozen=True):
    servers: tuple[_Server, ...]


class _New(msgspec.Struct, frozen=True):
    id: str


class _Made(msgspec.Struct, frozen=True):
    server: _New


class _Console(msgspec.Struct, frozen=True):
    output: str | None = None


class _Thing(msgspec.Struct, frozen=True):
    id: str
    name: str | None = None


class _Images(msgspec.Struct, frozen=True):
    images: tuple[_Thing, ...]


class _Networks(msgspec.Struct, frozen=True):
    networks: tuple[_Thing, ...]
