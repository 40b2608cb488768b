"""Placement: providers, traits, inventories, allocations, candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, Service, route
from tests.simulated_openstack.model import Host, Resources

OLDEST: Final = (1, 0)
NEWEST: Final = (1, 39)
_CONFLICT: Final = "placement.concurrent_update"
_CUSTOM: Final = re.compile(r"CUSTOM_[A-Z0-9_]+")
_NAME: Final = re.compile(r"[A-Z0-9_]+")
_TITLES: Final = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}


def _error(code: int, message: str, kind: str = "") -> Json:
    title = _TITLES.get(code, "Conflict" if code == 409 else "Internal Server Error")
    shown = {"status": code, "title": title, "detail": message, "request_id": "req-simulated"}
    return {"errors": [shown | {"code": kind or "placement.undefined_code"}]}


def _versions(request: Request) -> Answer:
    shown = {"id": "v1.0", "min_version": "1.0", "max_version": "1.39", "status": "CURRENT"}
    links = [{"rel": "self", "href": ""}]
    return Answer(200, {"versions": [shown | {"links": links}]})


def _host(request: Request) -> Host:
    request.must_be_admin("placement:resource_providers:show")
    id = request.parts["id"]
    host = request.world.by_id.get(id)
    if host is None or not host.provider:
        raise RefusalError(404, f"No resource provider with uuid {id} found")
    return host


def _generation(host: Host, body: Json) -> None:
    """Check that what is written was decided on what is there.

    Raises:
        RefusalError: 409: it was not.
    """
    wanted = body.get("resource_provider_generation") if isinstance(body, dict) else None
    if not isinstance(wanted, int):
        raise RefusalError(400, "'resource_provider_generation' is a required property")
    if wanted != host.generation:
        raise RefusalError(
            409,
            "Resource provider's generation already changed. Please update the generation and try "
            "again.",
            _CONFLICT,
        )
    host.generation += 1


# -- traits ----------------------------------------------------------------------------------------


def _traits(request: Request) -> Answer:
    known = _known(request)
    wanted = request.query.get("name", "")
    if wanted.startswith("startswith:"):
        known = {name for name in known if name.startswith(wanted.removeprefix("startswith:"))}
    elif wanted.startswith("in:"):
        known &= set(wanted.removeprefix("in:").split(","))
    return Answer(200, {"traits": sorted(known)})


def _known(request: Request) -> set[str]:
    standard = {"COMPUTE_NODE", "COMPUTE_STATUS_DISABLED", "HW_CPU_X86_VMX", "HW_CPU_X86_AVX2"}
    return standard | request.world.custom_traits


def _one_trait(request: Request) -> Answer:
    if request.parts["name"] not in _known(request):
        raise RefusalError(404, "No such trait")
    return Answer(204)


def _make_trait(request: Request) -> Answer:
    request.must_be_admin("placement:traits:update")
    name = request.parts["name"]
    if not _CUSTOM.fullmatch(name) or len(name) > 255:
        raise RefusalError(
            400,
            "The trait is invalid. A valid trait must be no longer than 255 "
            "characters, start with the prefix 'CUSTOM_' and use A-Z, 0-9 and _",
        )
    if name in request.world.custom_traits:
        return Answer(204)
    request.world.custom_traits.add(name)
    return Answer(201)


def _delete_trait(request: Request) -> Answer:
    request.must_be_admin("placement:traits:delete")
    name = request.parts["name"]
    if name not in _known(request):
        raise RefusalError(404, f"No such trait {name}")
    if not name.startswith("CUSTOM_"):
        raise RefusalError(400, f"The trait {name} is not custom and cannot be deleted")
    if any(name in host.traits for host in request.world.hosts.values() if host.provider):
        raise RefusalError(409, f"The trait {name} is in use by a resource provider.")
    request.world.custom_traits.discard(name)
    return Answer(204)


def _traits_of(request: Request) -> Answer:
    return _shown_traits(_host(request))


def _shown_traits(host: Host) -> Answer:
    shown = {"traits": sorted(host.traits), "resource_provider_generation": host.generation}
    return Answer(200, shown)


def _put_traits(request: Request) -> Answer:
    host, body = _host(request), request.json()
    wanted = request.json("traits")
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in wanted):
        raise RefusalError(400, "JSON does not validate: a trait does not match '^[A-Z0-9_]+$'")
    if unknown := sorted(set(wanted) - _known(request)):
        raise RefusalError(400, f"No such trait {', '.join(unknown)}")
    _generation(host, body)
    host.traits = set(wanted)
    return _shown_traits(host)


# -- providers -------------------------------------------------------------------------------------


def _provider(host: Host) -> Json:
    return {
        "uuid": host.id,
        "name": host.hostname,
        "generation": host.generation,
        "parent_provider_uuid": None,
        "root_provider_uuid": host.id,
        "links": [],
    }


def _providers(request: Request) -> Answer:
    request.must_be_admin("placement:resource_providers:list")
    hosts: Iterable[Host] = (h for h in request.world.hosts.values() if h.provider)
    if "uuid" in request.query:
        hosts = (h for h in hosts if h.id == request.query["uuid"])
    if "name" in request.query:
        hosts = (h for h in hosts if h.hostname == request.query["name"])
    if "member_of" in request.query:
        wanted = set(request.query["member_of"].removeprefix("in:").split(","))
        hosts = (h for h in hosts if wanted & h.aggregates)
    return Answer(200, {"resource_providers": [_provider(h) for h in hosts]})


def _show(request: Request) -> Answer:
    return Answer(200, _provider(_host(request)))


def _delete(request: Request) -> Answer:
    host = _host(request)
    if any(host.id in taken for taken in request.world.allocations.values()):
        raise RefusalError(
            409,
            f"Unable to delete resource provider {host.id}: Resource provider has allocations.",
            "placement.resource_provider.inuse",
        )
    request.world.remove_provider(host)
    return Answer(204)


def _inventories(request: Request) -> Answer:
    host = _host(request)
    shown = {
        name: {
            "total": one.total,
            "reserved": one.reserved,
            "allocation_ratio": one.ratio,
            "min_unit": 1,
            "max_unit": one.total,
            "step_size": 1,
        }
        for name, one in host.inventory.items()
    }
    return Answer(200, {"inventories": shown, "resource_provider_generation": host.generation})


def _usages(request: Request) -> Answer:
    host = _host(request)
    used = {name: host.used.get(name, 0) for name in host.inventory}
    return Answer(200, {"usages": used, "resource_provider_generation": host.generation})


def _aggregates(request: Request) -> Answer:
    host = _host(request)
    shown = {"aggregates": sorted(host.aggregates)}
    return Answer(200, shown | {"resource_provider_generation": host.generation})


def _allocations_of(request: Request) -> Answer:
    host = _host(request)
    shown = {
        consumer: {"resources": taken[host.id]}
        for consumer, taken in request.world.allocations.items()
        if host.id in taken
    }
    return Answer(200, {"allocations": shown, "resource_provider_generation": host.generation})


# -- allocations -----------------------------------------------------------------------------------


def _allocations(request: Request) -> Answer:
    request.must_be_admin("placement:allocations:list")
    world, consumer = request.world, request.parts["consumer"]
    taken = world.allocations.get(consumer)
    if taken is None:
        return Answer(200, {"allocations": {}})
    shown = {
        id: {"resources": resources, "generation": world.by_id[id].generation}
        for id, resources in taken.items()
    }
    server = world.servers.get(consumer)
    owner = {
        "project_id": server.project if server else next(iter(world.projects)),
        "user_id": server.user if server else next(iter(world.users)),
    }
    generation = {"consumer_generation": 1, "consumer_type": "INSTANCE" if server else "MIGRATION"}
    return Answer(200, {"allocations": shown, **owner, **generation})


def _free(request: Request) -> Answer:
    request.must_be_admin("placement:allocations:delete")
    world, consumer = request.world, request.parts["consumer"]
    taken = tuple(world.allocations.get(consumer, ()))
    if not taken:
        raise RefusalError(404, f"No allocations for consumer '{consumer}'")
    for id in taken:
        world.release(consumer, world.by_id[id])
    return Answer(204)


def _candidates(request: Request) -> Answer:
    request.must_be_admin("placement:allocation_candidates:list")
    wanted = _resources(request.query.get("resources", ""))
    required = request.query.get("required", "").split(",")
    needed = {name for name in required if name and not name.startswith("!")}
    forbidden = {name[1:] for name in required if name.startswith("!")}
    limit = request.number("limit", 0)
    found: list[Host] = []
    for host in request.world.candidates(wanted):
        if needed <= host.traits and not forbidden & host.traits:
            found.append(host)
        if len(found) == limit:
            break
    requests = [
        {"allocations": {h.id: {"resources": wanted}}, "mappings": {"": [h.id]}} for h in found
    ]
    summaries = {h.id: _summary(h) for h in found}
    return Answer(200, {"allocation_requests": requests, "provider_summaries": summaries})


def _summary(host: Host) -> Json:
    return {
        "resources": {
            name: {"capacity": one.capacity, "used": host.used.get(name, 0)}
            for name, one in host.inventory.items()
        },
        "traits": sorted(host.traits),
        "parent_provider_uuid": None,
        "root_provider_uuid": host.id,
    }


def _resources(text: str) -> Resources:
    wanted: Resources = {}
    for part in text.split(",") if text else ():
        name, _, amount = part.partition(":")
        if not (_NAME.fullmatch(name) and amount.isdecimal() and int(amount) > 0):
            raise RefusalError(400, f"Badly formed resources parameter: {text}")
        wanted[name] = int(amount)
    if not wanted:
        raise RefusalError(400, "'resources' is a required property")
    return wanted


SERVICE: Final = Service(
    "placement",
    "",
    (
        route("GET", "", _versions, public=True),
        route("GET", "/", _versions, public=True),
        route("GET", "/traits", _traits),
        route("GET", "/traits/{name}", _one_trait),
        route("PUT", "/traits/{name}", _make_trait),
        route("DELETE", "/traits/{name}", _delete_trait),
        route("GET", "/resource_providers", _providers),
        route("GET", "/resource_providers/{id}", _show),
        route("DELETE", "/resource_providers/{id}", _delete),
        route("GET", "/resource_providers/{id}/traits", _traits_of),
        route("PUT", "/resource_providers/{id}/traits", _put_traits),
        route("GET", "/resource_providers/{id}/inventories", _inventories),
        route("GET", "/resource_providers/{id}/usages", _usages),
        route("GET", "/resource_providers/{id}/aggregates", _aggregates),
        route("GET", "/resource_providers/{id}/allocations", _allocations_of),
        route("GET", "/allocations/{consumer}", _allocations),
        route("DELETE", "/allocations/{consumer}", _free),
        route("GET", "/allocation_candidates", _candidates),
    ),
    _error,
    (OLDEST, NEWEST),
)
