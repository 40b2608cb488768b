"""Publishes the key with which agents seal the definitions of their domains.

The key is a field of each Hypervisor, because an agent watches only its own. So a new host, and
every host after a rotation, has the key at once, and seals its definitions again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.operator.definitions.keys import REREAD, DefinitionsKeys, KeysInvalidError
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import Result, Source
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "DefinitionsKey"
_FIELD: Final = "definitionsKey"


def worth_a_pass(old: Hypervisor | None, new: Hypervisor | None) -> bool:
    """Whether the field may need a write: a new host, a host with its first status, a change."""
    if new is None:
        return False
    return (
        old is None
        or old.status.definitionsKey != new.status.definitionsKey
        or (not old.conditions and bool(new.conditions))
    )


class DefinitionsKeyReconciler:
    """Writes `status.definitionsKey` of one Hypervisor."""

    def __init__(
        self,
        keys: DefinitionsKeys,
        hypervisors: WriteCache[Hypervisor],
        statuses: StatusWriter,
    ) -> None:
        self._keys, self._hypervisors, self._statuses = keys, hypervisors, statuses

    async def reconcile(self, name: str, /) -> Result:
        known = self._hypervisors.get(name)
        # Before its Node's controller does, nothing is written to a new Hypervisor.
        if known is None or known.metadata.deletionTimestamp is not None or not known.conditions:
            return Result()
        keys = self._keys.known
        if keys is None:  # once there is a key, the follower triggers a pass for every host
            return Result()
        text = keys.current.public.text
        if known.status.definitionsKey != text:
            await self._statuses.put(known, Part(fields={_FIELD: text}))
        return Result()


class KeyFollower:
    """Reads the keys periodically, and triggers a pass for every Hypervisor when they change.

    Args:
        keys: see there.
        names: of the Hypervisors that are known.

    Attributes:
        source: for the controller.
    """

    def __init__(self, keys: DefinitionsKeys, names: Callable[[], Iterable[str]]) -> None:
        self._keys, self._names = keys, names
        self._problem: str | None = None
        self.source = Source()

    def problem(self) -> str | None:
        """Return why there is no key; None while there is one."""
        return self._problem

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the keys until `stop`; only the leader does."""
        while not stop.is_set():
            before = self._keys.known
            try:
                now = await self._keys.read()
                self._problem = None
            except HypercobaltError as error:
                log.warning("definitions_keys_not_read", error=str(error))
                # While the API server alone is away, the keys that are known still count.
                if before is None or isinstance(error, KeysInvalidError):
                    self._problem = f"no key for the definitions of dead hosts: {error}"
            else:
                if before is None or before.current.public != now.current.public:
                    for name in self._names():
                        self.source.enqueue(name)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), REREAD.total_seconds())
