"""The API alone, where the machine cannot boot hosts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hypercobalt.api import crd
from hypercobalt.apiserver.server import Server, ServerOptions, run
from hypercobalt.cli import lab_screen as screen
from hypercobalt.cli.tables import table
from hypercobalt.lab.kinds import served_kinds


async def serve_api_only(data: Path, port: int) -> int:
    """Serve the API with our types on 127.0.0.1, and show them. SIGINT and SIGTERM stop it.

    Raises:
        HypercobaltError: the data directory or the port cannot be used.
    """
    manifests = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)
    await run(ServerOptions(data / "api", port=port, manifests=manifests), _show)
    print("\nstopped; everything is kept in", data)
    return 0


async def _show(server: Server) -> None:
    kinds = await served_kinds(server.kubeconfig)
    print(f"The API is served on {server.url} with these kinds:\n")
    rows = ((k.kind, ",".join(k.short_names), k.api_version, k.scope, k.objects) for k in kinds)
    for line in table(("KIND", "SHORT NAME", "API VERSION", "SCOPE", "OBJECTS"), rows):
        print(line)
    print(f"\nIn another terminal, try:\n{screen.preparation(server.kubeconfig)}")
    print("  kubectl apply -f examples/hypervisor.yaml")
    print("  kubectl get hypervisors -o wide")
    print("  kubectl explain hypervisor.spec\n\nCtrl-C stops it.", flush=True)
