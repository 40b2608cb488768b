"""Flags that the operator and the agents share: where the API is, pages, logs as zap has them.

Source: sigs.k8s.io/controller-runtime, pkg/log/zap/flags.go.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter, Token, validators

from hypercobalt.api.duration import DurationError, parse_duration
from hypercobalt.errors import ConfigurationError

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "panic": logging.CRITICAL,
}
_Ignored = Annotated[str | None, Parameter(show=False)]


def _span(_type: type[timedelta], tokens: Sequence[Token]) -> timedelta:
    """A duration of the command line, as Go and the pages write it.

    Raises:
        ValueError: it cannot be read, or is not positive.
    """
    text = tokens[0].value
    try:
        found = parse_duration(text)
    except DurationError:
        found = timedelta(0)
    if found <= timedelta(0):
        raise ValueError(f"{text!r} must be a positive duration, such as 90s, 10m or 1h")
    return found


Span = Annotated[timedelta, Parameter(converter=_span)]
Port = Annotated[int, Parameter(validator=validators.Number(gte=0, lte=65535))]
Kubeconfig = Annotated[
    Path | None,
    Parameter(
        help="As kubectl's; else $KUBECONFIG, the pod's service account, ~/.kube/config.",
    ),
]
MetricsAddress = Annotated[
    str, Parameter(help="HOST:PORT of /metrics; :PORT for all addresses, 0 for none.")
]
MetricsSecure = Annotated[
    bool, Parameter(help="Serve /metrics over TLS, to users that the API server authorizes.")
]
MetricsAcceptApiServerTokens = Annotated[
    bool,
    Parameter(
        help="Admit tokens for the API server to /metrics as well. Whoever answers in the place of "
        "that page, as a captured host does, can use them at the API server."
    ),
]
HealthAddress = Annotated[
    str,
    Parameter(help="HOST:PORT of /healthz and /readyz; :PORT for all addresses, 0 for none."),
]
DiagnosticsAddress = Annotated[
    str,
    Parameter(
        help="HOST:PORT of the diagnostics server, over TLS; :PORT for all "
        "addresses, published by HOST_IP_ADDRESS or as the one that leads to the API server; "
        "0 for none."
    ),
]
Version = Annotated[bool, Parameter(help="Print the version and exit.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LogFlags:
    """Level and format of the log; --zap-devel and the last two are accepted without effect.

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
