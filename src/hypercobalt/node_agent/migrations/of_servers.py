"""Reads the Migrations of servers, which the agents of all hosts make: in any number and size.

Few are read at once, and of each only what tells one from the other is kept, so that no other host
fills the memory of this agent. Whoever takes more names of one server than are read keeps its next
arrival from its Migration, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.migration import SERVER, Migration, MigrationStatus, label_value
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube

log = get_logger(__name__)

_AT_ONCE: Final = 4
"""Objects in one answer; etcd takes 1.5 MiB for each."""
_MOST: Final = 256
"""Objects that are read of one server, or of several together before each is read alone."""


async def of_servers(
    kube: Kube, namespace: str, servers: Sequence[str]
) -> dict[str, list[Migration]]:
    """Return the Migrations of each server, without what no rule needs.

    Args:
        kube: to read with.
        namespace: of Migrations.
        servers: their UUIDs.

    Raises:
        HypercobaltError: they cannot be read.
    """
    found, read = defaultdict[str, list[Migration]](list), 0
    labels = {label_value(server): server for server in servers}
    selector = f"{SERVER} in ({','.join(labels)})"
    pages = kube.pages(Migration, namespace, labels=selector, limit=_AT_ONCE)
    async with aclosing(pages):
        async for page in pages:
            for one in page.items:
                found[labels[one.metadata.labels[SERVER]]].append(_brief(one))
            read += len(page.items) + len(page.unreadable)
            if page.next and read >= _MOST:
                if len(servers) > 1:
                    return await _each_alone(kube, namespace, servers)
                log.warning("migrations_left_unread", server=servers[0], read=read)
                break
    return {server: found[server] for server in servers}


async def _each_alone(
    kube: Kube, namespace: str, servers: Sequence[str]
) -> dict[str, list[Migration]]:
    return {one: (await of_servers(kube, namespace, [one]))[one] for one in servers}


def _brief(migration: Migration) -> Migration:
    meta, status = migration.metadata, migration.status
    return replace(
        migration,
        metadata=ObjectMeta(
            name=meta.name, namespace=meta.namespace, creationTimestamp=meta.creationTimestamp
        ),
        status=MigrationStatus(
            origin=status.origin,
            destination=status.destination,
            type=status.type,
            started=status.started,
            timeElapsed=status.timeElapsed,
        ),
    )
