"""Puts the HA agent of one host together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry

from hypercobalt.adapters.libvirt.events import Event
from hypercobalt.adapters.libvirt.model import Disk
from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.node_agent.incidents.configuration import Configuration
from hypercobalt.node_agent.incidents.domain_log import DomainLogs
from hypercobalt.node_agent.incidents.journal import IncidentJournal
from hypercobalt.node_agent.incidents.judge import Judge
from hypercobalt.node_agent.incidents.kept_config import KeptConfig
from hypercobalt.node_agent.incidents.memory import HostMemory
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.probing import Probing
from hypercobalt.node_agent.incidents.recovery import Recoveries
from hypercobalt.node_agent.incidents.reports import Reports
from hypercobalt.node_agent.incidents.seen import SeenIncidents
from hypercobalt.node_agent.incidents.storage import Storage
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime import Clock, Kube, Recorder
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

_PATIENCE: Final = 2.0
"""Seconds for which events wait for a configuration at the start; without the API they must not
wait for ever."""


class Incidents:
    """The HA agent: `observe` runs from the start, `recover` while the agent's Lease is held.

    Args:
        boot: names the host's present boot.
        ended: whether the agent has ended an instance, to fence its host.
        config: the ConfigMap.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        board: Board,
        settings: NodeAgentSettings,
        hypervisor: Latest[Hypervisor],
        *,
        clock: Clock,
        boot: str,
        ended: Callable[[str], bool],
        config: Latest[ConfigMap],
        recorder: Recorder,
        registry: CollectorRegistry,
    ) -> None:
        store, metrics = Store(), IncidentMetrics(registry)
        journal = IncidentJournal(settings.state_dir)
        kept = KeptConfig(settings.state_dir, settings.ha_config)
        metrics.journal_failing.set_function(lambda: journal.failing or kept.failing)
        self._board = board
        self._config = Configuration(config, settings.ha_config, board, metrics, kept)
        active = self._config.active
        self._judge = Judge(
            libvirt,
            store,
            journal,
            metrics,
            clock=clock,
            boot=boot,
            ended=ended,
            config=active,
            logs=DomainLogs(settings.host_root),
        )
        self._probing = Probing(
            libvirt,
            store,
            clock=clock,
            config=active,
            take=self._judge.take,
            storage=Storage(settings.host_root),
            disks=self._disks,
            metrics=metrics,
        )
        self._reports = Reports(
            store, board, recorder, hypervisor, metrics, clock=clock, config=active
        )
        self._seen = SeenIncidents(store, hypervisor)
        self._memory = HostMemory(clock.now, settings.host_root)
        self._recoveries = Recoveries(
            kube,
            libvirt,
            store,
            settings,
            metrics,
            clock=clock,
            config=active,
            withheld=self._config.restraint,
            memory=self._memory.read,
        )

    def on_event(self, event: Event) -> None:
        """Take an event of libvirt; never waits."""
        self._judge.on_event(event)

    async def observe(self) -> None:
        """Judge what happens, probe, report and remember, until cancelled."""
        await self._judge.load()
        await self._config.load()
        await first(
            self._config.run(),
            self._judge_events(),
            self._probing.run(),
            self._reports.run(),
            self._memory.follow(),
            self._seen.run(),
        )

    async def recover(self) -> None:
        """Do what is due, until cancelled; not by what an earlier process has seen alone."""
        await self._config.listed()
        await self._judge.compared()
        await self._recoveries.run()

    async def _judge_events(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._config.settled()
        await self._judge.run()

    def _disks(self, uuid: str) -> Sequence[Disk]:
        inventory = self._board.parts.inventory
        domains = inventory.domains if inventory else ()
        return next((one.devices.disks for one in domains if one.uuid == uuid), ())
