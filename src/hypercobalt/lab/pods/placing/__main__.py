"""The scheduler of a lab, a process of its own with the rights of one.

python -m hypercobalt.lab.pods.placing KUBECONFIG
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hypercobalt import logs
from hypercobalt.lab.pods.placing.scheduler import MANAGER, add_scheduler
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection


async def run(kubeconfig: Path) -> None:
    """Place pods until the process has to stop.

    Raises:
        ConfigurationError: the kubeconfig cannot be used.
    """
    metrics = Metrics()
    async with Kube(load_connection(kubeconfig), field_manager=MANAGER, metrics=metrics) as kube:
        manager = Manager(kube, metrics=metrics)
        add_scheduler(manager)
        await manager.run()


if __name__ == "__main__":
    logs.configure()
    asyncio.run(run(Path(sys.argv[1])))
