"""Actions on a server: which, by whom, and how each ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from tests.simulated_openstack.compute.servers import found
from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, route
from tests.simulated_openstack.model import Acted

_ON_HOST: Final = {
    "start": "compute_start_instance",
    "stop": "compute_stop_instance",
    "reboot": "compute_reboot_instance",
}
"""Events that a host records for an action."""


def _list(request: Request) -> Answer:
    since = _time(request.query.get("changes-since"))
    shown = [one for one in reversed(found(request).acted) if one.updated >= since]
    return Answer(200, {"instanceActions": [_action(request, one) for one in shown]})


def _one(request: Request) -> Answer:
    wanted = request.parts["request"]
    for one in found(request).acted:
        if wanted == one.id:
            events = {"events": _events(one)}
            return Answer(200, {"instanceAction": _action(request, one) | events})
    raise RefusalError(404, f"Action for request_id {wanted} on instance not found")


ROUTES = (
    route("GET", "/servers/{id}/os-instance-actions", _list),
    route("GET", "/servers/{id}/os-instance-actions/{request}", _one),
)


def _time(text: str | None) -> datetime:
    if text is None:
        return datetime.fromtimestamp(0, UTC)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise RefusalError(400, f"Invalid changes-since: {text}") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


def _action(request: Request, one: Acted) -> Json:
    return {
        "action": one.action,
        "instance_uuid": request.parts["id"],
        "request_id": one.id,
        "user_id": one.user,
        "project_id": one.project,
        "start_time": f"{one.created:%Y-%m-%dT%H:%M:%S.%f}",
        "updated_at": f"{one.updated:%Y-%m-%dT%H:%M:%S.%f}",
        "message": "Error" if one.why else None,
    }


def _events(one: Acted) -> list[Json]:
    if one.migration is not None:
        return [_event(one, "conductor_live_migrate_instance", one.migration.source, one.updated)]
    name = _ON_HOST.get(one.action)
    return [_event(one, name, None, one.ended)] if name else []


def _event(one: Acted, name: str, host: str | None, ended: datetime | None) -> Json:
    return {
        "event": name,
        "start_time": f"{one.created:%Y-%m-%dT%H:%M:%S.%f}",
        "finish_time": f"{ended:%Y-%m-%dT%H:%M:%S.%f}" if ended else None,
        "result": None if ended is None else "Error" if one.why else "Success",
        "traceback": None,
        "host": host,
        "hostId": host,
        "details": one.why or None,
    }
