"""What OpenStack stands on: a message broker and a database server of our own.

Source: rabbitmq.com/docs/configure (environment variables), mariadbd(8).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import processes
from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.openstack.config import ACCOUNT, RABBIT_PORT
from hypercobalt.lab.openstack.place import PASSWORD, OpenStackPlace

_BROKER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_PACKAGES = {
    "rabbitmq-server": _BROKER,
    "mariadb-server": Path("/usr/sbin/mariadbd"),
    "haproxy": Path("/usr/sbin/haproxy"),
    "openssh-server": Path("/usr/sbin/sshd"),
    "openssh-client": Path("/usr/bin/scp"),
    # Nova talks to libvirt by libvirt-python, which is compiled.
    "gcc": Path("/usr/bin/gcc"),
    "pkg-config": Path("/usr/bin/pkg-config"),
    "libvirt-dev": Path("/usr/include/libvirt/libvirt.h"),
    "python3-dev": Path("/usr/bin/python3-config"),
}
START = timedelta(seconds=120)  # Neutron on a busy machine
_STEP = 0.1
_STOP = timedelta(seconds=30)

# Emulator threads: one; those that wait do not spin.
_ERLANG = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


def missing_packages() -> tuple[str, ...]:
    """Debian packages, beside those of the lab, that are not installed."""
    return tuple(name for name, program in _PACKAGES.items() if not program.exists())


async def answers(lab_id: str, role: str, address: str, port: int, log: Path) -> None:
    """Wait until a process of ours listens.

    Raises:
        LabError: it ended, or does not listen in time; the message has the end of its log.
    """
    oldest = processes.Oldest(lab_id)
    try:
        async with asyncio.timeout(START.total_seconds()):
            while not await _listens(address, port):
                if oldest.find(role) is None:
                    raise LabError(f"{role} ended: {processes.tail(log)}")
                await asyncio.sleep(_STEP)
    except TimeoutError:
        raise LabError(
            f"{role} does not listen on {address}:{port} after {START}: {processes.tail(log)}"
        ) from None


async def _listens(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


async def start_broker(place: OpenStackPlace) -> None:
    """Start RabbitMQ and wait until it listens.

    Raises:
        LabError: it does not.
    """
    folder, log = place.state("rabbitmq"), place.log / "rabbitmq.log"
    folder.mkdir(parents=True, exist_ok=True)
    plugins, settings = folder / "enabled_plugins", folder / "rabbitmq.conf"
    plugins.write_text("[].\n")
    settings.write_text(
        f"listeners.tcp.1 = {place.address}:{RABBIT_PORT}\n"
        f"default_user = {ACCOUNT}\n"
        f"default_pass = {PASSWORD}\n"
        "vm_memory_high_watermark.absolute = 1GB\n"
        "disk_free_limit.absolute = 50MB\n"
    )
    # The node's directory and its partners listen on loopback, which all environments share.
    environment = place.environment | {
        "HOME": str(folder),  # of the cookie
        "ERL_EPMD_PORT": str(24000 + place.number),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(24256 + place.number),
        "RABBITMQ_NODENAME": f"hypercobalt-{place.number}@localhost",
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(settings),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
            f"{_ERLANG} -kernel inet_dist_use_interface {{127,0,0,1}}"
        ),
    }
    if processes.find(place.lab_id, "openstack/rabbitmq"):
        return
    await processes.spawn(
        (str(_BROKER),),
        lab_id=place.lab_id,
        role="openstack/rabbitmq",
        log=log,
        env=environment,
    )
    await answers(place.lab_id, "openstack/rabbitmq", place.address, RABBIT_PORT, log)


async def make_databases(place: OpenStackPlace) -> None:
    """Make the folder of a database server without databases.

    Raises:
        CommandError: it cannot be made.
    """
    place.databases.mkdir(parents=True)
    await run(
        *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={place.databases}"),
        *("--auth-root-authentication-method=normal", "--skip-test-db"),
        within=START,
    )


async def start_database(place: OpenStackPlace) -> None:
    """Start MariaDB on its socket, and wait until it answers.

    Nothing is made durable: what a power cut of the machine would lose is thrown away anyway.

    Raises:
        LabError: it does not.
    """
    role, log = "openstack/mariadb", place.log / "mariadb.log"
    if processes.find(place.lab_id, role):
        return
    await processes.spawn(
        (
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={place.databases}"),
            *(f"--socket={place.socket}", f"--pid-file={place.folder}/mariadb.pid"),
            *("--skip-networking", "--skip-log-bin", "--performance-schema=off"),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
            *("--innodb-flush-method=nosync", "--innodb-log-file-size=16M"),
            *("--innodb-buffer-pool-size=128M", "--max-connections=600"),
        ),
        lab_id=place.lab_id,
        role=role,
        log=log,
        env=place.environment,
    )
    oldest = processes.Oldest(place.lab_id)
    try:
        async with asyncio.timeout(START.total_seconds()):
            while not await _has_database(place):
                if oldest.find(role) is None:
                    raise LabError(f"{role} ended: {processes.tail(log)}")
                await asyncio.sleep(_STEP)
    except TimeoutError:
        raise LabError(f"{role} does not answer after {START}: {processes.tail(log)}") from None


async def _has_database(place: OpenStackPlace) -> bool:
    try:
        await sql(place, "SELECT 1")
    except CommandError:
        return False
    return True


async def stop_database(place: OpenStackPlace) -> None:
    """Stop MariaDB in order, so that its files can be copied.

    Raises:
        LabError: it does not end.
    """
    running = processes.find(place.lab_id, "openstack/mariadb")
    await sql(place, "SHUTDOWN")
    for process in running:
        if not await processes.ended(process.pid, _STOP):
            raise LabError(f"MariaDB ({process.pid}) does not end {_STOP} after SHUTDOWN")


async def sql(place: OpenStackPlace, statements: str) -> str:
    """What the database server answers to some statements, a line a row.

    Raises:
        CommandError: it refuses, or is not there.
    """
    return await run(
        *("mariadb", "--no-defaults", f"--socket={place.socket}", "--user=root"),
        *("--batch", "--skip-column-names"),
        stdin=statements,
    )
