"""The way from libvirt to a domain's emulator: whether it answers, without waiting for it."""

from __future__ import annotations

from hypercobalt.adapters.libvirt.model import ControlInfo
from hypercobalt.adapters.libvirt.refusals import NOT_RUNNING, unless
from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef
from hypercobalt.adapters.libvirt.vocabulary import ControlState


async def control_info(client: Client, ref: DomainRef) -> ControlInfo | None:
    """How the way is; None when the domain is gone or off, or its driver does not report it."""
    call = client.call(protocol.DOMAIN_GET_CONTROL_INFO, protocol.DomainFlags(ref))
    found = await unless(NOT_RUNNING, call)
    return found and ControlInfo(_state(found.state), found.milliseconds / 1000)


def _state(number: int) -> ControlState:
    return ControlState(number) if 0 <= number < len(ControlState) else ControlState.ERROR
