"""Volumes of Cinder, and where they are attached in its eyes."""

from __future__ import annotations

from typing import Final

from tests.openstack.client import Json, Session
from tests.openstack.servers import until

VERSION: Final = "3.71"
_SERVICE: Final = "block-storage"
_COPIED: Final = ("kernel_id", "ramdisk_id", "os_command_line")


async def create_bootable(session: Session, image: str) -> str:
    """Create a volume of 1 GiB that boots what an image boots, and give its id.

    It is empty: the operating system is in the kernel and the file system that the image names.
    """
    wanted = {"volume": {"size": 1}}
    made = (await session(_SERVICE, "POST", "/volumes", wanted, version=VERSION)).ok()["volume"]
    volume = str(made["id"])
    shown = await until(lambda: show(session, volume), lambda one: one["status"] != "creating")
    assert shown["status"] == "available", shown
    found = (await session("image", "GET", f"/v2/images?name={image}")).ok()["images"][0]
    metadata = {name: found[name] for name in _COPIED}
    await _act(session, volume, {"os-set_image_metadata": {"metadata": metadata}})
    await _act(session, volume, {"os-set_bootable": {"bootable": True}})
    return volume


async def _act(session: Session, volume: str, action: Json) -> None:
    path = f"/volumes/{volume}/action"
    (await session(_SERVICE, "POST", path, action, version=VERSION)).ok()


async def show(session: Session, volume: str) -> Json:
    """A volume as the API shows it to an administrator."""
    return (await session(_SERVICE, "GET", f"/volumes/{volume}", version=VERSION)).ok()["volume"]


async def attached_to(session: Session, volume: str) -> list[tuple[str, str]]:
    """Servers that a volume is attached to, each with the host that Cinder has for it."""
    attachments = (await show(session, volume))["attachments"]
    return sorted((str(one["server_id"]), str(one["host_name"])) for one in attachments)
