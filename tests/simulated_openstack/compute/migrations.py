"""Records of moves, and live migrations that go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tests.simulated_openstack.compute.servers import found
from tests.simulated_openstack.http import (
    Answer,
    Json,
    RefusalError,
    Request,
    Route,
    next_links,
    page,
    route,
)
from tests.simulated_openstack.life import Life
from tests.simulated_openstack.model import Migration


def routes(life: Life) -> Sequence[Route]:
    def abort(request: Request) -> Answer:
        migration = _of_server(request, "abort live migration")
        if migration.status not in {"running", "queued", "preparing"}:
            raise _wrong_state(migration, "abort live migration")
        life.abort(migration)
        return Answer(202)

    def act(request: Request) -> Answer:
        if request.json() != {"force_complete": None}:
            raise RefusalError(400, "There is no such action")
        migration = _of_server(request, "force_complete")
        if migration.status != "running":
            raise _wrong_state(migration, "force complete")
        life.force(migration)
        return Answer(202)

    return (
        route("GET", "/os-migrations", _list),
        route("GET", "/servers/{id}/migrations", _going_on),
        route("GET", "/servers/{id}/migrations/{number}", _one),
        route("DELETE", "/servers/{id}/migrations/{number}", abort),
        route("POST", "/servers/{id}/migrations/{number}/action", act),
    )


def _wrong_state(migration: Migration, method: str) -> RefusalError:
    return RefusalError(
        400,
        f"Migration {migration.id} state of instance {migration.server.id} is {migration.status}. "
        f"Cannot {method} while the migration is in this state.",
    )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}"


def _common(migration: Migration) -> Json:
    server = migration.server
    return {
        "id": migration.id,
        "uuid": migration.uuid,
        "status": migration.status,
        "source_compute": migration.source,
        "source_node": migration.source,
        "dest_compute": migration.target,
        "dest_node": migration.target,
        "dest_host": None,
        "created_at": _time(migration.created),
        "updated_at": _time(migration.updated),
        "user_id": server.user,
        "project_id": server.project,
    }


def _record(migration: Migration) -> Json:
    flavor = int(migration.server.flavor.id)
    return _common(migration) | {
        "instance_uuid": migration.server.id,
        "migration_type": migration.kind,
        "old_instance_type_id": flavor,
        "new_instance_type_id": flavor,
    }


def _progress(migration: Migration) -> Json:
    total, remaining = migration.total, migration.remaining
    processed = None if total is None or remaining is None else total - remaining
    disk = migration.server.flavor.disk << 30 if not migration.server.shared else 0
    return _common(migration) | {
        "server_uuid": migration.server.id,
        "memory_total_bytes": total,
        "memory_remaining_bytes": remaining,
        "memory_processed_bytes": processed,
        "disk_total_bytes": None if total is None else disk,
        "disk_remaining_bytes": None if total is None else migration.disk_remaining,
        "disk_processed_bytes": None if total is None else disk - migration.disk_remaining,
    }


def _list(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-migrations:index")
    query = request.query
    filters: dict[str, Callable[[Migration], object]] = {
        "status": lambda m: m.status,
        "migration_type": lambda m: m.kind,
        "instance_uuid": lambda m: m.server.id,
        "source_compute": lambda m: m.source,
    }
    records = list(reversed(request.world.migrations.values()))
    for name, value in filters.items():
        if name in query:
            records = [m for m in records if value(m) == query[name]]
    if "host" in query:
        records = [m for m in records if query["host"] in {m.source, m.target}]
    if "changes-since" in query:
        try:
            since = datetime.fromisoformat(query["changes-since"])
        except ValueError:
            raise RefusalError(400, "Invalid input for query parameters changes-since.") from None
        since = since if since.tzinfo else since.replace(tzinfo=UTC)
        records = [m for m in records if m.updated >= since]
    taken, marker = page(request, records, lambda m: m.uuid)
    body: Json = {"migrations": [_record(m) for m in taken]}
    if marker:
        body["migrations_links"] = next_links(request, marker)
    return Answer(200, body)


def _going_on(request: Request) -> Answer:
    server = found(request)
    request.must_be_admin("os_compute_api:servers:migrations:index")
    migrations = request.world.migrations.values()
    shown = [_progress(m) for m in migrations if m.server is server and m.in_progress]
    return Answer(200, {"migrations": shown})


def _of_server(request: Request, action: str = "") -> Migration:
    server, number = found(request), request.parts["number"]
    request.must_be_admin("os_compute_api:servers:migrations")
    if action and server.task_state != "migrating":
        raise RefusalError(409, f"Instance {server.id} is in an invalid state for '{action}'")
    migration = request.world.migrations.get(int(number) if number.isdecimal() else -1)
    if migration is None or migration.server is not server:
        raise RefusalError(404, f"Migration {number} not found for instance {server.id}")
    return migration


def _one(request: Request) -> Answer:
    migration = _of_server(request)
    if not migration.in_progress:
        text = f"Live migration {migration.id} for server {migration.server.id}"
        raise RefusalError(404, f"{text} is not in progress.")
    return Answer(200, {"migration": _progress(migration)})
