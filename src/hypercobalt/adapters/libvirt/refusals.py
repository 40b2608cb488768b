"""Refusals that are an answer: a domain that is off, a call that the driver does not have."""

from __future__ import annotations

from collections.abc import Awaitable, Container
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.rpc.errors import RemoteError
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode

_Answer = TypeVar("_Answer")

UNSUPPORTED: Final = frozenset(
    {
        ErrorCode.NO_SUPPORT,
        ErrorCode.INVALID_ARG,  # an event or flag that an older daemon lacks
        ErrorCode.ARGUMENT_UNSUPPORTED,
        ErrorCode.OPERATION_UNSUPPORTED,
        ErrorCode.CONFIG_UNSUPPORTED,
        ErrorCode.RPC,  # a procedure that an older daemon lacks
    }
)
OFF: Final = frozenset({ErrorCode.NO_DOMAIN, ErrorCode.OPERATION_INVALID})
"""The domain is gone, or has no process."""

NOT_RUNNING: Final = OFF | UNSUPPORTED


async def unless(codes: Container[int], call: Awaitable[_Answer]) -> _Answer | None:
    """The answer; None when the daemon refuses with one of these codes.

    Raises:
        RpcError: it refuses for another reason, or the connection broke.
    """
    try:
        return await call
    except RemoteError as exc:
        if exc.code not in codes:
            raise
        return None
