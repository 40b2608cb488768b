"""Follows the ConfigMap with the HA agent's configuration; the last valid one counts.

A change takes effect with the next event: nothing is restarted, no connection made anew. Until the
ConfigMap was listed once, whether it exists or not, nothing is done: it may order a dry run.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor_conditions import HaConfigReason, HypervisorConditionType
from hypercobalt.ha.config import HaConfig, InvalidConfigError, hash_of, parse
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

_TYPE: Final = HypervisorConditionType.HA_CONFIG_VALID


class Configuration:
    """The configuration that is active.

    Args:
        stored: the ConfigMap; None as its value when there is none.
        about: its namespace and name.
    """

    def __init__(
        self, stored: Latest[ConfigMap], about: str, board: Board, metrics: IncidentMetrics
    ) -> None:
        self._stored, self._about, self._board, self._metrics = stored, about, board, metrics
        self._active, self._hash = HaConfig(), "defaults"
        self._known = asyncio.Event()

    def active(self) -> HaConfig:
        """The last valid configuration, the defaults before there was one."""
        return self._active

    async def known(self) -> None:
        """Wait until `active` is what the API server has, or the defaults for lack of that."""
        await self._known.wait()

    async def run(self) -> None:
        """Follow the ConfigMap until cancelled."""
        await self._stored.listed()
        stored = self._stored.value
        while True:
            self._take(stored)
            self._known.set()
            stored = await self._stored.changed(stored)

    def _take(self, stored: ConfigMap | None) -> None:
        yes, no = ConditionStatus.TRUE, ConditionStatus.FALSE
        if stored is None:
            self._active, self._hash = HaConfig(), "defaults"
            self._metrics.config_valid.set(1)
            text = f"ConfigMap {self._about} does not exist; the defaults apply"
            self._board.put_condition(_TYPE, yes, HaConfigReason.DEFAULTS, text)
            return
        try:
            self._active = parse(stored.data)
        except InvalidConfigError as error:
            log.warning("ha_config_invalid", config=self._about, error=str(error))
            self._metrics.config_valid.set(0)
            text = f"ConfigMap {self._about}: {error}. Configuration {self._hash} stays active"
            self._board.put_condition(_TYPE, no, HaConfigReason.INVALID, text)
            return
        self._hash = hash_of(stored.data)
        log.info("ha_config_active", config=self._about, hash=self._hash)
        self._metrics.config_valid.set(1)
        text = f"Configuration {self._hash} is active" + (
            ": dry run, nothing is done" if self._active.dry_run else ""
        )
        self._board.put_condition(_TYPE, yes, HaConfigReason.VALID, text)
