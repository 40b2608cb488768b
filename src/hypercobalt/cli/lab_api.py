"""The API alone, where the machine cannot boot hosts."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from hypercobalt.api import crd
from hypercobalt.apiserver.server import Options, Server, run
from hypercobalt.lab.kinds import ServedKind, served_kinds


async def serve_api_only(data: Path, port: int) -> int:
    """Serve the API with our types on 127.0.0.1, and show them. SIGINT and SIGTERM stop it.

    Raises:
        HypercobaltError: the data directory or the port cannot be used.
    """
    manifests = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)
    await run(Options(data / "api", port=port, manifests=manifests), _show)
    print("\nstopped; everything is kept in", data)
    return 0


async def _show(server: Server) -> None:
    kinds = await served_kinds(server.kubeconfig)
    print(f"The API is served on {server.url} with these kinds:\n")
    print(table(kinds))
    kubectl = kubectl_command()
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


def kubectl_command() -> str:
    """The kubectl of this installation, or the one on the PATH."""
    beside = Path(sys.executable).parent / "kubectl"
    return str(beside) if beside.exists() else "kubectl"
