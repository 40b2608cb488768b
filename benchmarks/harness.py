"""What all benchmarks share: options, CPU time and memory of a process, the report."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_NANOSECONDS: Final = 1e9
_KIB_IN_MIB: Final = 1024


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A parser of the command line; `--json FILE` is for `report`."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="file for the result")
    return parser


def cpu_seconds(pid: int) -> float:
    """CPU time of a process's threads by the scheduler's count: clock ticks are 10 ms each."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / _NANOSECONDS


def memory_mib(pid: int | str, kind: str = "VmRSS") -> float:
    """Memory of a process: VmRSS is all of it in RAM, RssAnon its own, VmHWM the most so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / _KIB_IN_MIB for line in lines if line.startswith(kind))


def describe() -> dict[str, object]:
    """The machine, its load and the interpreter."""
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "arch": platform.machine(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "loadAverages": os.getloadavg(),
        }
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def report(path: Path | None, document: Mapping[str, object]) -> None:
    """Print on what it was measured, and write the result to the path of the option."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\n{os.cpu_count()} CPUs, Python {platform.python_version()}, load {load}")
    if path is not None:
        path.write_text(json.dumps({**document, **describe()}, indent=2) + "\n")


def report_runs(path: Path | None, runs: Sequence[Mapping[str, object]]) -> None:
    """Report some runs that have the same figures."""
    print(table(tuple(runs[0]), [tuple(map(str, one.values())) for one in runs]))
    report(path, {"results": runs})


def report_figures(path: Path | None, figures: Mapping[str, float]) -> None:
    """Report one run's figures, each in a line."""
    print(table(("figure", "value"), [(name, f"{value:.2f}") for name, value in figures.items()]))
    report(path, figures)
