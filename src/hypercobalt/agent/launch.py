"""From the command line to the agent's process: settings over exec.

What reads command lines and makes certificates would otherwise stay in the agent's memory for good.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Never

from hypercobalt.agent.settings import AgentSettings, encode_settings


def become(module: str, settings: AgentSettings) -> Never:
    """Replace this process by `python -m MODULE SETTINGS`.

    It inherits the certificates of its pages. Few threads share glibc's memory arenas: one
    for each would keep some MiB that nothing uses.
    """
    if settings.metrics is not None and settings.metrics_secure:
        settings = replace(settings, metrics_certificate=_inherited())
    if settings.diagnostics is not None:
        settings = replace(settings, diagnostics_certificate=_inherited())
    env = {"MALLOC_ARENA_MAX": "1", **os.environ}
    program = [sys.executable, "-m", module, encode_settings(settings)]
    os.execve(sys.executable, program, env)  # noqa: S606 - our own interpreter and module


def _inherited() -> int:
    from hypercobalt.tls.self_signed import self_signed  # noqa: PLC0415 - slow

    certificate = self_signed()
    os.set_inheritable(certificate, True)
    return certificate
