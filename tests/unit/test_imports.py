"""What starts often does not load the client of the API, which takes 0.2 seconds of CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEAN = {
    "an agent, until it becomes its own process": (
        "hypercobalt.cli.node_agent",
        "hypercobalt.cli.ovs_agent",
        "hypercobalt.tls.self_signed",
    ),
    "processes of a cluster, until they become their own": (
        "hypercobalt.cli.operator",
        "hypercobalt.cli.virt_handler",
    ),
    "the certificates of a server": ("hypercobalt.pki.certificates",),
    "the BMC of a lab's host": ("hypercobalt.lab.bmc.__main__",),
    "the kubelet of a lab's host": ("hypercobalt.lab.heartbeat",),
    "the shared disks of a lab": ("hypercobalt.lab.storage.server",),
}


@pytest.mark.parametrize("modules", LEAN.values(), ids=LEAN)
def test_client_of_the_api_is_not_loaded(modules: tuple[str, ...]) -> None:
    script = f"import sys, {', '.join(modules)}\nprint('hypercobalt.runtime' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
