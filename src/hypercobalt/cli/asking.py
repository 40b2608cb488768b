"""What the commands of a person's day have in common: finding the API, and how they end.

Exit codes: 0 done; 1 the API is away or refuses; 2 invalid request; 3 the Eviction failed; 4 it was
cancelled; 130 interrupted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt import logs
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.errors import HypercobaltError
from hypercobalt.operator.wording import printable
from hypercobalt.runtime import Connection, Kube, NotFoundError, load_connection

UNAVAILABLE: Final = 1
WRONG: Final = 2
FAILED: Final = 3
CANCELLED: Final = 4
INTERRUPTED: Final = 130

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


class InvalidRequestError(HypercobaltError):
    """The request cannot be served: a name, a value or the state of an object is in the way."""


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
    """A client for the API, as a person's tool."""
    return Kube(connection(kubeconfig), field_manager="cobalt")


def run(
    command: str,
    work: Coroutine[object, object, int],
    *,
    interrupted: str = "",
    unavailable: int = UNAVAILABLE,
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
    except InvalidRequestError as error:
        complain(command, str(error))
        return WRONG
    except HypercobaltError as error:
        complain(command, str(error))
        return unavailable
    except KeyboardInterrupt:
        print(file=sys.stderr)
        complain(command, interrupted or "interrupted")
        return INTERRUPTED


def complain(command: str, text: str) -> None:
    """Print an error; names and messages of objects in it may be hostile."""
    print(printable(f"cobalt {command}: {text}"), file=sys.stderr, flush=True)


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
