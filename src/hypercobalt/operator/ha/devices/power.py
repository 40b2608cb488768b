"""Reads the power of hosts that count as dead, while the recovery depends on it.

A host that is off runs no instance, whichever boot was proven dead; a host that was switched on
since may run instances before it reports. So the power is read again before each further step by
the proof of a device, or by a person's assertion. A device that has just lost its network does not
stop an evacuation under way; while it does not answer, a person's assertion counts.

For a host that is proven dead by its storage, the access to the storage is read instead of the
power, and until the host is back: guests that still run could write to disks that others write.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hypercobalt.adapters.fencing.port import Cuts, PowerState
from hypercobalt.api.core import Node
from hypercobalt.api.fencing import FencingMethod
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.recovery import RecoveryPhase
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.host_failure.doubts import PowerReport
from hypercobalt.logs import get_logger
from hypercobalt.operator.ha.devices.fences import Fences, read_state, vanished
from hypercobalt.operator.ha.observing.signs import asserted_death
from hypercobalt.runtime import Cache, Clock
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

FRESH: Final = timedelta(seconds=15)
"""How long an answer counts: less than a host needs to boot. A device that has not answered is not
read again for as long."""

LASTS: Final = timedelta(minutes=2)
"""How long the last answer counts while the device does not answer."""


_BY_DEVICE: Final = frozenset({FencingMethod.BMC, FencingMethod.STORAGE})
_LATER_READ: Final = frozenset({*_BY_DEVICE, FencingMethod.EXTERNAL})
"""Methods with a proof of the moment only, rather than of what the agent has done."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of the devices of a host: for which proof, when, and the result."""

    proof: datetime | None
    at: float
    state: PowerState | None


class PowerReader:
    """Reads the power, and keeps recent answers.

    Args:
        fences: the devices of the site.
        hypervisors: with the records.
        nodes: by whose labels devices are found.
        clock: of the records, and monotonic.
    """

    def __init__(
        self,
        fences: Fences,
        hypervisors: WriteCache[Hypervisor],
        nodes: Cache[Node],
        clock: Clock,
    ) -> None:
        self._fences, self._clock = fences, clock
        self._hypervisors, self._nodes = hypervisors, nodes
        self._last: dict[str, _Reading] = {}
        self._off: dict[str, _Reading] = {}

    async def of(self, name: str) -> PowerReport:
        """Return the power of a host; OFF without a call if the recovery does not need it."""
        hypervisor = self._hypervisors.get(name)
        if hypervisor is None:
            self._forget(name)
            return PowerReport.OFF
        node = self._nodes.get(name) or vanished(hypervisor)
        proof = hypervisor.fencing if is_fenced(hypervisor) else None
        method = proof.method if proof is not None else None
        asserted = proof is None and bool(asserted_death(hypervisor, node).by)
        over = _is_recovered(hypervisor)
        storage = method == FencingMethod.STORAGE
        if (over and not storage) or not (method in _LATER_READ or asserted):
            self._forget(name)
            return PowerReport.OFF
        proven_at = proof.fencedAt if proof is not None else None
        by_device = method in _BY_DEVICE
        last = self._last.get(name)
        if last is None or last.proof != proven_at:
            last = None
            if by_device and self._is_within(FRESH, proven_at):
                return PowerReport.OFF
        if last is None or self._age(last) > FRESH:
            cuts = Cuts.STORAGE if storage else Cuts.POWER
            last = await self._read(name, node, cuts, proven_at)
        if last.state is PowerState.ON:
            return PowerReport.ON
        if over or not by_device or self._is_within(LASTS, proven_at):
            return PowerReport.OFF
        off = self._off.get(name)
        known = off is not None and off.proof == proven_at and self._age(off) <= LASTS
        return PowerReport.OFF if known else PowerReport.UNKNOWN

    def _forget(self, name: str) -> None:
        self._last.pop(name, None)
        self._off.pop(name, None)

    def _is_within(self, span: timedelta, moment: datetime | None) -> bool:
        """Whether a moment is at most so long ago, and not ahead of a clock that was set back."""
        return moment is not None and timedelta(0) <= self._clock.now() - moment <= span

    def _age(self, reading: _Reading) -> timedelta:
        return timedelta(seconds=self._clock.monotonic() - reading.at)

    async def _read(self, name: str, node: Node, cuts: Cuts, proof: datetime | None) -> _Reading:
        try:
            state = await read_state(await self._fences.devices(node, cuts), cuts)
        except HypercobaltError as error:
            log.warning("power_not_read", hypervisor=name, error=str(error))
            state = None
        if state is PowerState.ON:
            log.warning("dead_host_powered", hypervisor=name, cuts=cuts)
        reading = _Reading(proof, self._clock.monotonic(), state)
        self._last[name] = reading
        if state is PowerState.OFF:
            self._off[name] = reading
        return reading


def _is_recovered(hypervisor: Hypervisor) -> bool:
    """Whether nothing is left on the host, so that a person may switch it on and off."""
    recovery = hypervisor.status.recovery
    return recovery is not None and recovery.phase == RecoveryPhase.RECOVERED
