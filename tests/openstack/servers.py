"""Servers for tests: booted, watched, moved, and gone at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from tests.openstack.client import Answer, Json, Session
from tests.openstack.cloud import Names
from tests.waiting import Pause

VERSION: Final = "2.96"
"""Version of the compute API, where a test is not about another."""
PLACEMENT: Final = "1.39"
_OK = 200
_WITHIN = 90  # seconds, on a busy machine


async def until(
    read: Callable[[], Awaitable[Json]], wanted: Callable[[Json], bool], within: float = _WITHIN
) -> Json:
    """Read until it is as wanted.

    Raises:
        AssertionError: it is not in time; the message has what was read last.
    """
    seen: Json = None
    pause = Pause(0.05, longest=0.8)  # Nova computes for 60 ms at each
    try:
        async with asyncio.timeout(within):
            while not wanted(seen := await read()):
                await pause()
    except TimeoutError:
        raise AssertionError(f"not as wanted after {within} s: {seen}") from None
    return seen


class Servers:
    """One account's servers, as a test makes them."""

    def __init__(self, session: Session, names: Names) -> None:
        self._session = session
        self._names = names
        self._made: list[str] = []

    @property
    def made(self) -> tuple[str, ...]:
        """Ids of those that are there."""
        return tuple(self._made)

    async def create(
        self,
        *,
        host: str | None = None,
        image: str = "",
        flavor: str = "",
        network: str = "",
        volume: str = "",
        version: str = VERSION,
    ) -> str:
        """Create a server and return its id.

        Args:
            host: that it must start on; the scheduler's choice when not given.
            image: name; the empty one when not given.
            flavor: name; the small one when not given.
            network: name; no port when not given.
            volume: id; it boots from that instead of an image, and is deleted with it.
            version: of the compute API.
        """
        image = image or self._names.empty
        wanted: Json = {
            "name": f"test-{len(self._made)}",
            "imageRef": "" if volume else await self._find("image", "/v2/images", image),
            "flavorRef": await self._find("compute", "/flavors", flavor or self._names.flavor),
            "networks": "none",
        }
        if network:
            found = await self._find("network", "/v2.0/networks", network)
            wanted["networks"] = [{"uuid": found}]
        if volume:
            wanted["block_device_mapping_v2"] = [_root(volume)]
        if host:
            wanted["host"] = host
        answer = await self._session(
            "compute", "POST", "/servers", {"server": wanted}, version=version
        )
        made = str(answer.ok()["server"]["id"])
        self._made.append(made)
        return made

    async def boot(
        self,
        *,
        host: str | None = None,
        image: str = "",
        flavor: str = "",
        network: str = "",
        volume: str = "",
    ) -> str:
        """Create a server, wait until it runs, and give its id.

        Raises:
            AssertionError: it does not; the message has what the scheduler has of the hosts.
        """
        made = await self.create(
            host=host, image=image, flavor=flavor, network=network, volume=volume
        )
        shown = await self.until(made, lambda s: s["status"] in {"ACTIVE", "ERROR"})
        if shown["status"] != "ACTIVE":
            raise AssertionError(f"{shown['fault']}\n{await self._hosts()}")
        return made

    async def _hosts(self) -> str:
        """What a scheduler goes by: the compute services, and what Placement has of each host."""
        services = await self._session("compute", "GET", "/os-services", version=VERSION)
        providers = await self._session("placement", "GET", "/resource_providers")
        lines = [f"{services.body}", f"{providers.body}"]
        if providers.code == _OK:
            for one in providers.body["resource_providers"]:
                for about in ("traits", "inventories", "usages", "allocations", "aggregates"):
                    path = f"/resource_providers/{one['uuid']}/{about}"
                    answer = await self._session("placement", "GET", path, version=PLACEMENT)
                    lines.append(f"{one['name']}: {answer.body}")
        return "\n".join(lines)

    async def _find(self, service: str, path: str, name: str) -> str:
        found = (await self._session(service, "GET", f"{path}?limit=1000")).ok()
        (kind,) = (key for key, value in found.items() if isinstance(value, list) and key in path)
        return next(str(one["id"]) for one in found[kind] if one["name"] == name)

    async def show(self, server: str) -> Json:
        """A server as the API shows it to an administrator."""
        answer = await self._session("compute", "GET", f"/servers/{server}", version=VERSION)
        return answer.ok()["server"]

    async def host(self, server: str) -> str:
        """Where a server is."""
        return str((await self.show(server))["OS-EXT-SRV-ATTR:host"])

    async def until(
        self, server: str, wanted: Callable[[Json], bool], within: float = _WITHIN
    ) -> Json:
        """Wait until a server is as wanted.

        Raises:
            AssertionError: it is not in time.
        """
        return await until(lambda: self.show(server), wanted, within)

    async def act(self, server: str, action: Json, *, version: str = VERSION) -> Answer:
        """Request an action on a server: `{"os-stop": None}`."""
        return await self._session(
            "compute", "POST", f"/servers/{server}/action", action, version=version
        )

    async def actions(self, server: str) -> list[str]:
        """What was requested of a server, the newest first."""
        path = f"/servers/{server}/os-instance-actions"
        answer = await self._session("compute", "GET", path, version=VERSION)
        return [str(one["action"]) for one in answer.ok()["instanceActions"]]

    async def console(self, server: str, lines: int = 20) -> str:
        """The last lines of a server's console."""
        answer = await self.act(server, {"os-getConsoleOutput": {"length": lines}})
        return str(answer.ok()["output"])

    async def beats(self, server: str) -> int:
        """How often a server with a system has printed its sign of life since its boot."""
        text = await self.console(server)
        lines = [line for line in text.splitlines() if ": alive " in line]
        return int(lines[-1].split()[-1]) if lines else 0

    async def live_migrate(self, server: str, host: str | None, version: str = VERSION) -> Answer:
        """Request a live migration, to the scheduler's choice when no host is given."""
        move: Json = {"host": host, "block_migration": "auto"}
        if version == "2.30" and host is not None:
            move["force"] = False
        return await self.act(server, {"os-migrateLive": move}, version=version)

    async def migrations(self, server: str) -> Json:
        """Records of a server's migrations, the newest first."""
        path = f"/os-migrations?instance_uuid={server}"
        answer = await self._session("compute", "GET", path, version=VERSION)
        return sorted(answer.ok()["migrations"], key=lambda m: int(m["id"]), reverse=True)

    async def until_migrated(self, server: str, status: str) -> Json:
        """Wait until the newest migration of a server has a status, and give its record."""

        async def newest() -> Json:
            return next(iter(await self.migrations(server)), None)

        return await until(newest, lambda m: m is not None and m["status"] == status)

    async def remove_all(self) -> None:
        """Delete what was created, and wait until it is gone."""
        for server in self._made:
            await self._session("compute", "DELETE", f"/servers/{server}")
        for server in self._made:
            await until(partial(self._code, server), lambda code: code == 404)
        self._made.clear()

    async def _code(self, server: str) -> int:
        return (await self._session("compute", "GET", f"/servers/{server}")).code


def _root(volume: str) -> Json:
    """What Nova takes for the disk that a server boots from."""
    return {
        "uuid": volume,
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": 0,
        "delete_on_termination": True,
    }
