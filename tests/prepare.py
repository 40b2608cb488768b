"""Install and build, once, what the rings on real hosts and real servers need: `make prepare`.

Each of them would do it by itself. Two that run side by side would do it at the same time, and a
package that is installed under a running host changes what that sees.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir

from hypercobalt.errors import HypercobaltError
from hypercobalt.lab.commands import run
from hypercobalt.lab.guest import image, probe
from hypercobalt.lab.machine import facts, packages, preflight
from hypercobalt.lab.machine.preflight import Demand
from hypercobalt.lab.openstack import infra, schema, venv
from tests.lab.kit import emulators, oracle
from tests.pages import ROOT

_BUILD = timedelta(minutes=30)


async def prepare() -> None:
    """Do what is not done yet.

    Raises:
        HypercobaltError: a package cannot be had, or something does not build.
    """
    machine = await facts.observe(Path(gettempdir()))
    verdict = preflight.decide(machine, Demand(hosts=3, guests=2))
    if missing := (*verdict.install, *oracle.missing_packages(), *infra.missing_packages()):
        await packages.install(missing)
    await asyncio.gather(_servers(), _openstack(), emulators.ready())
    await probe.accelerators(await image.ready())  # by itself: it judges what the CPU does


async def _openstack() -> None:
    await schema.ready(await venv.ready())


async def _servers() -> None:
    for script in ("build-etcd", "build-kube-apiserver"):  # both may want the same Go first
        await run(str(ROOT / "scripts" / script), within=_BUILD)


if __name__ == "__main__":
    try:
        asyncio.run(prepare())
    except HypercobaltError as error:
        sys.exit(f"prepare: {error}")
