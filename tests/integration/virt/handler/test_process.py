"""`cobalt virt-handler` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import pytest
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, NODE, Lab

from hypercobalt.api.coordination import Lease
from hypercobalt.api.core import Node
from hypercobalt.api.kubevirt.console import ENDPOINT, read_endpoint
from hypercobalt.api.meta import ObjectMeta

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

CACHE = (
    "<qemuCaps><arch>x86_64</arch><machine type='tcg' name='pc-q35-7.2' alias='q35'/></qemuCaps>"
)


async def test_process_labels_its_node_publishes_its_address_holds_its_lease_and_leaves(
    lab: Lab, pods: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.xml").write_text(CACHE)
    await lab.kube.create(Node(metadata=ObjectMeta(name=NODE)))
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from hypercobalt.cli import main; main()", "virt-handler"),
        *("--kubeconfig", str(lab.kubeconfig), "--namespace", lab.namespace, "--node", NODE),
        *("--pods-dir", str(pods), "--capabilities", str(tmp_path), "--use-emulation"),
        *("--health-probe-bind-address", "127.0.0.1:0"),
        *("--diagnostics-bind-address", "127.0.0.1:0"),
    )
    try:

        async def labelled() -> bool:
            node = await lab.kube.get(Node, NODE)
            return node is not None and node.metadata.labels == {
                "kubevirt.io/schedulable": "true",
                "machine-type.node.kubevirt.io/pc-q35-7.2": "true",
                "machine-type.node.kubevirt.io/q35": "true",
            }

        await eventually(labelled, seconds=DEADLINE)

        async def reachable() -> bool:
            node = await lab.kube.get(Node, NODE)
            found = read_endpoint(node.metadata.annotations.get(ENDPOINT, "")) if node else None
            return found is not None and found.url.startswith("https://127.0.0.1:")

        await eventually(reachable, seconds=DEADLINE)
        lease = await lab.kube.get(Lease, f"virt-handler-{NODE}", lab.namespace)
        assert lease is not None
        assert lease.spec.holderIdentity
        started.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(started.wait(), DEADLINE) == 0
        node = await lab.kube.get(Node, NODE)
        assert node is not None
        assert node.metadata.labels["kubevirt.io/schedulable"] == "false"
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.wait()
        await lab.kube.delete(Node, NODE)
