"""What is captured, and the most of it.

Source: tcpdump(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

DURATION: Final = timedelta(seconds=60)
PACKETS: Final = 10_000
SNAPLEN: Final = 96
LONGEST: Final = 65_535
"""Largest `snaplen`, in bytes."""
SHORTEST: Final = 14
"""Smallest `snaplen`, in bytes: an Ethernet header."""
BYTES: Final = 32 * 1024 * 1024
"""Most bytes of a whole capture."""


@dataclass(frozen=True, slots=True)
class CaptureOrder:
    """One capture.

    Args:
        device: name in the kernel.
        expression: a filter of pcap-filter(7); "" takes every packet.
        duration: at most DURATION.
        packets: at most PACKETS.
        snaplen: bytes of each packet, SHORTEST to LONGEST.
    """

    device: str
    expression: str = ""
    duration: timedelta = DURATION
    packets: int = PACKETS
    snaplen: int = SNAPLEN
