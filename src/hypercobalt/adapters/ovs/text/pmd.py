"""dpif-netdev/pmd-perf-show: the threads that poll DPDK's ports.

Source: Open vSwitch's lib/dpif-netdev-perf.c, `pmd_perf_format_overall_stats`; lines come and go
with versions, so what is absent is no fault.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.ovs.model import Pmd
from hypercobalt.adapters.ovs.text.blocks import blocks

COMMAND: Final = "dpif-netdev/pmd-perf-show"
_THREAD: Final = re.compile(r"^pmd thread numa_id (\d{1,20}) core_id (\d{1,20}):$", re.MULTILINE)
_HEADER: Final = re.compile(r"^pmd thread (numa_id \d{1,20} core_id \d{1,20}):$")
_LINE: Final = re.compile(
    r"^ +(?:- )?([A-Z][A-Za-z ]*|(?:idle|busy|sleep) iterations): +(\d{1,20})\b"
)


def parse_pmds(text: str) -> tuple[Pmd, ...]:
    """Read the reply; none where no such thread runs.

    Raises:
        SwitchError: MALFORMED.
    """
    begin = _THREAD.search(text)
    found = blocks(COMMAND, _HEADER, text[begin.start() :] if begin else "")
    return tuple(_pmd(name, lines) for name, lines in found)


def _pmd(name: str, lines: list[str]) -> Pmd:
    _, numa, _, core = name.split()
    pairs = (found.groups() for line in lines if (found := _LINE.match(line)))
    return Pmd(int(numa), int(core), {key: int(value) for key, value in pairs})
