"""`cobalt lab`: one machine as a small site; for now, the embedded API with our types."""

from __future__ import annotations

import logging
import shutil
import sys
from pathlib import Path

import msgspec
import uvloop
from cyclopts import App

from hypercobalt import logs
from hypercobalt.api import crd
from hypercobalt.apiserver.server import Options, Server, run
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab.kinds import ServedKind, served_kinds

lab = App(name="lab", help="One machine as a small site.")


@lab.command
def up(*, data: Path = Path(".lab"), port: int = 6443) -> int:
    """Start the embedded API server with hypercobalt's types, and show them. Ctrl-C stops it.

    Parameters
    ----------
    data
        Directory that holds everything the lab makes.
    port
        Port of the API server on 127.0.0.1; 0 takes a free one.
    """
    logs.configure(level=logging.WARNING)
    manifests = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)
    try:
        uvloop.run(run(Options(data / "api", port=port, manifests=manifests), _show))
    except HypercobaltError as error:
        print(f"cobalt lab: {error}", file=sys.stderr)
        return 1
    print("\nstopped; everything is kept in", data)
    return 0


async def _show(server: Server) -> None:
    kinds = await served_kinds(server.kubeconfig)
    print(f"The API is served on {server.url} with these kinds:\n")
    print(table(kinds))
    kubectl = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or "kubectl"
    print(f"\nIn another terminal, try:\n  export KUBECONFIG={server.kubeconfig.resolve()}")
    print(f"  {kubectl} apply -f examples/hypervisor.yaml")
    print(f"  {kubectl} get hypervisors -o wide")
    print(f"  {kubectl} explain hypervisor.spec\n\nCtrl-C stops it.", flush=True)


def table(kinds: tuple[ServedKind, ...]) -> str:
    """The kinds as aligned columns."""
    rows = [("KIND", "SHORT NAME", "API VERSION", "SCOPE", "OBJECTS")]
    rows += [(k.kind, ",".join(k.short_names), k.api_version, k.scope, k.objects) for k in kinds]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
