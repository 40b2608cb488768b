"""BMCs that others have written, over domains of libvirt: sushy-tools (Redfish), virtualbmc (IPMI).

They have an environment of their own, with Debian's Python and its binding of libvirt, so nothing
is compiled for tests.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypercobalt import pki
from hypercobalt.lab.bmc.board import USER
from hypercobalt.lab.openstack import venv
from tests.lab.kit import oracle
from tests.lab.kit.bmc import ADDRESS, PASSWORD, free_port
from tests.lab.kit.libvirtd import until
from tests.pages import ROOT

_LOCK = ROOT / "requirements" / "bmc.txt"
_VIRTUAL_BMC = Path(__file__).with_name("virtual_bmc.py")
_HASH = """\
import bcrypt, sys
sys.stdout.buffer.write(bcrypt.hashpw(sys.stdin.buffer.read(), bcrypt.gensalt(4)))
"""
_CONFIGURATION = """\
SUSHY_EMULATOR_AUTH_FILE = {accounts!r}
SUSHY_EMULATOR_SSL_CERT = {certificate!r}
SUSHY_EMULATOR_SSL_KEY = {key!r}
SUSHY_EMULATOR_STATE_DIR = {state!r}
"""


async def ready() -> Path:
    """The environment of the emulators, made if the cache does not have it.

    Raises:
        CommandError: a package cannot be had, or does not match its hash.
    """
    python = Path(oracle.PYTHON).resolve()
    key = venv.digest(_LOCK.read_bytes(), str(python).encode())
    folder = venv.cache_directory().with_name("bmc") / key
    return await venv.made(folder, _LOCK, f"--python={python}", "--system-site-packages")


@contextmanager
def redfish(environment: Path, uri: str, folder: Path) -> Iterator[int]:
    """The sushy-emulator over all domains of a libvirtd, at the port that is given."""
    programs = environment / "bin"
    (folder / "accounts").write_text(f"{USER}:{_hashed(programs / 'python')}\n")
    files = pki.prepare(folder / "pki", ADDRESS)
    text = _CONFIGURATION.format(
        accounts=str(folder / "accounts"),
        certificate=str(files.directory / "server.crt"),
        key=str(files.directory / "server.key"),
        state=str(folder),
    )
    (folder / "sushy.conf").write_text(text)
    port = free_port()
    where = (f"--interface={ADDRESS}", f"--port={port}", f"--libvirt-uri={uri}")
    command = (str(programs / "sushy-emulator"), f"--config={folder / 'sushy.conf'}", *where)
    with subprocess.Popen(command) as process:
        try:
            until(lambda: _listens(port), "the port of sushy-emulator")
            yield port
        finally:
            process.kill()


@contextmanager
def ipmi(environment: Path, uri: str, domain: str) -> Iterator[int]:
    """A virtualbmc over one domain, at the port that is given."""
    port = free_port()
    command = (str(environment / "bin" / "python"), str(_VIRTUAL_BMC), uri, domain, str(port))
    with subprocess.Popen((*command, USER, PASSWORD), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield port
        finally:
            process.kill()


def _hashed(python: Path) -> str:
    """The password as sushy-tools has it; bcrypt is in its environment."""
    command, given = (str(python), "-c", _HASH), PASSWORD.encode()
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout.decode()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0
