"""Daemons and databases of Open vSwitch and OVN on the machine, marked as the lab's.

Source: ovsdb-tool(1), ovs-vswitchd(8), ovsdb-server(1).
"""

from __future__ import annotations

from pathlib import Path

from hypercobalt.lab import processes
from hypercobalt.lab.commands import run


async def create_database(lab_id: str, folder: Path, name: str, schema: str) -> None:
    """Make the file of a database, if it is not there: whole, or not at all.

    Raises:
        CommandError: there is no such schema.
    """
    file = folder / name
    if file.exists():
        return
    fresh = file.with_suffix(".new")  # of one that was killed, perhaps
    fresh.unlink(missing_ok=True)
    env = processes.environment(lab_id)
    await run("ovsdb-tool", "create", str(fresh), schema, env=env)
    fresh.rename(file)


async def start(
    lab_id: str, role: str, *argv: str, control: Path, log: Path, env: str = ""
) -> None:
    """Start a daemon, and wait until it answers.

    Args:
        lab_id: of the lab.
        role: of the process.
        argv: the daemon, and what it alone is given.
        control: its control socket.
        log: its log.
        env: `VARIABLE=value`; "" for none.

    Raises:
        CommandError: it ends at once or does not answer.
    """
    # The daemon's parent ends when the daemon answers.
    await run(
        *("env", processes.mark(lab_id, role), *([env] if env else []), *argv),
        *("--detach", "--no-chdir", f"--unixctl={control}"),
        *("-vconsole:off", "-vsyslog:off", f"--log-file={log}"),
    )
