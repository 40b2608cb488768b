"""Common parts of commands that use the API: connection, run, error messages."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt import logs
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.cli import exit_codes
from hypercobalt.errors import HypercobaltError, InvalidRequestError
from hypercobalt.runtime import Connection, Kube, Limits, NotFoundError, load_connection
from hypercobalt.runtime.client.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    UnauthorizedError,
)

_LIMITS: Final = Limits(deadline=timedelta(seconds=10))
_SHOWN: Final = 20  # names in a message

LAB: Final = Path(".lab/api/kubeconfig")
"""Kubeconfig of a lab in this directory; `cobalt lab up` writes it."""

Kubeconfig = Annotated[
    Path | None,
    Parameter(
        help="As kubectl's; else $KUBECONFIG, the lab in this directory, the pod's service "
        "account, ~/.kube/config."
    ),
]
Node = Annotated[
    str, Parameter(help="Name of the host, as its Node and its other objects have it.")
]


def connection(kubeconfig: Path | None, env: Mapping[str, str] | None = None) -> Connection:
    """Find the address and credentials of the API server.

    Raises:
        ConfigurationError: no kubeconfig was found, or the one found is unusable.
    """
    variables = os.environ if env is None else env
    if kubeconfig is None and not variables.get("KUBECONFIG") and LAB.exists():
        return load_connection(LAB)
    return load_connection(kubeconfig, env=variables)


def client(kubeconfig: Path | None) -> Kube:
    """A client for the API with a short deadline: a person waits at the terminal."""
    return Kube(connection(kubeconfig), field_manager="cobalt", limits=_LIMITS)


def run(
    command: str,
    work: Coroutine[object, object, int],
    *,
    interrupted: str = "",
    unavailable: int = exit_codes.UNAVAILABLE,
) -> int:
    """Run a command to its end; an error is printed in one line.

    Args:
        command: its name, for messages.
        work: returns the exit code.
        interrupted: message after Ctrl-C, which names what keeps running.
        unavailable: exit code while the API is away or refuses.
    """
    logs.configure(level=logging.ERROR)
    try:
        return asyncio.run(work)
    except HypercobaltError as error:
        exit_codes.print_error(command, f"{error}{_way_out(error)}")
        code = exit_codes.exit_code(error)
        return unavailable if code == exit_codes.UNAVAILABLE else code
    except KeyboardInterrupt:
        print(file=sys.stderr)
        exit_codes.print_error(command, interrupted or "interrupted")
        return exit_codes.INTERRUPTED


def _way_out(error: HypercobaltError) -> str:
    """The remedy when the API server does not answer, or refuses the credentials."""
    if isinstance(error, UnauthorizedError):
        return "; the credentials in the kubeconfig are invalid, or have expired"
    if isinstance(error, (ConnectionFailedError, DeadlineExceededError)):
        return "; check that the API server runs, and `server` in the kubeconfig"
    return ""


async def hypervisor(kube: Kube, name: str) -> Hypervisor:
    """The Hypervisor of that name.

    Raises:
        InvalidRequestError: the Hypervisor does not exist; the message lists the existing ones.
    """
    found = await kube.get(Hypervisor, name)
    if found is not None:
        return found
    try:
        known = [one.metadata.name for one in (await kube.list(Hypervisor)).items]
    except NotFoundError as exc:
        raise InvalidRequestError("this API server has no Hypervisors; check --kubeconfig") from exc
    raise InvalidRequestError(f"there is no Hypervisor {name}; {there_are(known)}")


def there_are(names: Iterable[str]) -> str:
    """List the existing names, for a message about a name that does not exist."""
    known = sorted(names)
    more = ", …" if len(known) > _SHOWN else ""
    return f"there are: {', '.join(known[:_SHOWN])}{more}" if known else "there are none"
