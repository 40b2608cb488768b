"""How far verdicts agree with the recorded ones: `python -m tests.unit.vmi.rates`."""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.unit.vmi.differences import DIFFERENCES
from tests.unit.vmi.verdicts import GROUPS, answer, difference, recorded


def main() -> None:
    counts = Counter[str]()
    for case in (case for group in GROUPS for case in recorded(group)):
        ours = answer(case)
        differs = difference(case, ours)
        counts["cases"] += 1
        counts["allowed or refused alike"] += not differs.startswith(("allowed", "refused"))
        if any(case.fields - {""}) and case.by == "validate":
            counts["refusals that name fields"] += 1
            counts["the same fields"] += not differs.startswith("names")
        if case.object is not None and ours.object is not None:
            counts["objects"] += 1
            counts["the same object"] += " is recorded, " not in differs
        counts["in the table of differences"] += case.id in DIFFERENCES
        counts["differences beside the table"] += bool(differs) and case.id not in DIFFERENCES
        counts["allowed there, not honoured here"] += bool(not case.by and ours.unsupported)
        counts["allowed there, refused here by decision"] += bool(not case.by and ours.refused)
        counts["allowed by both"] += not (case.by or ours.refused or ours.unsupported)
    for what, count in counts.items():
        sys.stdout.write(f"{count:6}  {what}\n")
    sys.stdout.write(f"{time.process_time():6.1f}  seconds of CPU\n")


if __name__ == "__main__":
    main()
