"""What servers are made from in Nova: flavors, groups; and its versions."""

from __future__ import annotations

import uuid
from typing import Final

from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, page, route
from tests.simulated_openstack.model import Flavor, Group


def _version(request: Request) -> Answer:
    links = [{"rel": "self", "href": f"{request.root}/"}]
    shown = {"id": "v2.1", "status": "CURRENT", "version": "2.104", "min_version": "2.1"}
    return Answer(200, {"version": {**shown, "updated": "2013-07-23T11:33:21Z", "links": links}})


# -- flavors ---------------------------------------------------------------------------------------


def _flavor(flavor: Flavor) -> Json:
    return {
        "id": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.memory,
        "disk": flavor.disk,
        "swap": 0,
        "OS-FLV-EXT-DATA:ephemeral": 0,
        "links": [],
        "os-flavor-access:is_public": True,
        "OS-FLV-DISABLED:disabled": False,
        "rxtx_factor": 1.0,
        "description": None,
        "extra_specs": dict(flavor.extra_specs),
    }


def _flavors(request: Request) -> Answer:
    taken, _ = page(request, tuple(request.world.flavors.values()), lambda f: f.id)
    return Answer(200, {"flavors": [{"id": f.id, "name": f.name, "links": []} for f in taken]})


def _flavors_detail(request: Request) -> Answer:
    taken, _ = page(request, tuple(request.world.flavors.values()), lambda f: f.id)
    return Answer(200, {"flavors": [_flavor(f) for f in taken]})


def _one_flavor(request: Request) -> Answer:
    id = request.parts["id"]
    if id not in request.world.flavors:
        raise RefusalError(404, f"Flavor {id} could not be found.")
    return Answer(200, {"flavor": _flavor(request.world.flavors[id])})


# -- server groups ---------------------------------------------------------------------------------


def _group(request: Request, group: Group) -> Json:
    shown: Json = {
        "id": group.id,
        "name": group.name,
        "members": list(group.members),
        "project_id": group.project,
        "user_id": group.user,
    }
    if request.version < (2, 64):
        return shown | {"policies": [group.policy], "metadata": {}}
    return shown | {"policy": group.policy, "rules": {}}


def _groups(request: Request) -> Answer:
    groups = request.world.groups.values()
    all_projects = "all_projects" in request.query and request.token.admin
    found = [g for g in groups if all_projects or g.project == request.token.project]
    return Answer(200, {"server_groups": [_group(request, g) for g in found]})


def _one_group(request: Request) -> Answer:
    id = request.parts["id"]
    if id not in request.world.groups:
        raise RefusalError(404, f"Instance group {id} could not be found.")
    return Answer(200, {"server_group": _group(request, request.world.groups[id])})


def _new_group(request: Request) -> Answer:
    wanted = request.json("server_group")
    name, policy = request.json("server_group", "name"), wanted.get("policy")
    policy = policy or next(iter(wanted.get("policies", [])), None)
    if policy not in {"affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"}:
        raise RefusalError(400, f"Invalid input for field/attribute policy. Value: {policy}.")
    made = Group(str(uuid.uuid4()), name, policy, request.token.project, request.token.user)
    request.world.groups[made.id] = made
    return Answer(200, {"server_group": _group(request, made)})


def _delete_group(request: Request) -> Answer:
    id = request.parts["id"]
    if request.world.groups.pop(id, None) is None:
        raise RefusalError(404, f"Instance group {id} could not be found.")
    return Answer(204)


ROUTES: Final = (
    route("GET", "", _version, public=True),
    route("GET", "/", _version, public=True),
    route("GET", "/flavors", _flavors),
    route("GET", "/flavors/detail", _flavors_detail),
    route("GET", "/flavors/{id}", _one_flavor),
    route("GET", "/os-server-groups", _groups),
    route("POST", "/os-server-groups", _new_group),
    route("GET", "/os-server-groups/{id}", _one_group),
    route("DELETE", "/os-server-groups/{id}", _delete_group),
)
