"""From a command line to the process that it becomes, the same for every process of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from hypercobalt import launch
from hypercobalt.cli.common_flags import version_line
from hypercobalt.cli.exit_codes import report_error
from hypercobalt.errors import HypercobaltError
from hypercobalt.launch import S


def start(
    component: str,
    module: str,
    settings: Callable[[], S],
    *,
    version: bool,
    become: Callable[[str, S], Never] = launch.become,
) -> int:
    """Become a process, or print its version.

    Args:
        component: its name, such as `hypercobalt-node-agent` of the command `node-agent`.
        module: what `python -m` runs.
        settings: of the command line; raises HypercobaltError for flags that cannot be used.
        version: print the version only.
        become: replaces this process; agents have one of their own.

    Returns:
        The exit code of a process that was not replaced.
    """
    if version:
        print(version_line(component))
        return 0
    try:
        made = settings()
    except HypercobaltError as error:
        return report_error(component.removeprefix("hypercobalt-"), error)
    return become(module, made)
