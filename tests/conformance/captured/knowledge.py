"""What an attacker knows of a site: names, boots, ids, and how the operator reacts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tests.conformance.captured import arrangements, guests
from tests.conformance.captured.site import CAPTURED, OTHERS, Site
from tests.conformance.wire import Body, Json

from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.ha.planning.evictions import recovery

VICTIM: Final = OTHERS[0]


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        patch: `merge`, `json` or `apply`, for a PATCH.
        watch: read its first events only.
    """

    method: str
    path: str
    body: Json = None
    patch: str = "merge"
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Definitions:
    """Write the definitions of a host's guests.

    Args:
        host: whose.
        domains: of each the UUID, what is hostile in it, and whether it ran.
    """

    host: str
    domains: tuple[tuple[str, str, bool], ...]


class Knowledge:
    """Turns the symbols of a hostile write into what they stand for now.

    A text `$NAME` stands for what `symbols` has of that name.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self.events: list[str] = []
        """Names of Events about other hosts."""
        self.their_recovery = "ha-none"
        """Name of the Eviction by which the operator recovers a silent host."""
        self.fencing_began = ""
        """`startedAt` of the last record about the captured host."""

    def symbols(self) -> Mapping[str, Json]:
        site, now = self._site, self._site.clock.now().replace(microsecond=0)

        def at(seconds: int) -> str:
            return (now + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

        own, victim = site.hosts[CAPTURED], site.hosts[VICTIM]
        services = site.nova.world.hosts
        theirs = services.get(VICTIM)
        return {
            "own": CAPTURED,
            "victim": VICTIM,
            "boot": own.boot,
            "mark": arrangements.mark(own.uid),
            "their boot": victim.boot,
            "new boot": f"{CAPTURED}-boot-9",
            "now": at(0),
            "soon": at(90),
            "past": at(-90),
            "ordered": self.fencing_began or at(0),
            "guest": guests.guest(CAPTURED, 0),
            "idle guest": guests.guest(CAPTURED, 1),
            "their guest": guests.guest(VICTIM, 0),
            "their idle guest": guests.guest(VICTIM, 1),
            "no guest": "00000000-0000-4000-8000-00000000c0de",
            "their service": theirs.service_id if theirs else "gone",
            "their hypervisor": theirs.hypervisor_id if theirs else "gone",
            "their address": victim.address,
            "address": own.address,
            "their uuid": site.machines.at(victim.uri).host.uuid,
            "their recovery": self.their_recovery,
            "event": self.events[0] if self.events else "none",
        }

    def resolved(self, value: Json) -> Json:
        """Put what they stand for into the place of symbols."""
        known = self.symbols()

        def put(one: Json) -> Json:
            if isinstance(one, str):
                for name, text in known.items():
                    if one == f"${name}":
                        return text
                    if isinstance(text, str):
                        one = one.replace(f"${{{name}}}", text)
                return one
            if isinstance(one, dict):
                return {str(put(key)): put(it) for key, it in one.items()}
            if isinstance(one, list | tuple):
                return [put(it) for it in one]
            return one

        return put(value)


def recovery_name(body: Body) -> str:
    """Name of the Eviction that recovers a host: it follows from what anyone may read."""
    status: Body = body["status"]
    since = status.get("unhealthySince")
    hypervisor = Hypervisor(
        metadata=ObjectMeta(name=body["metadata"]["name"]),
        status=HypervisorStatus(bootID=status.get("bootID")),
    )
    at = datetime.fromisoformat(since) if since else None
    return recovery(hypervisor, EvictionMode.EVACUATE, at).metadata.name
