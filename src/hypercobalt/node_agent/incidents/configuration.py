"""Follows the ConfigMap with the HA agent's configuration; the last valid one counts.

A change takes effect with the next event: nothing is restarted, no connection made again. The last
valid ConfigMap is kept over a restart: events are judged by it until the API has answered. Until
then no instance is recovered: the ConfigMap may order a dry run. Nor is an instance recovered while
the ConfigMap is invalid, or does not fit its type, and no valid one is known.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.hypervisor_conditions import HaConfigReason, HypervisorConditionType
from hypercobalt.ha.incidents.config import KEY, HaConfig, InvalidConfigError, hash_of, parse
from hypercobalt.ha.incidents.restraint import Restraint
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.kept_config import KeptConfig, Valid
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.status.parts import Board
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

_TYPE: Final = HypervisorConditionType.HA_CONFIG_VALID
_DEFAULTS: Final = Valid(HaConfig(), "", "defaults")
_READ_DEADLINE: Final = 5.0  # a disk that hangs must not keep events from being judged
_WRITE_AGAIN: Final = 60.0
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class _ToKeep:
    valid: Valid | None


class Configuration:
    """The configuration that is active.

    Args:
        stored: the ConfigMap; None as its value when there is none.
        about: its namespace and name.
        kept: keeps it over a restart.
        deadline: of reading what was kept, seconds.
        write_again: seconds until a write that failed is tried again.
        patience: seconds until a ConfigMap that was not listed is reported.
    """

    def __init__(
        self,
        stored: Latest[ConfigMap],
        about: str,
        board: Board,
        metrics: IncidentMetrics,
        kept: KeptConfig,
        *,
        deadline: float = _READ_DEADLINE,
        write_again: float = _WRITE_AGAIN,
        patience: float = _PATIENCE,
    ) -> None:
        self._stored, self._about, self._board, self._metrics = stored, about, board, metrics
        self._kept, self._deadline, self._write_again = kept, deadline, write_again
        self._patience = patience
        self._valid: Valid | None = None
        self._to_keep: Observable[_ToKeep | None] = Observable(None)
        self._listed, self._settled = asyncio.Event(), asyncio.Event()

    def active(self) -> HaConfig:
        """The last valid configuration, the defaults before there was one."""
        return self._valid.config if self._valid else HaConfig()

    def restraint(self) -> Restraint | None:
        """What holds reactions back: no valid configuration is known."""
        if self._valid is None:
            return Restraint(f"no valid configuration is known: correct ConfigMap {self._about}")
        return None

    async def load(self) -> None:
        """Load what was kept; it is active until the API has answered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline):
                self._valid = await asyncio.to_thread(self._kept.read)
        if self._valid:
            log.info("kept_ha_config_active", config=self._about, hash=self._valid.hash)
            self._settled.set()

    async def settled(self) -> None:
        """Wait until events can be judged: by what was kept, or by what the API server has."""
        await self._settled.wait()

    async def listed(self) -> None:
        """Wait until the API server has answered; its ConfigMap, or none, counts from then on."""
        await self._listed.wait()

    async def run(self) -> None:
        """Follow the ConfigMap, and keep it, until cancelled."""
        await first(self._follow(), self._keep())

    async def _follow(self) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await self._stored.listed()
        except TimeoutError:
            self._report(ConditionStatus.UNKNOWN, HaConfigReason.NOT_READ, self._unread())
            await self._stored.listed()
        while True:
            stored, problem = self._stored.value, self._stored.problem
            if problem:
                self._distrust_defaults()
                self._refuse(f"ConfigMap {self._about} cannot be read: {problem}")
            else:
                self._take(stored)
            self._listed.set()
            self._settled.set()
            await first(self._stored.changed(stored), self._stored.problem_changed(problem))

    async def _keep(self) -> None:
        """Write the active document whenever it changes, in a thread: the disk may hang."""
        wanted = await self._to_keep.changed(None)
        while wanted is not None:
            await asyncio.to_thread(self._kept.write, wanted.valid)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._write_again if self._kept.failing else None):
                    wanted = await self._to_keep.changed(wanted)

    def _take(self, stored: ConfigMap | None) -> None:
        if stored is None:
            self._activate(_DEFAULTS, None)
            text = f"ConfigMap {self._about} does not exist; the defaults apply"
            self._report(ConditionStatus.TRUE, HaConfigReason.DEFAULTS, text)
            return
        try:
            config = parse(stored.data, stored.binaryData)
        except InvalidConfigError as error:
            self._refuse(f"ConfigMap {self._about}: {error}")
            return
        valid = Valid(config, stored.data.get(KEY, ""), hash_of(stored.data))
        self._activate(valid, valid)
        log.info("ha_config_active", config=self._about, hash=valid.hash)
        text = f"Configuration {valid.hash} is active{_dry_run(config)}"
        self._report(ConditionStatus.TRUE, HaConfigReason.VALID, text)

    def _unread(self) -> str:
        return (
            f"ConfigMap {self._about} has not been read for {self._patience:g} s since the agent "
            "started, so no instance is recovered: check the agent's log and its right to list "
            "ConfigMaps"
        )

    def _distrust_defaults(self) -> None:
        """Forget defaults that applied for want of a ConfigMap: now there is one."""
        if self._valid is _DEFAULTS:
            self._valid = None

    def _refuse(self, problem: str) -> None:
        log.warning("ha_config_invalid", config=self._about, error=problem)
        if self._valid is None:
            text = (
                f"{problem}. No valid configuration is known, so no instance is recovered: correct "
                "the ConfigMap, or delete it for the defaults"
            )
            self._report(ConditionStatus.FALSE, HaConfigReason.NONE_VALID, text)
        else:
            stays = f"Configuration {self._valid.hash} stays active{_dry_run(self._valid.config)}"
            self._report(ConditionStatus.FALSE, HaConfigReason.INVALID, f"{problem}. {stays}")

    def _activate(self, valid: Valid, to_keep: Valid | None) -> None:
        self._valid = valid
        self._to_keep.set(_ToKeep(to_keep))

    def _report(self, status: ConditionStatus, reason: HaConfigReason, text: str) -> None:
        self._metrics.config_valid.set(status == ConditionStatus.TRUE)
        self._board.put_condition(_TYPE, status, reason, text)


def _dry_run(config: HaConfig) -> str:
    return ": dry run, no instance is recovered" if config.dry_run else ""
