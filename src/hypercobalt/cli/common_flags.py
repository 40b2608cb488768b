"""Flags that the operator and the node agent share: logs as zap has them, and the version.

Source: sigs.k8s.io/controller-runtime, pkg/log/zap/flags.go.
"""

from __future__ import annotations

import logging
import platform
from dataclasses import dataclass
from importlib.metadata import version as package_version
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from hypercobalt.errors import ConfigurationError

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "panic": logging.CRITICAL,
}
_Ignored = Annotated[str | None, Parameter(show=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LogFlags:
    """What is logged, and how; --zap-devel and the last two are accepted without effect.

    Parameters
    ----------
    zap_log_level
        debug, info, warn, error, panic, or a number: above 0 is debug.
    zap_encoder
        json or console; else console on a terminal and json elsewhere.
    """

    zap_log_level: str = "info"
    zap_encoder: Literal["json", "console"] | None = None
    zap_devel: Annotated[bool, Parameter(show=False)] = True
    zap_stacktrace_level: _Ignored = None
    zap_time_encoding: _Ignored = None

    def level(self) -> int:
        """The lowest level to log, as `logging` counts.

        Raises:
            ConfigurationError: there is no such level.
        """
        text = self.zap_log_level
        if text.isascii() and text.isdigit():
            return logging.DEBUG if int(text) > 0 else logging.INFO
        if text.lower() not in _LEVELS:
            raise ConfigurationError(
                f"--zap-log-level {text!r}: must be {', '.join(_LEVELS)} or 0-9"
            )
        return _LEVELS[text.lower()]

    def as_text(self) -> bool | None:
        """Whether to log text rather than JSON; None: text on a terminal."""
        return None if self.zap_encoder is None else self.zap_encoder == "console"


def version_line(component: str) -> str:
    """Component, version, operating system and architecture."""
    system = f"{platform.system().lower()}/{platform.machine()}"
    return f"{component} {package_version('hypercobalt')} {system}"
