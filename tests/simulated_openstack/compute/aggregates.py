"""Host aggregates and availability zones."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, Route, route
from tests.simulated_openstack.model import Aggregate, now, stable_uuid
from tests.simulated_openstack.world import World


def routes() -> Sequence[Route]:
    return (
        route("GET", "/os-aggregates", _list),
        route("POST", "/os-aggregates", _create),
        route("GET", "/os-aggregates/{id}", _show),
        route("PUT", "/os-aggregates/{id}", _update),
        route("DELETE", "/os-aggregates/{id}", _delete),
        route("POST", "/os-aggregates/{id}/action", _act),
        route("GET", "/os-availability-zone", _zones),
        route("GET", "/os-availability-zone/detail", _zones),
    )


def make(world: World, name: str, zone: str | None = None) -> Aggregate:
    """A new aggregate."""
    number = max(world.aggregates, default=0) + 1
    made = Aggregate(number, stable_uuid("aggregate", str(number)), name)
    if zone is not None:
        made.metadata["availability_zone"] = zone
    world.aggregates[number] = made
    return made


def _view(aggregate: Aggregate) -> Json:
    return {
        "id": aggregate.id,
        "uuid": aggregate.uuid,
        "name": aggregate.name,
        "availability_zone": aggregate.zone,
        "hosts": list(aggregate.hosts),
        "metadata": dict(aggregate.metadata),
        "created_at": f"{aggregate.created:%Y-%m-%dT%H:%M:%S.%f}",
        "updated_at": aggregate.updated and f"{aggregate.updated:%Y-%m-%dT%H:%M:%S.%f}",
        "deleted": False,
        "deleted_at": None,
    }


def _list(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-aggregates:index")
    return Answer(200, {"aggregates": [_view(a) for a in request.world.aggregates.values()]})


def _found(request: Request) -> Aggregate:
    request.must_be_admin("os_compute_api:os-aggregates")
    id = request.parts["id"]
    if not id.isdecimal():
        raise RefusalError(400, f"Invalid input received: id must be an integer, not {id}")
    if int(id) not in request.world.aggregates:
        raise RefusalError(404, f"Aggregate {id} could not be found.")
    return request.world.aggregates[int(id)]


def _show(request: Request) -> Answer:
    return Answer(200, {"aggregate": _view(_found(request))})


def _create(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-aggregates:create")
    wanted = request.json("aggregate")
    name = request.json("aggregate", "name")
    if any(a.name == name for a in request.world.aggregates.values()):
        raise RefusalError(409, f"Aggregate {name} already exists.")
    made = make(request.world, name, wanted.get("availability_zone"))
    return Answer(200, {"aggregate": _view(made)})


def _update(request: Request) -> Answer:
    found, wanted = _found(request), request.json("aggregate")
    found.name = wanted.get("name", found.name)
    found.updated = now()
    return Answer(200, {"aggregate": _view(found)})


def _delete(request: Request) -> Answer:
    found = _found(request)
    if found.hosts:
        reason = "Host aggregate is not empty"
        raise RefusalError(400, f"Cannot delete aggregate {found.id}. Reason: {reason}.")
    del request.world.aggregates[found.id]
    return Answer(200)


def _act(request: Request) -> Answer:
    found, body = _found(request), request.json()
    (action,) = body if len(body) == 1 else ("",)
    if action == "add_host":
        _add(request.world, found, request.json("add_host", "host"))
    elif action == "remove_host":
        _remove(request.world, found, request.json("remove_host", "host"))
    elif action == "set_metadata":
        for key, value in request.json("set_metadata", "metadata").items():
            if value is None:
                found.metadata.pop(key, None)
            else:
                found.metadata[key] = value
    else:
        raise RefusalError(400, f"There is no such action: {action}")
    found.updated = now()
    return Answer(200, {"aggregate": _view(found)})


def _add(world: World, aggregate: Aggregate, name: str) -> None:
    host = world.hosts.get(name)
    if host is None or not host.service:
        raise RefusalError(404, f"Compute host {name} could not be found.")
    text = f"Cannot add host to aggregate {aggregate.id}. Reason:"
    if aggregate.zone is not None:
        zones = [a.zone for a in world.aggregates.values() if name in a.hosts and a.zone]
        if set(zones) - {aggregate.zone}:
            raise RefusalError(
                409, f"{text} One or more hosts already in availability zone(s) {zones}."
            )
        if host.servers and not zones:
            raise RefusalError(
                409, f"{text} One or more hosts contain instances in this availability zone."
            )
    if name in aggregate.hosts:
        raise RefusalError(409, f"Aggregate {aggregate.id} already has host {name}.")
    aggregate.hosts[name] = None
    host.aggregates.add(aggregate.uuid)
    host.generation += 1


def _remove(world: World, aggregate: Aggregate, name: str) -> None:
    if name not in aggregate.hosts:
        raise RefusalError(404, f"Cannot remove host {name} in aggregate {aggregate.id}")
    host = world.hosts[name]
    if aggregate.zone is not None and host.servers:
        others = [a for a in world.aggregates.values() if a is not aggregate and name in a.hosts]
        if all(a.zone != aggregate.zone for a in others):
            reason = "One or more hosts contain instances in this zone"
            raise RefusalError(
                409, f"Cannot remove host from aggregate {aggregate.id}. Reason: {reason}."
            )
    del aggregate.hosts[name]
    host.aggregates.discard(aggregate.uuid)
    host.generation += 1


def _zones(request: Request) -> Answer:
    names = request.world.zones()
    shown = [
        {"zoneName": name, "zoneState": {"available": True}, "hosts": None}
        for name in sorted(names)
    ]
    return Answer(200, {"availabilityZoneInfo": shown})
