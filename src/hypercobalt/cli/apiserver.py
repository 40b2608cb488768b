"""`cobalt apiserver`: the embedded Kubernetes API on one SQLite file, and copies of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import msgspec
import uvloop
from cyclopts import App, Parameter

from hypercobalt import logs
from hypercobalt.api import crd
from hypercobalt.apiserver.hooks import Hook
from hypercobalt.apiserver.node_lifecycle import GRACE
from hypercobalt.apiserver.server import Server, ServerOptions, run
from hypercobalt.cli.common_flags import Port, Span
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.cli.virt_flags import VirtFlags
from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime.memory import bound_memory
from hypercobalt.vmi.cluster import ClusterConfig

_VIRT = VirtFlags()

app = App(name="apiserver")
_BACKUP = "hypercobalt.cli.apiserver_backup"
app.command(f"{_BACKUP}:backup", name="backup", help="Copy a data directory while it is in use.")
app.command(f"{_BACKUP}:restore", name="restore", help="Make a data directory of a backup.")


@app.default
def apiserver(
    *,
    data: Path,
    address: str = "127.0.0.1",
    port: Port = 6443,
    token_auth_file: Annotated[Path | None, Parameter(name="--token-auth-file")] = None,
    kubeconfig: Path | None = None,
    node_monitor_grace_period: Span = GRACE,
    virt: bool = False,
    settings: VirtFlags = _VIRT,
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
    node_monitor_grace_period
        How long a Node may leave its Lease alone until its conditions become Unknown.
    virt
        Serve VirtualMachineInstances, which are defaulted and validated as by `cobalt virt-api`.
    """
    logs.configure()
    bound_memory()
    kinds = [crd.manifest(kind) for kind in crd.KINDS]
    hooks: tuple[Hook, ...] = ()
    try:
        if virt:
            kind, hook = _instances(settings.cluster())
            kinds.append(kind)
            hooks = (hook,)
        options = ServerOptions(
            data,
            address,
            port,
            token_auth_file,
            kubeconfig,
            tuple(msgspec.json.encode(kind) for kind in kinds),
            node_monitor_grace_period,
            hooks=hooks,
        )
        uvloop.run(run(options, _announce))
    except HypercobaltError as error:
        return report_error("apiserver", error)
    return 0


def _instances(cluster: ClusterConfig) -> tuple[crd.Schema, Hook]:
    """The definition and the admission of VirtualMachineInstances."""
    # Imported here: a server without them does not carry KubeVirt's schema.
    from hypercobalt.api.kubevirt import definition  # noqa: PLC0415
    from hypercobalt.cli.vmi_hook import VMIHook  # noqa: PLC0415
    from hypercobalt.virt.api.verdicts import VMIAdmission  # noqa: PLC0415

    return definition.manifest(), VMIHook(VMIAdmission(cluster))


async def _announce(server: Server) -> None:
    print(f"serving on {server.url}")
    file = shlex.quote(str(server.kubeconfig))
    print(f"try: kubectl --kubeconfig {file} get hypervisors", flush=True)
