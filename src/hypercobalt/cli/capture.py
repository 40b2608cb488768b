"""`cobalt capture`: packets of a host's port, as a file that tcpdump and wireshark read."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, BinaryIO, Final

from cyclopts import Parameter

from hypercobalt.adapters.capture.pcap import HEADER, RECORD, Records
from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.cli import agents, api_command, exit_codes
from hypercobalt.cli.api_command import Kubeconfig, Node
from hypercobalt.errors import HypercobaltError, InvalidRequestError, TransientError
from hypercobalt.runtime.client.pinned import Reply
from hypercobalt.text import printable

_SPARE: Final = 15.0  # seconds beyond the capture's own time
_STDOUT: Final = "-"


def capture(
    node: Node,
    port: str,
    /,
    *,
    filter: Annotated[str, Parameter(name="--filter")] = "",
    write: Annotated[
        str, Parameter(name=["--write", "-w"], allow_leading_hyphen=True)  # as a name, - alone
    ] = _STDOUT,
    duration: int = 60,
    packets: int = 10_000,
    snaplen: int = 96,
    uplink: Annotated[bool, Parameter(negative="")] = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Capture packets of a port of a host, until Ctrl-C or a limit ends it.

    Parameters
    ----------
    port
        Name of the port in Open vSwitch, or its iface-id, which is the UUID of the Neutron port.
    filter
        As tcpdump's, in words of pcap-filter(7), numbers and addresses; names are not resolved.
    write
        A file, or - for standard output.
    duration
        Seconds, at most 60.
    packets
        At most 10000.
    snaplen
        Bytes of each packet, 14 to 65535.
    uplink
        For a port that is no instance's; needs the right `ovsnodes/capture-uplink`.
    """
    if write == _STDOUT and sys.stdout.isatty():
        exit_codes.print_error("capture", "standard output is a terminal: use -w FILE, or a pipe")
        return exit_codes.INVALID_REQUEST
    parameters = {
        "port": port,
        "filter": filter,
        "seconds": str(duration),
        "packets": str(packets),
        "snaplen": str(snaplen),
    }
    use = "capture-uplink" if uplink else "capture"
    opened = agents.opened(
        OVSNode,
        node,
        use,
        parameters,
        method="POST",
        idle=duration + _SPARE,
        kubeconfig=kubeconfig,
    )
    bounds = _Bounds(duration, packets, snaplen)
    work = _capture(opened, write, f"port {port} on {node}", bounds)
    return api_command.run("capture", work, interrupted="interrupted; the capture has ended")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What was requested: a captured host's agent sends more, or does not end."""

    duration: int  # seconds
    packets: int
    snaplen: int  # bytes


async def _capture(
    opened: AbstractAsyncContextManager[Reply], file: str, what: str, bounds: _Bounds
) -> int:
    most = HEADER + bounds.packets * (RECORD + bounds.snaplen)
    records = Records(longest=bounds.snaplen, most=most)
    # The file is opened when the capture runs: a refused capture keeps an existing file.
    async with opened as answer:
        with _target(file) as target:
            try:
                async with asyncio.timeout(bounds.duration + _SPARE):
                    async for chunk in answer.chunks:
                        target.write(records.feed(chunk))
                        target.flush()
                        if records.full:
                            raise HypercobaltError(
                                f"the agent has sent more than the {bounds.packets} packets of "
                                f"{bounds.snaplen} bytes that were requested; the rest is left out"
                            )
            except TimeoutError as error:
                raise TransientError(
                    f"the agent has not ended the capture after {bounds.duration} s; the packets "
                    "until then are written"
                ) from error
            finally:
                text = f"{records.packets} packets of {what}"
                print(printable(text), file=sys.stderr, flush=True)
    return 0


@contextmanager
def _target(file: str) -> Generator[BinaryIO]:
    """Where packets go; a file is for its owner alone.

    Raises:
        InvalidRequestError: it cannot be written.
    """
    if file == _STDOUT:
        yield sys.stdout.buffer
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidRequestError(f"-w {file}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as target:
        yield target
