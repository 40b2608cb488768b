"""What a lab has left on the machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypercobalt.lab import cgroups, mounts, processes
from hypercobalt.lab import state as records
from hypercobalt.lab.network import bridge
from hypercobalt.lab.state import LabState


def leftovers(state: LabState, data: Path) -> list[str]:
    """Everything of a lab that the machine still has."""
    files = [str(file) for file in data.iterdir() if file.name != "lock"] if data.exists() else []
    return [
        *(f"process {process.role}" for process in processes.find(state.id)),
        *(f"mount {point}" for point in mounts.under(data)),
        *files,
        *(f"record {copy}" for copy in records.RUNNING.glob(f"{state.id}.json")),
        *named_leftovers(state),
    ]


def named_leftovers(state: LabState) -> list[str]:
    """What bears the lab's number; nothing when another lab has taken that meanwhile."""
    if belongs_to_another(state):
        return []
    links = [link.name for link in Path("/sys/class/net").iterdir()]
    links = [link for link in links if link == state.bridge or f"{state.prefix}-" in link]
    groups = [str(g) for h in cgroups.here(cgroups.BOUNDS) for g in h.glob(f"{state.prefix}-*")]
    nspawn = [str(left) for left in Path("/run/systemd/nspawn").glob(f"*/{state.prefix}-*")]
    rules = subprocess.run(("ip", "rule"), capture_output=True, text=True, check=True).stdout
    found = [
        *(f"interface {link}" for link in links),
        *(f"group {group}" for group in groups),
        *(rule for rule in rules.splitlines() if str(state.network) in rule),
        *nspawn,
    ]
    # A lab makes its bridge first and removes it last, so whose the traces are is known by that.
    return [] if belongs_to_another(state) else found


def belongs_to_another(state: LabState) -> bool:
    there = Path("/sys/class/net", state.bridge).exists()
    return there and not bridge.is_ours(state)
