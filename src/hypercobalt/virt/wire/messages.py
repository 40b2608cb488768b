"""Messages of the protocol: calls of the handler, replies and reports of the launcher.

Unknown fields are skipped and absent ones have defaults, so that handler and launcher of two
versions understand each other: a launcher runs for as long as its guest. A call that the launcher
does not know is refused, and the connection goes on.

Source: KubeVirt, pkg/handler-launcher-com/cmd (calls), pkg/virt-launcher/virtwrap/api (states).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeVar

import msgspec

from hypercobalt.virt.wire.frames import FrameError
from hypercobalt.vmi.phases import LifeCycle, LifeReason

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with its zone: one without cannot be compared with any other."""


_MOST_NICS: Final = 256  # more than a machine has slots
_SHOWN: Final = 256  # characters of an error, which quotes what was sent


class PausedBy(StrEnum):
    """Why a domain is paused, where that is shown to people; any other reason is `OTHER`."""

    OTHER = ""
    USER = "User"
    MIGRATION = "Migration"
    IO_ERROR = "IOError"


class DomainInterface(msgspec.Struct, frozen=True, omit_defaults=True):
    """A NIC of the running domain.

    Attributes:
        name: of the VMI's interface.
        mac: its address.
        device: of the pod, such as `tap0`.
    """

    name: str = ""
    mac: str = ""
    device: str = ""


class DomainReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The launcher's domain as it is now.

    Attributes:
        state: None while there is no domain.
        reason: of the state.
        paused_by: of a domain that is paused.
        shutdown_since: when its guest was first asked to shut down, UTC.
        marked_since: when the pod was told to end, UTC: the handler shuts the guest down then.
        machine: its machine type, expanded, such as `pc-q35-7.2`.
        emulated: it runs without KVM.
        interfaces: its NICs.
    """

    state: LifeCycle | None = None
    reason: LifeReason = LifeReason.OTHER
    paused_by: PausedBy = PausedBy.OTHER
    shutdown_since: Moment | None = None
    marked_since: Moment | None = None
    machine: str = ""
    emulated: bool = False
    interfaces: Annotated[tuple[DomainInterface, ...], msgspec.Meta(max_length=_MOST_NICS)] = ()


class DhcpOffer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the guest of a tap gets by DHCP, IPv4 alone.

    Attributes:
        bridge: device of the pod on which the guest asks, such as `k6t-eth0`.
        address: of the guest with the length of its network, `10.0.2.2/24`.
        server: address of who answers, `10.0.2.1`.
        gateway: of the guest; "" for none.
        dns: addresses of servers.
        host_name: of the guest.
        domain: that names are looked up in.
        routes: further ones, each a network and its gateway.
    """

    bridge: str
    address: str
    server: str
    gateway: str = ""
    dns: tuple[str, ...] = ()
    host_name: str = ""
    domain: str = ""
    routes: tuple[tuple[str, str], ...] = ()


class TapDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tap that the handler has made in the pod for one network.

    Attributes:
        device: such as `tap0`.
        mac: of the guest's NIC; "" leaves it to the VMI.
        mtu: bytes; None leaves it to the driver.
        dhcp: what its guest is told by DHCP, which needs its MAC; None answers nothing.
    """

    device: str
    mac: str = ""
    mtu: int | None = None
    dhcp: DhcpOffer | None = None


class LauncherCall(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="call"):
    """A call of the handler; each is safe to repeat."""


class Sync(LauncherCall, frozen=True, tag="Sync"):
    """Make the domain what the VMI asks for: define and start it once, resume what an error paused.

    Attributes:
        vmi: the object, as JSON.
        taps: by network.
        emulation: the guest runs without KVM.
    """

    vmi: msgspec.Raw
    taps: dict[str, TapDevice] = {}
    emulation: bool = False


class Pause(LauncherCall, frozen=True, tag="Pause"):
    """Pause the guest for its user."""


class Unpause(LauncherCall, frozen=True, tag="Unpause"):
    """Resume the guest."""


class Reset(LauncherCall, frozen=True, tag="Reset"):
    """Reset the machine, as by its button."""


class SoftReboot(LauncherCall, frozen=True, tag="SoftReboot"):
    """Have the guest reboot."""


class Shutdown(LauncherCall, frozen=True, tag="Shutdown"):
    """Have the guest shut down, and note when that was first asked for."""


class Kill(LauncherCall, frozen=True, tag="Kill"):
    """End QEMU by SIGTERM, so that it writes out what it holds."""


class Delete(LauncherCall, frozen=True, tag="Delete"):
    """Take note that the end of the domain is recorded: undefine it, and let the pod end."""


class GetDomain(LauncherCall, frozen=True, tag="GetDomain"):
    """Report the domain."""


class Ping(LauncherCall, frozen=True, tag="Ping"):
    """Show that the launcher answers."""


AnyCall = Sync | Pause | Unpause | Reset | SoftReboot | Shutdown | Kill | Delete | GetDomain | Ping


class CallMessage(msgspec.Struct, frozen=True):
    """A call with the number that its reply repeats."""

    id: int
    call: msgspec.Raw


class Problem(StrEnum):
    """Why a call failed: whether the same call can succeed later."""

    INVALID = "Invalid"  # the VMI has to be changed
    FAILED = "Failed"
    UNKNOWN_CALL = "UnknownCall"


class ReplyMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag="reply"):
    """The answer to a call.

    Attributes:
        id: of the call.
        problem: None if it succeeded.
        message: of the problem, for a person.
        domain: what the call reports of the domain.
    """

    id: int
    problem: Problem | None = None
    message: str = ""
    domain: DomainReport | None = None


class DomainMessage(msgspec.Struct, frozen=True, tag="domain"):
    """The domain, as a new connection finds it and whenever it changes."""

    domain: DomainReport


_encoder: Final = msgspec.json.Encoder()
_calls: Final[msgspec.json.Decoder[AnyCall]] = msgspec.json.Decoder(AnyCall)
_messages: Final = msgspec.json.Decoder(CallMessage)
_from_launcher: Final[msgspec.json.Decoder[ReplyMessage | DomainMessage]] = msgspec.json.Decoder(
    ReplyMessage | DomainMessage
)
_T = TypeVar("_T")


def encode(message: ReplyMessage | DomainMessage) -> bytes:
    return _encoder.encode(message)


def encode_call(id_: int, call: LauncherCall) -> bytes:
    return _encoder.encode(CallMessage(id_, msgspec.Raw(_encoder.encode(call))))


def decode_message(content: bytes) -> CallMessage:
    """Read the frame of a call, whose content may be unknown.

    Raises:
        FrameError: it is none.
    """
    return _decoded(_messages, content)


def decode_call(message: CallMessage) -> AnyCall:
    """Read the call itself.

    Raises:
        FrameError: this launcher has no such call.
    """
    return _decoded(_calls, bytes(message.call))


def decode_from_launcher(content: bytes) -> ReplyMessage | DomainMessage:
    """Read what a launcher sends.

    Raises:
        FrameError: it is no message.
    """
    return _decoded(_from_launcher, content)


def _decoded(decoder: msgspec.json.Decoder[_T], content: bytes) -> _T:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise FrameError(f"a message that cannot be read: {str(exc)[:_SHOWN]}") from exc
