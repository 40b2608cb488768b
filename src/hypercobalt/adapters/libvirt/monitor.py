"""The way from libvirt to a domain's emulator: whether it answers, without waiting for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

from hypercobalt.adapters.libvirt.model import ControlInfo
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import RemoteError
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.subscriptions import UNSUPPORTED
from hypercobalt.adapters.libvirt.vocabulary import ControlState

_Answer = TypeVar("_Answer")

NOT_RUNNING: Final = {ErrorCode.NO_DOMAIN, ErrorCode.OPERATION_INVALID} | UNSUPPORTED


async def control_info(client: Client, ref: DomainRef) -> ControlInfo | None:
    """How the way is; None when the domain is gone or off, or its driver does not know."""
    asked = client.call(protocol.DOMAIN_GET_CONTROL_INFO, protocol.DomainFlags(ref))
    found = await unless_off(asked)
    return found and ControlInfo(_state(found.state), found.milliseconds / 1000)


async def unless_off(call: Awaitable[_Answer]) -> _Answer | None:
    """The answer; None when the domain is gone or off, or its driver has no such call."""
    try:
        return await call
    except RemoteError as exc:
        if exc.code not in NOT_RUNNING:
            raise
        return None


def _state(number: int) -> ControlState:
    return ControlState(number) if 0 <= number < len(ControlState) else ControlState.ERROR
