"""Whether this machine can start an OpenStack, and what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypercobalt.lab.machine import facts, packages, preflight
from hypercobalt.lab.machine.preflight import Demand
from hypercobalt.lab.openstack import infra

_MEMORY_MIB = 4 * 1024  # and a little for a second one, that is killed


async def demand(folder: Path, hosts: int) -> None:
    """Install what is missing in CI; else skip the test that needs it, with the reason.

    Args:
        folder: on the disk that the environment would use.
        hosts: that it has.
    """
    in_ci = os.environ.get("CI") == "true"
    observed = await facts.observe(folder)
    verdict = preflight.decide(observed, Demand(hosts=hosts, guests=2))
    why = [lack.what for lack in (*verdict.lacks, *verdict.shortages)]
    if observed.memory_bytes < _MEMORY_MIB * preflight.MIB:
        why.append(f"{observed.memory_bytes // preflight.MIB} MiB of memory, not {_MEMORY_MIB}")
    missing = (*verdict.install, *infra.missing_packages())
    if missing and in_ci and not why:
        await packages.install(missing)
    elif missing:
        why.append(f"packages are missing: {' '.join(missing)}")
    text = f"no OpenStack can be started here: {'; '.join(why)}"
    if why and in_ci:
        pytest.fail(text)
    elif why:
        pytest.skip(text)
