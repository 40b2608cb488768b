"""Databases of OVN behind TLS."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import Paths, Southbound, TlsFiles
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from tests.integration.ovs.daemons import Daemons

SCHEMA = "/usr/share/ovn/ovn-sb.ovsschema"


def client(authority: trustme.CA, folder: Path) -> TlsFiles:
    """TLS as a chassis has it: a certificate of the deployment's own authority."""
    issued = authority.issue_cert("kvm-1")  # those of OVN name the chassis, not an address
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return TlsFiles(*(f"{folder}/{name}.pem" for name in ("key", "cert", "ca")))


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def remote(running_daemons: Daemons, authority: trustme.CA) -> Iterator[str]:
    """A southbound database on this machine's loopback interface."""
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    certificate = authority.issue_cert("central")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    subprocess.run(["ovsdb-tool", "create", str(folder / "sb.db"), SCHEMA], check=True)
    log = folder / "log"
    server = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "ovsdb-server", str(folder / "sb.db")),
            *(f"--private-key={folder}/key.pem", f"--certificate={folder}/cert.pem"),
            *(f"--ca-cert={folder}/ca.pem", "--remote=pssl:0:127.0.0.1"),
            *(f"--unixctl={folder}/ctl", f"--log-file={log}", "-vconsole:off"),
        ]
    )
    try:
        running_daemons.wait(lambda: log.exists() and "listening on port" in log.read_text())
        port = re.findall(r"listening on port (\d+)", log.read_text())[0]
        yield f"ssl:127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


async def test_a_southbound_database_behind_tls_answers(
    remote: str, authority: trustme.CA, tmp_path: Path
) -> None:
    switch = HostSwitch(Paths(ovs=tmp_path))
    found = await switch.southbound(remote, "kvm-1", client(authority, tmp_path))
    assert found == Southbound(0)


async def test_a_server_of_another_authority_is_refused(remote: str, tmp_path: Path) -> None:
    switch = HostSwitch(Paths(ovs=tmp_path))
    files = client(trustme.CA(), tmp_path)
    with pytest.raises(SwitchError, match="certificate verify failed") as failed:
        await switch.southbound(remote, "kvm-1", files)
    assert failed.value.fault is ProducerFault.CLOSED
