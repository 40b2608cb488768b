"""Closes the incidents that a person has seen: those of the host's own annotation, by their ids.

Only what nothing else closes: while the agent has a next step, the incident stays. The text is
bounded, as it is what anybody with the right to annotate the Hypervisor has written.
"""

from __future__ import annotations

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import MOST, SEEN
from hypercobalt.ha.incidents.cases import Step
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)


def seen(hypervisor: Hypervisor | None) -> frozenset[str]:
    """Ids of the incidents that people have seen."""
    if hypervisor is None:
        return frozenset()
    listed = hypervisor.metadata.annotations.get(SEEN, "").split(",", MOST)[:MOST]
    return frozenset(id_ for text in listed if (id_ := text.strip()))


class SeenIncidents:
    """Follows the annotation, and the incidents: either may come first."""

    def __init__(self, store: Store, hypervisor: Latest[Hypervisor]) -> None:
        self._store, self._hypervisor = store, hypervisor

    async def run(self) -> None:
        """Close what was seen, until cancelled."""
        while True:
            host, state = self._hypervisor.value, self._store.changes.value
            if self._close(seen(host)):
                continue
            await first(self._hypervisor.changed(host), self._store.changes.changed(state))

    def _close(self, ids: frozenset[str]) -> bool:
        found = [
            (instance, case) for instance, case in self._store.cases(Step.NONE) if case.id in ids
        ]
        for instance, case in found:
            log.info("incident_seen", incident=case.id, server=instance.uuid)
            known = self._store.get(instance.uuid)
            self._store.put(known.without_case(case.id))
        return bool(found)
