"""The `cobalt` command: one thin module per command group, and the only room that prints."""

from __future__ import annotations

from cyclopts import App

app = App(name="cobalt", help="The hypervisor layer for Kubernetes.")


def main() -> None:
    """Entry point of the `cobalt` command."""
    app()
