"""From the command line to the operator's process, as `agent/launch.py` for agents."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Never

from hypercobalt.operator.process import ProcessSettings, encode_settings
from hypercobalt.tls.self_signed import self_signed


def become(settings: ProcessSettings) -> Never:
    """Replace this process by `python -m hypercobalt.operator`, which inherits its settings.

    It inherits the certificates of its pages, too.
    """
    if settings.metrics is not None and settings.metrics_secure:
        settings = replace(settings, metrics_certificate=_inherited(self_signed()))
    if settings.contract is not None and settings.contract_secure and not settings.contract_files:
        settings = replace(settings, contract_certificate=_inherited(self_signed()))
    descriptor = _inherited(os.memfd_create("settings", os.MFD_CLOEXEC))
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(encode_settings(settings))
    os.lseek(descriptor, 0, os.SEEK_SET)
    program = [sys.executable, "-m", "hypercobalt.operator", str(descriptor)]
    os.execv(sys.executable, program)  # noqa: S606 - our own interpreter and module


def _inherited(descriptor: int) -> int:
    os.set_inheritable(descriptor, True)
    return descriptor
