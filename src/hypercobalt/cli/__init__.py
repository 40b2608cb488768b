"""The `cobalt` command: one thin module per command group, and the only room that prints."""

from __future__ import annotations

import os
import signal
import sys

from cyclopts import App

app = App(name="cobalt", help="The hypervisor layer for Kubernetes.")

# By import path, so that a command loads only what it needs itself; `help` so that listing the
# commands imports none of them.
app.command(
    "hypercobalt.cli.crds:crds", name="crds", help="Print the CustomResourceDefinitions as YAML."
)
app.command(
    "hypercobalt.cli.apiserver:app",
    name="apiserver",
    help="Serve the Kubernetes API with hypercobalt's types, for one machine.\n\n"
    "Runs until SIGTERM or SIGINT. Everything is kept in the data directory; a second server on it "
    "is refused.",
)
app.command(
    "hypercobalt.cli.operator:operator",
    name="operator",
    help="Make Hypervisors out of Nodes, and keep what belongs to them.",
)
app.command(
    "hypercobalt.cli.node_agent:node_agent",
    name="node-agent",
    help="Watch one hypervisor host and report it to Kubernetes.",
)
app.command("hypercobalt.cli.evict:evict", name="evict", help="Move instances away from a host.")
app.command(
    "hypercobalt.cli.maintain:maintain", name="maintain", help="Take a host out of service."
)
app.command("hypercobalt.cli.maintain:resume", name="resume", help="Put a host back into service.")
app.command(
    "hypercobalt.cli.explain:explain",
    name="explain",
    help="Explain the state of a host, an Eviction or a Migration, and what to do.",
)
app.command("hypercobalt.cli.lab:lab", name="lab", help="Several real hosts on one machine.")


def main() -> None:
    """Entry point of the `cobalt` command."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:  # while a command is still being loaded
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # `cobalt crds | head`: who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
