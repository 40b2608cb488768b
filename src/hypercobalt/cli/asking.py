"""What the commands that use the API have in common: the connection, the run, its errors."""

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
from hypercobalt.cli import endings
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
"""Of a lab in this directory: `cobalt lab up` puts it there."""

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
    """Where the API is.

    Raises:
        ConfigurationError: nothing found, or what was found is unusable.
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
    unavailable: int = endings.UNAVAILABLE,
) -> int:
    """Run a command to its end; an error is printed in one line.

    Args:
        command: its name, for messages.
        work: gives the exit code.
        interrupted: what Ctrl-C leaves behind, in words.
        unavailable: exit code while the API is away or refuses.
    """
    logs.configure(level=logging.ERROR)
    try:
        return asyncio.run(work)
    except HypercobaltError as error:
        endings.complain(command, f"{error}{_way_out(error)}")
        code = endings.exit_code(error)
        return unavailable if code == endings.UNAVAILABLE else code
    except KeyboardInterrupt:
        print(file=sys.stderr)
        endings.complain(command, interrupted or "interrupted")
        return endings.INTERRUPTED


def _way_out(error: HypercobaltError) -> str:
    """What to do about an API server that does not answer, or refuses the credentials."""
    if isinstance(error, UnauthorizedError):
        return "; the credentials in the kubeconfig are invalid, or have expired"
    if isinstance(error, (ConnectionFailedError, DeadlineExceededError)):
        return "; check that the API server runs, and `server` in the kubeconfig"
    return ""


async def hypervisor(kube: Kube, name: str) -> Hypervisor:
    """The Hypervisor of that name.

    Raises:
        InvalidRequestError: there is none; the message names those that there are.
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
    """What there is instead of what was named."""
    known = sorted(names)
    more = ", …" if len(known) > _SHOWN else ""
    return f"there are: {', '.join(known[:_SHOWN])}{more}" if known else "there are none"
