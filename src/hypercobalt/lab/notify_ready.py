"""Report to what has started this process that it is ready.

Source: sd_notify(3).
"""

from __future__ import annotations

import os
import socket


def notify_ready() -> None:
    """Do it, by `$NOTIFY_SOCKET`, an address without a file."""
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.sendto(b"READY=1", "\0" + address[1:])
