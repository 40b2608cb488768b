"""Errors of libvirt's RPC, unchanged; the rooms above translate them for their calls."""

from __future__ import annotations


class RpcError(Exception):
    """Root of them."""


class XdrError(RpcError):
    """Bytes or a value that are not what they should be; names the field, never the contents."""


class ProtocolError(RpcError):
    """A message that does not keep to the protocol; from a daemon, its connection is over."""


class ClosedError(RpcError):
    """There is no connection, or it ended before the answer came; the message has the reason."""


class RemoteError(RpcError):
    """The daemon refuses; the message is libvirt's own.

    Args:
        message: libvirt's.
        code: virErrorNumber.
        domain: virErrorDomain, the part of libvirt that reports it.
        level: virErrorLevel.
        number: errno of an error of the system; 0 for others.
    """

    def __init__(
        self, message: str, *, code: int, domain: int, level: int, number: int = 0
    ) -> None:
        super().__init__(message)
        self.number = number
        self.code = code
        self.domain = domain
        self.level = level


class NotSupportedError(RemoteError):
    """The driver does not offer the call, or the daemon is too old for its procedure."""
