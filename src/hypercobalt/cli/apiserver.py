"""`cobalt apiserver`: the embedded Kubernetes API on one SQLite file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import uvloop
from cyclopts import Parameter

from hypercobalt import logs
from hypercobalt.api import crd
from hypercobalt.apiserver.server import Options, Server, run
from hypercobalt.errors import HypercobaltError


def apiserver(
    *,
    data: Path,
    address: str = "127.0.0.1",
    port: int = 6443,
    token_auth_file: Annotated[Path | None, Parameter(name="--token-auth-file")] = None,
    kubeconfig: Path | None = None,
) -> int:
    """Serve the Kubernetes API with hypercobalt's types, for one machine.

    Parameters
    ----------
    data
        Directory of the database, the certificates and the kubeconfig; made when missing.
    address
        Address to listen on.
    port
        Port to listen on; 0 takes a free one.
    token_auth_file
        Static tokens, one `token,user,uid,"group1,group2"` a line.
    kubeconfig
        Where to write an administrator's kubeconfig; in the data directory when not given.
    """
    logs.configure()
    manifests = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)
    options = Options(data, address, port, token_auth_file, kubeconfig, manifests)
    try:
        uvloop.run(run(options, _announce))
    except HypercobaltError as error:
        print(f"cobalt apiserver: {error}", file=sys.stderr)
        return 1
    return 0


async def _announce(server: Server) -> None:
    print(f"serving on {server.url}")
    file = shlex.quote(str(server.kubeconfig))
    print(f"try: kubectl --kubeconfig {file} get hypervisors", flush=True)
