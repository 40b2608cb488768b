"""The requests to OVN's northbound database, on a real ovsdb-server with its schema."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypercobalt.adapters.ovn.northbound import Northbound, OvnError
from hypercobalt.adapters.ovs.remote import parse_remotes
from tests.integration.ovs.daemons import Daemons

SCHEMA = "/usr/share/ovn/ovn-nb.ovsschema"


@pytest.fixture
def northbound(running_daemons: Daemons) -> Iterator[str]:
    """Run a database with two ports, and yield its remote."""
    folder = Path(tempfile.mkdtemp(prefix="nb-"))
    subprocess.run(["ovsdb-tool", "create", str(folder / "nb.db"), SCHEMA], check=True)
    server = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "ovsdb-server", str(folder / "nb.db")),
            *(f"--remote=punix:{folder}/nb.sock", f"--unixctl={folder}/nb.ctl", "-vconsole:off"),
        ]
    )
    try:
        running_daemons.wait((folder / "nb.sock").exists)
        remote = f"unix:{folder}/nb.sock"
        nbctl(remote, "ls-add", "net", "--", "lsp-add", "net", "p1", "--", "lsp-add", "net", "p2")
        yield remote
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


def nbctl(remote: str, *arguments: str) -> str:
    command = ["ovn-nbctl", f"--db={remote}", "--timeout=20", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def options(remote: str, port: str) -> dict[str, str]:
    row = json.loads(
        nbctl(remote, "--format=json", "--columns=options", "list", "Logical_Switch_Port", port)
    )
    return dict(row["data"][0][0][1])


async def test_a_port_is_bound_to_both_hosts_and_then_to_one(northbound: str) -> None:
    ports = Northbound(parse_remotes(f"unix:/nowhere/nb.sock,{northbound}"))
    await ports.bind(["p1", "absent"], ("kvm-1", "kvm-2"))
    both = {"requested-chassis": "kvm-1,kvm-2", "activation-strategy": "rarp"}
    assert options(northbound, "p1") == both
    assert await ports.between_hosts() == {"p1": ("kvm-1", "kvm-2")}
    await ports.bind(["p1"], ("kvm-2",))
    assert options(northbound, "p1") == {"requested-chassis": "kvm-2"}
    assert await ports.between_hosts() == {}
    assert options(northbound, "p2") == {}


async def test_servers_that_do_not_answer_are_all_named() -> None:
    ports = Northbound(parse_remotes("unix:/nowhere/1.sock,unix:/nowhere/2.sock"))
    with pytest.raises(OvnError, match=r"1\.sock: No such file.*; unix:/nowhere/2\.sock"):
        await ports.between_hosts()


async def test_a_server_without_the_database_is_reported(daemons: Daemons) -> None:
    ports = Northbound(parse_remotes(f"unix:{daemons.database}"))
    with pytest.raises(OvnError, match="unknown database"):
        await ports.between_hosts()
