"""From the command line to the agent's process."""

from __future__ import annotations

from dataclasses import replace
from typing import Never

from hypercobalt import launch
from hypercobalt.agent.settings import AgentSettings


def become(module: str, settings: AgentSettings) -> Never:
    """Replace this process by that of an agent, which inherits the certificates of its pages."""
    if settings.diagnostics is not None:
        certificate = launch.inherited(launch.own_certificate())
        settings = replace(settings, diagnostics_certificate=certificate)
    launch.become(module, settings)
