"""One capture in a process of its own: `python -m … SETTINGS`, in the switch's network namespace.

Prints the stream; an error goes to standard error, with the exit code by its kind.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

import msgspec

from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.mirrors import Mirrors
from hypercobalt.adapters.ovs.model import Paths
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.agent.diagnostics.use import RefusedUseError, UseRequest
from hypercobalt.errors import HypercobaltError
from hypercobalt.ovs_agent.diagnostics.captures import Captures
from hypercobalt.ovs_agent.facts import Reading, SwitchFacts
from hypercobalt.runtime import SystemClock
from hypercobalt.runtime.routes import Requester, Stream

NODE = "kvm-1"
REFUSED, FAILED = 3, 4


class Order(msgspec.Struct):
    """What is captured; with an empty `port`, remains of earlier captures are removed instead."""

    rundir: str
    parameters: dict[str, str]
    use: str = "capture"
    by_mirror: bool = False


async def rows(switch: HostSwitch) -> SwitchFacts:
    async with aclosing(switch.watch()) as states:
        async for state in states:
            if isinstance(state, Database) and state.is_filled:
                return SwitchFacts(database=Reading(state))
    raise AssertionError


async def run(order: Order) -> None:
    # The namespace has its own /sys; /proc is the machine's.
    paths = Paths(Path(order.rundir), Path(order.rundir))
    switch, clock = HostSwitch(paths), SystemClock()
    mirrors = Mirrors(paths.ovs / "db.sock", NODE)
    if not order.parameters.get("port"):
        await mirrors.sweep(clock.now().timestamp())
        return
    facts = await rows(switch)
    captures = Captures(lambda: facts, switch, mirrors, clock, by_mirror=order.by_mirror)
    (use,) = (one for one in captures.uses() if one.name == order.use)
    answer = await use.handle(UseRequest(order.parameters, b"", Requester("jane")))
    assert isinstance(answer, Stream)
    async with aclosing(answer.chunks) as chunks:
        async for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def main(text: str) -> int:
    try:
        asyncio.run(run(msgspec.json.decode(text, type=Order)))
    except RefusedUseError as error:
        sys.stderr.write(str(error))
        return REFUSED
    except HypercobaltError as error:
        sys.stderr.write(str(error))
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
