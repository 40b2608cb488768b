"""The databases as they are before the first start: made once, then copied.

The schemas of seven projects take 20 s and are the same each time. What differs between
environments, the addresses in Nova's map of cells, is written after the copy.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import processes
from hypercobalt.lab.commands import run
from hypercobalt.lab.openstack import config, infra, venv
from hypercobalt.lab.openstack.place import DATABASES, PASSWORD, REGION, OpenStackPlace

_COMMAND = timedelta(minutes=3)


async def copy(wanted: OpenStackPlace) -> None:
    """Put the databases and Keystone's keys into an environment's folder that has none.

    Raises:
        LabError: they are not in the cache and cannot be made.
    """
    made = await ready(wanted.programs)
    for name in ("keys", "mysql"):  # whole or not at all, should we be killed
        target, part = wanted.folder / name, wanted.folder / f"{name}.part"
        if not target.exists():
            await asyncio.to_thread(shutil.rmtree, part, ignore_errors=True)
            await run("cp", "--archive", "--reflink=auto", str(made / name), str(part))
            part.rename(target)


async def settle(wanted: OpenStackPlace) -> None:
    """Write the environment's addresses into the copied databases.

    Raises:
        CommandError: the database server refuses.
    """
    for cell, transport in (("cell0", "none:///"), ("cell1", config.transport_url(wanted))):
        database = config.database_url(wanted, f"nova_{cell}")
        await infra.sql(
            wanted,
            f"UPDATE nova_api.cell_mappings SET transport_url = '{transport}', "  # noqa: S608 - ours
            f"database_connection = '{database}' WHERE name = '{cell}'",
        )


async def ready(programs: Path) -> Path:
    """The folder in the cache with the databases and keys, made where there is none.

    Raises:
        LabError: they cannot be made.
    """
    version = await run("mariadbd", "--version")
    recipe = (programs.name, version, PASSWORD, REGION, *DATABASES)
    source = await asyncio.to_thread(Path(__file__).read_bytes)
    key = venv.digest(source, *(part.encode() for part in recipe))
    folder = venv.cache_directory() / f"databases-{key}"
    if not folder.exists():
        with venv.alone(folder):
            if not folder.exists():
                await _make(folder, programs)
    return folder


async def _make(folder: Path, programs: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as name:
        scratch = Path(name)
        log = scratch / "log"
        log.mkdir()
        wanted = OpenStackPlace(uuid.uuid4().hex, "127.0.0.1", scratch, log, programs)
        write_configuration(wanted)
        try:
            await infra.make_databases(wanted)
            await infra.start_database(wanted)
            await _fill(wanted)
            await infra.stop_database(wanted)
        finally:
            await processes.kill(wanted.lab_id)
        whole = scratch / "whole"
        whole.mkdir()
        wanted.databases.rename(whole / "mysql")
        wanted.keys.rename(whole / "keys")
        whole.rename(folder)


async def _fill(wanted: OpenStackPlace) -> None:
    await infra.sql(wanted, "".join(f"CREATE DATABASE {d} CHARACTER SET utf8;" for d in DATABASES))
    await _together(_keystone(wanted), _nova(wanted), _others(wanted))


async def _together(*works: Awaitable[None]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_of(work))


async def _of(work: Awaitable[None]) -> None:
    await work


async def _keystone(wanted: OpenStackPlace) -> None:
    for folder in ("fernet", "credential"):
        (wanted.keys / folder).mkdir(parents=True, mode=0o700)
    owner = ("--keystone-user", "root", "--keystone-group", "root")
    await _manage(wanted, "keystone", "db_sync")
    await _manage(wanted, "keystone", "fernet_setup", *owner)
    await _manage(wanted, "keystone", "credential_setup", *owner)
    await _manage(
        *(wanted, "keystone", "bootstrap", "--bootstrap-password", PASSWORD),
        *("--bootstrap-region-id", REGION),
    )


async def _nova(wanted: OpenStackPlace) -> None:
    cell0 = ("--database_connection", config.database_url(wanted, "nova_cell0"))
    await _manage(wanted, "nova", "api_db", "sync")
    await _manage(wanted, "nova", "cell_v2", "map_cell0", *cell0)
    await _manage(wanted, "nova", "cell_v2", "create_cell", "--name=cell1")
    await _manage(wanted, "nova", "db", "sync")


async def _others(wanted: OpenStackPlace) -> None:
    await _manage(wanted, "placement", "db", "sync")
    await _manage(wanted, "glance", "db_sync", file="glance-api.conf")
    await _manage(wanted, "cinder", "db", "sync")
    (wanted.state("neutron") / "lock").mkdir(parents=True)
    configuration = ("--config-file", str(wanted.etc / "neutron.conf"))
    await _run(wanted, "neutron-db-manage", *configuration, "upgrade", "heads")


async def _manage(wanted: OpenStackPlace, service: str, *arguments: str, file: str = "") -> None:
    configuration = ("--config-file", str(wanted.etc / (file or f"{service}.conf")))
    await _run(wanted, f"{service}-manage", *configuration, *arguments)


async def _run(wanted: OpenStackPlace, program: str, *arguments: str) -> None:
    await run(
        wanted.program(program),
        *arguments,
        env=wanted.environment | {processes.MARK: f"{wanted.lab_id} openstack/{program}"},
        within=_COMMAND,
    )


def write_configuration(wanted: OpenStackPlace) -> None:
    """Put the configuration of the services on the machine into their folder."""
    wanted.etc.mkdir(parents=True, exist_ok=True)
    for name, text in config.files(wanted).items():
        (wanted.etc / name).write_text(text)
    shipped = wanted.programs / "etc"
    for source, name in (
        ("nova/api-paste.ini", "api-paste.ini"),
        ("glance/glance-api-paste.ini", "glance-api-paste.ini"),
        ("neutron/api-paste.ini", "neutron-api-paste.ini"),
        ("cinder/api-paste.ini", "cinder-api-paste.ini"),
    ):
        shutil.copy(shipped / source, wanted.etc / name)
