"""What was done to a server, and how it ended; of all actions only moves are kept."""

from __future__ import annotations

from typing import Final

from tests.simulated_openstack.compute.servers import found
from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, route
from tests.simulated_openstack.model import Migration

_REQUEST: Final = "req-"


def _list(request: Request) -> Answer:
    return Answer(200, {"instanceActions": [_action(one) for one in _moves(request)]})


def _one(request: Request) -> Answer:
    wanted = request.parts["request"]
    for move in _moves(request):
        if wanted == f"{_REQUEST}{move.uuid}":
            events = {"events": [_event(move)]}
            return Answer(200, {"instanceAction": _action(move) | events})
    raise RefusalError(404, f"Action for request_id {wanted} on instance not found")


ROUTES: Final = (
    route("GET", "/servers/{id}/os-instance-actions", _list),
    route("GET", "/servers/{id}/os-instance-actions/{request}", _one),
)


def _moves(request: Request) -> list[Migration]:
    server = found(request)
    moves = [one for one in request.world.migrations.values() if one.server.id == server.id]
    return sorted(moves, key=lambda move: move.id, reverse=True)


def _action(move: Migration) -> Json:
    return {
        "action": "migrate" if move.kind == "migration" else move.kind,
        "instance_uuid": move.server.id,
        "request_id": f"{_REQUEST}{move.uuid}",
        "user_id": move.server.user,
        "project_id": move.server.project,
        "start_time": f"{move.created:%Y-%m-%dT%H:%M:%S.%f}",
        "updated_at": f"{move.updated:%Y-%m-%dT%H:%M:%S.%f}",
        "message": "Error" if move.why else None,
    }


def _event(move: Migration) -> Json:
    return {
        "event": "conductor_live_migrate_instance",
        "start_time": f"{move.created:%Y-%m-%dT%H:%M:%S.%f}",
        "finish_time": f"{move.updated:%Y-%m-%dT%H:%M:%S.%f}",
        "result": "Error" if move.why else "Success",
        "traceback": None,
        "host": move.source,
        "hostId": move.source,
        "details": move.why or None,
    }
