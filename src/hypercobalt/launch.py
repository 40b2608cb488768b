"""From a command to the process that it becomes: settings that pass through exec.

What reads command lines and makes certificates would otherwise stay in memory for good. Settings
hold no secret; they are passed in memory, since they can be longer than an argument may be.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from logging import INFO
from pathlib import Path
from typing import Never, TypeVar

import msgspec

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Settings of every process; each kind adds its own.

    Args:
        kubeconfig: file; None looks where kubectl and pods do.
        metrics: where `/metrics` is served; None: nowhere.
        metrics_secure: over TLS, to those whom the API server allows it.
        metrics_accept_api_server_tokens: tokens for the API server are accepted there, too.
        metrics_certificate: descriptor of the certificate and its key; None makes one.
        health: where `/healthz` and `/readyz` are served; None: nowhere.
        log_level: the lowest that is logged, as `logging` counts.
        log_text: log text rather than JSON; None: text on a terminal.
    """

    kubeconfig: Path | None = None
    metrics: Address | None = None
    metrics_secure: bool = False
    metrics_accept_api_server_tokens: bool = False
    metrics_certificate: int | None = None
    health: Address | None = None
    log_level: int = INFO
    log_text: bool | None = None


S = TypeVar("S", bound=ProcessSettings)


def encode_settings(settings: ProcessSettings) -> bytes:
    """Write settings for the process."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode_settings(data: bytes, kind: type[S]) -> S:
    """Read what `encode_settings` wrote.

    Raises:
        ConfigurationError: it did not.
    """
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=lambda _type, value: Path(value))
    except msgspec.DecodeError as exc:
        raise ConfigurationError(f"settings {data[:64]!r}: {exc}") from exc


def become(module: str, settings: ProcessSettings) -> Never:
    """Replace this process by `python -m MODULE DESCRIPTOR`; it inherits settings, certificates."""
    if settings.metrics is not None and settings.metrics_secure:
        settings = replace(settings, metrics_certificate=inherited(own_certificate()))
    program = [sys.executable, "-m", module, str(passed(settings))]
    os.execv(sys.executable, program)  # noqa: S606 - our own interpreter and module


def own_certificate() -> int:
    """A descriptor of a new certificate and its key, for a process that was given none."""
    # Imported here: a process is given one, and does not carry the library.
    from hypercobalt.tls.self_signed import self_signed  # noqa: PLC0415

    return self_signed()


def passed(settings: ProcessSettings) -> int:
    """A descriptor of settings, which the process inherits, reads once and closes."""
    descriptor = inherited(os.memfd_create("settings", os.MFD_CLOEXEC))
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(encode_settings(settings))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def inherited(descriptor: int) -> int:
    """Have the process inherit a descriptor, such as that of a certificate; return it."""
    os.set_inheritable(descriptor, True)
    return descriptor


def received(descriptor: str, kind: type[S]) -> S:
    """The settings that a command has passed.

    Raises:
        ConfigurationError: the argument is not a descriptor of settings.
    """
    try:
        with os.fdopen(int(descriptor), "rb") as file:
            data = file.read()
    except (OSError, ValueError) as exc:
        raise ConfigurationError(
            f"settings {descriptor[:64]!r}: not a descriptor; start the process by its command"
        ) from exc
    return decode_settings(data, kind)
