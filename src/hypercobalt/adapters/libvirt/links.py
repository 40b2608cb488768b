"""Makes calls within a deadline, with errors of the RPC translated into those of the port."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.port import (
    DiskInUseError,
    LibvirtError,
    LibvirtRefusedError,
    UnknownFieldError,
)
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import ClosedError, RemoteError, RpcError
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode

Answer = TypeVar("Answer")
Call = Callable[[Client], Awaitable[Answer]]

_LOCKED: Final = re.compile(
    r'Failed to get (shared )?"[a-z]+" lock|Lockspace resource .* is locked'
)
"""What QEMU and libvirt's lock daemon write of a disk that another process has open."""


async def within(
    deadline: float,
    what: str,
    answer: Awaitable[Answer],
    *,
    late: type[LibvirtError] = LibvirtError,
) -> Answer:
    """Wait for the answer of a call.

    Args:
        deadline: seconds.
        what: the call, for the error.
        answer: of it.
        late: the error when it does not come in time.

    Raises:
        LibvirtRefusedError: libvirt refuses, or there is no way to put it.
        DiskInUseError: it refuses to start a domain since a lock of its disks is held.
        UnknownFieldError: it refuses a document that it was to validate.
        LibvirtError: nothing is known of the outcome.
    """
    try:
        async with asyncio.timeout(deadline):
            return await answer
    except TimeoutError as exc:
        raise late(f"{what}: libvirt did not answer within {deadline:g} s") from exc
    except ClosedError as exc:
        raise LibvirtError(f"{what}: {exc}") from exc
    except RpcError as exc:
        raise _refusal(exc)(f"{what}: {exc}") from exc


def _refusal(error: RpcError) -> type[LibvirtRefusedError]:
    if _LOCKED.search(str(error)):
        return DiskInUseError
    if isinstance(error, RemoteError) and error.code == ErrorCode.XML_INVALID_SCHEMA:
        return UnknownFieldError
    return LibvirtRefusedError
