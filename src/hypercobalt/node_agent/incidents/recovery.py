"""Plans the recoveries that are due, has them made, and follows the Evictions.

While the API is away all recoveries wait; they follow in order once the API is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.libvirt.port import Libvirt
from hypercobalt.api.eviction import (
    Eviction,
    EvictionMode,
    EvictionReason,
    InstancePhase,
    evicting,
    has_ended,
)
from hypercobalt.api.incident import Reaction
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.incidents.cases import Case, State, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import (
    FOLLOW,
    AvailableMemory,
    exhausted,
    failed,
    plan,
    postponed,
)
from hypercobalt.ha.incidents.restraint import Restraint
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.metrics import IncidentMetrics
from hypercobalt.node_agent.incidents.reactions import Reactions
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Backoff, Clock, Kube

log = get_logger(__name__)

_API_AWAY: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(seconds=10))
_CLOCK: Final = timedelta(seconds=30)
"""Time between looks whether the clock was set."""
_SET_BACK: Final = timedelta(seconds=1)
"""A clock that is slowed down for a while is not set."""
_REACTIONS: Final = (Step.RESUME, Step.HELD)
_STEPS: Final = (Step.RECOVER, Step.FOLLOW, *_REACTIONS)


class Recoveries:
    """All of one host.

    Args:
        config: that is active.
        memory: reads the host's memory.
        withheld: what holds everything back, besides the Hypervisor.
    """

    def __init__(
        self,
        kube: Kube,
        libvirt: Libvirt,
        store: Store,
        settings: NodeAgentSettings,
        metrics: IncidentMetrics,
        *,
        clock: Clock,
        config: Callable[[], HaConfig],
        memory: Callable[[], AvailableMemory],
        withheld: Callable[[], Restraint | None] = lambda: None,
    ) -> None:
        self._store, self._settings = store, settings
        self._clock, self._config, self._memory = clock, config, memory
        self._reactions = Reactions(
            kube,
            libvirt,
            store,
            settings,
            metrics,
            clock=clock,
            config=config,
            withheld=withheld,
        )
        self._offset = self._clock_offset()

    async def run(self) -> None:
        """Recover until cancelled."""
        failures = 0
        while True:
            self._follow_clock()
            state, now = self._store.changes.value, self._clock.now()
            due = self._store.next_due(*_STEPS)
            if due is None or due > now:
                wait = min(due - now, _CLOCK) if due else _CLOCK
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait.total_seconds()):
                        await self._store.changes.changed(state)
                continue
            try:
                await self._act(now)
                failures = 0
            except HypercobaltError as error:
                log.warning("recovery_waits", error=str(error))
                await asyncio.sleep(_API_AWAY.wait(failures))
                failures += 1

    def _clock_offset(self) -> datetime:
        return self._clock.now() - timedelta(seconds=self._clock.monotonic())

    def _follow_clock(self) -> None:
        """Move due times back after the clock was set back, or they would come that much later."""
        offset = self._clock_offset()
        back, self._offset = self._offset - offset, offset
        if back > _SET_BACK:
            log.warning("clock_set_back", seconds=round(back.total_seconds()))
            self._store.set_back(back, self._clock.now())

    async def _act(self, now: datetime) -> None:
        """Do everything that is due.

        Raises:
            HypercobaltError: the API is away; what was not done stays due.
        """
        planned = plan(self._store.known, self._settings.node, self._config(), now, self._memory())
        for instance in planned.instances.values():
            self._store.put(instance)
        if planned.recoveries or any(self._store.due(step, now) for step in _REACTIONS):
            await self._reactions.react(planned.recoveries, now)
        for uuid, case in self._store.due(Step.FOLLOW, now):
            await self._follow(uuid, case)

    async def _follow(self, uuid: str, case: Case) -> None:
        """See how an Eviction ends; that the instance runs again is seen in libvirt first."""
        eviction = await self._reactions.evictions.get(case.eviction)
        instance, now = self._store.get(uuid), self._clock.now()
        if not any(one.id == case.id for one in instance.cases):
            return
        if eviction is not None and not has_ended(eviction.status):
            self._store.put(postponed(instance, case.id, now + FOLLOW))
            return
        ended = evicting(eviction.status) if eviction else None
        if eviction and ended is not None and ended.reason == EvictionReason.SUCCEEDED:
            if instance.state is State.OFF and _was_restarted(uuid, eviction):
                text = f"Eviction {case.eviction} restarted the instance, which is off again"
                self._store.put(failed(instance, case, self._config(), now, text))
            else:
                self._store.put(instance.without_case(case.id))
            return
        text = f"Eviction {case.eviction} " + (
            f"{ended.reason}: {ended.message}" if ended else "was deleted"
        )
        log.warning("recovery_failed", server=uuid, incident=case.id, reason=text)
        if ended is not None and ended.reason == EvictionReason.FAILED:
            self._store.put(failed(instance, case, self._config(), now, text))
            return
        given_up = replace(exhausted(case), reaction=Reaction.REPORT).with_evidence(text)
        self._store.put(instance.with_case(given_up.then(Step.NONE)))


def _was_restarted(uuid: str, eviction: Eviction) -> bool:
    """Whether an Eviction has restarted an instance where it was, rather than left it alone."""
    return any(
        one.id == uuid and one.phase == InstancePhase.SUCCEEDED and one.mode == EvictionMode.RESTART
        for one in eviction.status.instances
    )
