"""The two servers of a run: the real one, and the one that is held against it.

The second is the embedded server. `CONFORMANCE_SUBJECT=real` puts a second real server in its
place, which must give no difference at all: that is how the suite itself is tested.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import yaml
from tests.conformance.real import (
    TOKENS,
    Server,
    StartError,
    free_port,
    process,
    real_server,
    wait_ready,
    write_kubeconfig,
)

SUBJECT = os.environ.get("CONFORMANCE_SUBJECT", "embedded")
COBALT = Path(sys.executable).with_name("cobalt")
KUBECTL = Path(sys.executable).with_name("kubectl")


@contextmanager
def embedded_server(directory: Path, *flags: str) -> Iterator[Server]:
    """Start `cobalt apiserver` as a process of its own with its data under `directory`."""
    tokens, kubeconfig = directory / "tokens.csv", directory / "kubeconfig"
    tokens.write_text(TOKENS)
    port = free_port()
    command = [
        *(str(COBALT), "apiserver", "--data", str(directory / "data"), "--port", str(port)),
        *("--token-auth-file", str(tokens), "--kubeconfig", str(kubeconfig)),
        *flags,
    ]
    log = directory / "apiserver.log"
    began = time.monotonic()
    with process(command, log) as child:
        ca_file = _wait_for_ca(kubeconfig, child, log)
        url = f"https://127.0.0.1:{port}"
        wait_ready(child, url, ca_file, log)
        ready = time.monotonic() - began
        write_kubeconfig(kubeconfig, url, ca_file)  # the same user as on the real server
        yield Server("embedded", url, ca_file, kubeconfig, (child.pid,), ready)


def _wait_for_ca(kubeconfig: Path, child: subprocess.Popen[bytes], log: Path) -> Path:
    """Return a file with the CA that the server wrote into its kubeconfig."""
    deadline = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < deadline:
        if kubeconfig.exists() and kubeconfig.stat().st_size:
            config = yaml.safe_load(kubeconfig.read_text())
            return _ca_file(config["clusters"][0]["cluster"], kubeconfig)
        time.sleep(0.02)
    raise StartError(f"no kubeconfig appeared; the log ends:\n{log.read_text()[-2000:]}")


def _ca_file(cluster: dict[str, str], kubeconfig: Path) -> Path:
    if "certificate-authority" in cluster:
        return Path(cluster["certificate-authority"])
    ca_file = kubeconfig.with_name("ca.crt")
    ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return ca_file


@contextmanager
def subject_server(directory: Path) -> Iterator[Server]:
    if SUBJECT == "real":
        with real_server(directory) as server:
            yield server
    else:
        with embedded_server(directory) as server:
            yield server


def client_of(server: Server) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=server.url, verify=server.ssl_context(), timeout=15, trust_env=False
    )
