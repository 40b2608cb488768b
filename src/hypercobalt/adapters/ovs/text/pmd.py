"""dpif-netdev/pmd-perf-show and pmd-rxq-show: the threads that poll DPDK's ports, and their queues.

Source: Open vSwitch's lib/dpif-netdev-perf.c, `pmd_perf_format_overall_stats`, and
lib/dpif-netdev.c, `pmd_info_show_rxq`; lines come and go with versions, so what is absent is no
fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.adapters.ovs.model import Pmd, PmdQueues, RxQueue
from hypercobalt.adapters.ovs.text.blocks import blocks

COMMAND: Final = "dpif-netdev/pmd-perf-show"
QUEUES: Final = "dpif-netdev/pmd-rxq-show"
_THREAD: Final = re.compile(r"^pmd thread numa_id (\d{1,20}) core_id (\d{1,20}):$", re.MULTILINE)
_HEADER: Final = re.compile(r"^pmd thread (numa_id \d{1,20} core_id \d{1,20}):$")
_LINE: Final = re.compile(
    r"^ +(?:- )?([A-Z][A-Za-z ]*|(?:idle|busy|sleep) iterations): +(\d{1,20})\b"
)
_ISOLATED: Final = re.compile(r"^ +isolated *: (true|false)$")
_QUEUE: Final = re.compile(
    r"^ +port: (\S+) +queue-id: +(\d{1,10}) \((enabled|disabled)\) +pmd usage: *(?:(\d{1,3}) %|.*)$"
)
_OVERHEAD: Final = re.compile(r"^ +overhead: +(\d{1,3}) %")


def parse_pmds(text: str) -> tuple[Pmd, ...]:
    """Read the reply to `COMMAND`; none where no such thread runs.

    Raises:
        SwitchError: MALFORMED.
    """
    return tuple(_pmd(name, lines) for name, lines in _threads(COMMAND, text))


def parse_queues(text: str) -> tuple[PmdQueues, ...]:
    """Read the reply to `QUEUES`; none where no such thread runs.

    Raises:
        SwitchError: MALFORMED.
    """
    return tuple(_queues(name, lines) for name, lines in _threads(QUEUES, text))


def _threads(command: str, text: str) -> Iterator[tuple[str, list[str]]]:
    """Names and lines of the threads of a reply."""
    begin = _THREAD.search(text)
    return blocks(command, _HEADER, text[begin.start() :] if begin else "")


def _queues(name: str, lines: list[str]) -> PmdQueues:
    _, numa, _, core = name.split()
    isolated = next((m[1] == "true" for line in lines if (m := _ISOLATED.match(line))), None)
    overhead = next((int(m[1]) for line in lines if (m := _OVERHEAD.match(line))), None)
    queues = (found.groups() for line in lines if (found := _QUEUE.match(line)))
    return PmdQueues(
        int(numa),
        int(core),
        isolated,
        overhead,
        tuple(
            RxQueue(port, int(number), state == "enabled", int(usage) if usage else None)
            for port, number, state, usage in queues
        ),
    )


def _pmd(name: str, lines: list[str]) -> Pmd:
    _, numa, _, core = name.split()
    pairs = (found.groups() for line in lines if (found := _LINE.match(line)))
    return Pmd(int(numa), int(core), {key: int(value) for key, value in pairs})
