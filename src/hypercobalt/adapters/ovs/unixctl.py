"""Commands to a daemon over its control socket, as `ovs-appctl` sends them.

A daemon serves one command at a time on its main thread, so none that walks flows belongs on the
regular path. A stopped daemon accepts the connection and never answers: everything has a deadline.

Source: ovs-appctl(8); Open vSwitch's lib/unixctl.c; errors measured on 3.1.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.adapters.ovs import jsonrpc
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote

DEADLINE: Final = 2.0
"""Seconds for a connection and for each command; a healthy daemon takes a few milliseconds."""
LIMIT: Final = 4 * 1024 * 1024
"""Bytes of the largest reply: `dpctl/show -s` of 10,000 ports is 2 MB."""
_UNKNOWN: Final = "is not a valid command"


class UnixControl:
    """A connection to one daemon, made by `connect`.

    Attributes:
        process: the daemon's process id as this process sees it; None in another PID namespace.
    """

    def __init__(self, stream: jsonrpc.Stream) -> None:
        self._stream = stream
        self.process = stream.peer_process()

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    async def run(self, command: str, *arguments: str, deadline: float = DEADLINE) -> str:
        """Run a command, and return its text.

        Args:
            command: such as `bond/show`.
            arguments: of it, strings only.
            deadline: seconds until the reply.

        Raises:
            SwitchError: UNKNOWN_COMMAND when the daemon's version lacks the command, REFUSED when
                the command failed, TIMEOUT, CLOSED or MALFORMED.
        """
        try:
            reply = await self._stream.call(command, arguments, deadline=deadline)
        except SwitchError as exc:
            if exc.fault is ProducerFault.REFUSED and _UNKNOWN in str(exc):
                raise SwitchError(ProducerFault.UNKNOWN_COMMAND, str(exc)) from exc
            raise
        try:
            return msgspec.json.decode(reply, type=str | None) or ""
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise SwitchError(
                ProducerFault.MALFORMED,
                f"{self._stream.peer}: the reply to {command} is not text: {exc}",
            ) from exc


async def connect(socket: Path, *, deadline: float = DEADLINE, limit: int = LIMIT) -> UnixControl:
    """Connect to a control socket.

    Args:
        socket: its path.
        deadline: seconds for the connection.
        limit: bytes of the largest reply that is read.

    Raises:
        SwitchError: SOCKET_MISSING, CONNECTION_REFUSED, NOT_PERMITTED, TIMEOUT or CLOSED.
    """
    return UnixControl(
        await jsonrpc.connect(Remote("unix", str(socket)), deadline=deadline, limit=limit)
    )
