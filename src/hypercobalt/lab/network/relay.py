"""A bad cable: a process that carries frames between two interfaces, late and not all of them.

    python -m hypercobalt.lab.network.relay INTERFACE INTERFACE DELAY_MS LOSS_PERCENT

It stands in for the kernel's netem, which many kernels lack. Frames keep what the kernel has
about them (checksums still to be made, segments still to be cut) in the header that goes with each.

Source: packet(7); Linux, include/uapi/linux/virtio_net.h.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field

from hypercobalt.lab.notify_ready import notify_ready

_SOL_PACKET, _ADD_MEMBERSHIP, _VNET_HDR, _IGNORE_OUTGOING = 263, 1, 15, 23
_PROMISCUOUS = 1
_ETH_P_ALL = 3
_FRAME = 2**17  # bytes: the largest segment the kernel hands over, and its header
_MAX_WAITING = 20_000  # frames; a cable holds no more than so many


@dataclass(slots=True)
class Cable:
    """One direction of a cable. Pure: frames and times in, frames out.

    Args:
        delay: seconds that each frame is late.
        loss: share of frames that are lost, 0 to 1.
        chance: gives numbers from 0 to 1.
    """

    delay: float
    loss: float
    chance: random.Random
    waiting: deque[tuple[float, bytes]] = field(default_factory=deque[tuple[float, bytes]])

    def put(self, frame: bytes, now: float) -> None:
        """Take a frame, or lose it."""
        if len(self.waiting) < _MAX_WAITING and self.chance.random() >= self.loss:
            self.waiting.append((now + self.delay, frame))

    def take(self, now: float) -> list[bytes]:
        """The frames that are due, in their order."""
        due: list[bytes] = []
        while self.waiting and self.waiting[0][0] <= now:
            due.append(self.waiting.popleft()[1])
        return due

    def due_in(self, now: float) -> float | None:
        """Seconds to the next frame; None when there is none."""
        return max(0.0, self.waiting[0][0] - now) if self.waiting else None


def open_end(interface: str) -> socket.socket:
    """A socket that sees every frame of an interface, but not its own."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    end.setsockopt(_SOL_PACKET, _VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    index = socket.if_nametoindex(interface)
    member = struct.pack("IHH8s", index, _PROMISCUOUS, 0, b"")
    end.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, member)
    end.bind((interface, _ETH_P_ALL))
    return end


def carry(names: tuple[str, str], delay: float, loss: float) -> None:
    """Carry frames until one of the interfaces is gone."""
    first, second = (open_end(name) for name in names)
    chance = random.Random()  # noqa: S311 - no secret
    ways = {
        first: (second, Cable(delay, loss, chance)),
        second: (first, Cable(delay, loss, chance)),
    }
    notify_ready()
    while all(_exists(name) for name in names):
        waits = [cable.due_in(time.monotonic()) for _, cable in ways.values()]
        readable, _, _ = select.select(
            list(ways), [], [], min([1.0, *(w for w in waits if w is not None)])
        )
        for end in readable:
            _drain(end, ways[end][1])
        for target, cable in ways.values():
            for frame in cable.take(time.monotonic()):
                with contextlib.suppress(OSError):  # the other side is down, or full
                    target.send(frame)


def _drain(end: socket.socket, cable: Cable) -> None:
    with contextlib.suppress(OSError):  # empty, or down
        while True:
            cable.put(end.recv(_FRAME), time.monotonic())


def _exists(interface: str) -> bool:
    try:
        socket.if_nametoindex(interface)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    carry((sys.argv[1], sys.argv[2]), float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100)
