"""The servers that a new lab's first `up` makes: as many as a lab without OpenStack gets VMs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.openstack import seed
from hypercobalt.lab.openstack.client import Account, Json, Session

_VERSION: Final = "2.96"
_WITHIN: Final = timedelta(minutes=5)  # six at once take half a minute on two cores
_STEP: Final = 0.5


async def complete(lab: Lab, account: Account) -> None:
    """Make the servers that the first `up` was to make, as far as they are not there.

    Args:
        lab: whose record has how many.
        account: whose servers they are.

    Raises:
        LabError: Nova refuses, or one does not run; the next `up` tries again.
    """
    wanted = tuple(f"vm-{number}" for number in range(1, lab.state.vms + 1))
    if wanted:
        async with Session(account) as nova:
            await lab.step(f"{len(wanted)} servers", _complete(nova, wanted))
    lab.has_its_vms()


async def _complete(nova: Session, wanted: tuple[str, ...]) -> None:
    there = await _servers(nova)
    if missing := [name for name in wanted if name not in there]:
        image = await _id(nova, "image", "/v2/images", seed.NAMES.guest)
        flavor = await _id(nova, "compute", "/flavors", seed.NAMES.flavor)
        network = await _id(nova, "network", "/v2.0/networks", seed.NAMES.network)
        for name in missing:
            server = {
                "name": name,
                "imageRef": image,
                "flavorRef": flavor,
                "networks": [{"uuid": network}],
            }
            body = {"server": server}
            (await nova("compute", "POST", "/servers", body, version=_VERSION)).ok()
    try:
        async with asyncio.timeout(_WITHIN.total_seconds()):
            while not await _all_run(nova, wanted):  # noqa: ASYNC110 - Nova sends no event
                await asyncio.sleep(_STEP)
    except TimeoutError:
        raise LabError(f"not all servers run after {_WITHIN}: `openstack server list`") from None


async def _all_run(nova: Session, wanted: tuple[str, ...]) -> bool:
    there = await _servers(nova)
    for name in wanted:
        if (shown := there.get(name)) and shown["status"] == "ERROR":
            raise LabError(f"server {name}: {shown['fault']['message']}")
    return all(name in there and there[name]["status"] == "ACTIVE" for name in wanted)


async def _servers(nova: Session) -> dict[str, Json]:
    found = (await nova("compute", "GET", "/servers/detail", version=_VERSION)).ok()
    return {server["name"]: server for server in found["servers"]}


async def _id(cloud: Session, service: str, path: str, name: str) -> str:
    kind = path.rpartition("/")[2]
    found = (await cloud(service, "GET", path)).ok()[kind]
    return next(str(one["id"]) for one in found if one["name"] == name)
