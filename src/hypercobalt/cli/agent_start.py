"""From an agent's command line to its process, the same for every agent."""

from __future__ import annotations

from collections.abc import Callable

from hypercobalt.agent.launch import become
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.cli.common_flags import version_line
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.errors import HypercobaltError


def start(agent: str, settings: Callable[[], AgentSettings], *, version: bool) -> int:
    """Become the agent's process, or print its version.

    Args:
        agent: its command, such as `node-agent`; `hypercobalt.node_agent` is its module.
        settings: of the command line; raises HypercobaltError for flags that cannot be used.
        version: print the version only.

    Returns:
        The exit code of a process that did not become the agent.
    """
    if version:
        print(version_line(f"hypercobalt-{agent}"))
        return 0
    try:
        found = settings()
    except HypercobaltError as error:
        return report_error(agent, error)
    return become(f"hypercobalt.{agent.replace('-', '_')}", found)
