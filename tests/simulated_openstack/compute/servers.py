"""Servers: listed, shown, created, deleted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

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
from tests.simulated_openstack.model import Host, Port, Server, Volume

LOCK_REASONS: Final = (2, 73)


def routes(life: Life) -> Sequence[Route]:
    def create(request: Request) -> Answer:
        server, host, zone = _new(request)
        request.world.servers[server.id] = server
        life.begin(life.boot(server, host, zone))
        shown = {"id": server.id, "links": _links(request, server), "adminPass": "secret"}
        shown |= {"OS-DCF:diskConfig": "MANUAL", "security_groups": [{"name": "default"}]}
        return Answer(202, {"server": shown})

    def delete(request: Request) -> Answer:
        server = found(request)
        must_be_unlocked(request, server)
        server.set(task_state="deleting")
        life.begin(life.delete(server))
        return Answer(204)

    return (
        route("GET", "/servers", _list),
        route("GET", "/servers/detail", _detail),
        route("POST", "/servers", create),
        route("GET", "/servers/{id}", _show),
        route("DELETE", "/servers/{id}", delete),
    )


def found(request: Request) -> Server:
    """The server that a request is about.

    Raises:
        RefusalError: 404: it is not there, or of another project.
    """
    id = request.parts["id"]
    server = request.world.servers.get(id)
    if server is None or not (request.token.admin or server.project == request.token.project):
        raise RefusalError(404, f"Instance {id} could not be found.")
    return server


def must_be_unlocked(request: Request, server: Server) -> None:
    """Refuse what an owner wants of a locked server.

    Raises:
        RefusalError: 409.
    """
    if server.locked_by and not request.token.admin:
        raise RefusalError(409, f"Instance {server.id} is locked")


# -- shown -----------------------------------------------------------------------------------------


def _time(moment: datetime | None) -> str | None:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else None


def _links(request: Request, server: Server) -> Json:
    return [{"rel": "self", "href": f"{request.root}/servers/{server.id}"}]


def _view(request: Request, server: Server, *, one: bool) -> Json:
    world, flavor = request.world, server.flavor
    host: Host | None = world.hosts.get(server.host)
    shown: Json = {
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "tenant_id": server.project,
        "user_id": server.user,
        "metadata": dict(server.metadata),
        "hostId": uuid.uuid5(uuid.NAMESPACE_URL, server.host).hex if server.host else "",
        "image": {"id": server.image, "links": []} if server.image else "",
        "flavor": {
            "vcpus": flavor.vcpus,
            "ram": flavor.memory,
            "disk": flavor.disk,
            "ephemeral": 0,
            "swap": 0,
            "original_name": flavor.name,
            "extra_specs": dict(flavor.extra_specs),
        },
        "created": _time(server.created),
        "updated": _time(server.updated),
        "addresses": {},
        "accessIPv4": "",
        "accessIPv6": "",
        "links": _links(request, server),
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": world.zone(server.host) if server.host else "",
        "config_drive": "",
        "key_name": None,
        "OS-SRV-USG:launched_at": server.launched and f"{server.launched:%Y-%m-%dT%H:%M:%S.%f}",
        "OS-SRV-USG:terminated_at": None,
        "OS-EXT-STS:task_state": server.task_state,
        "OS-EXT-STS:vm_state": server.vm_state,
        "OS-EXT-STS:power_state": server.power_state,
        "os-extended-volumes:volumes_attached": [
            {"id": id, "delete_on_termination": True} for id in server.volumes
        ],
        "locked": bool(server.locked_by),
        "description": None,
        "tags": [],
        "trusted_image_certificates": None,
    }
    if request.version >= LOCK_REASONS:
        shown["locked_reason"] = server.locked_reason
    if request.version < (2, 47):
        shown["flavor"] = {"id": flavor.id, "links": []}
    if server.vm_state == "error" and server.fault is not None:
        shown["fault"] = {
            "code": server.fault.code,
            "message": server.fault.message,
            "created": _time(server.fault.created),
        }
    if one and request.version >= (2, 71):
        shown["server_groups"] = [server.group] if server.group else []
    if request.token.admin:
        shown |= {
            "OS-EXT-SRV-ATTR:host": server.host or None,
            "OS-EXT-SRV-ATTR:hypervisor_hostname": host.hostname if host else None,
            "OS-EXT-SRV-ATTR:instance_name": f"instance-{server.id[:8]}",
            "OS-EXT-SRV-ATTR:hostname": server.name,
            "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        }
        if request.version >= (2, 16):
            shown["host_status"] = _host_status(request, host)
    if request.version >= (2, 96):
        shown["pinned_availability_zone"] = server.zone
    return shown


def _host_status(request: Request, host: Host | None) -> str:
    if host is None:
        return ""
    if host.forced_down:
        return "DOWN"
    if not request.world.is_up(host):
        return "UNKNOWN"
    return "UP" if host.enabled else "MAINTENANCE"


def _wanted(request: Request) -> Iterable[Server]:
    """Servers that the request's filters let through."""
    world, query = request.world, request.query
    host, all_tenants = query.get("host"), request.flag("all_tenants")
    if all_tenants and not request.token.admin:
        raise RefusalError(
            403,
            "Policy doesn't allow os_compute_api:servers:detail:get_all_tenants to be performed.",
        )
    servers: Iterable[Server] = world.servers.values()
    if host is not None and request.token.admin:
        servers = world.hosts[host].servers.values() if host in world.hosts else ()
    if not all_tenants:
        servers = (s for s in servers if s.project == request.token.project)
    elif "project_id" in query:
        servers = (s for s in servers if s.project == query["project_id"])
    if "name" in query:
        try:
            pattern = re.compile(query["name"])
        except re.error:
            raise RefusalError(400, f"Invalid regex {query['name']}") from None
        servers = (s for s in servers if pattern.search(s.name))
    if "status" in query:
        servers = (s for s in servers if s.status == query["status"].upper())
    if "locked" in query and request.version >= LOCK_REASONS:
        servers = (s for s in servers if bool(s.locked_by) == request.flag("locked"))
    if "uuid" in query:
        servers = (s for s in servers if s.id == query["uuid"])
    return sorted(servers, key=lambda s: s.created, reverse=True)


def _listed(request: Request, *, detail: bool) -> Answer:
    servers, marker = page(request, tuple(_wanted(request)), lambda s: s.id)
    body: Json = {
        "servers": [
            _view(request, s, one=False)
            if detail
            else {"id": s.id, "name": s.name, "links": _links(request, s)}
            for s in servers
        ]
    }
    if marker:
        body["servers_links"] = next_links(request, marker)
    return Answer(200, body)


def _list(request: Request) -> Answer:
    return _listed(request, detail=False)


def _detail(request: Request) -> Answer:
    return _listed(request, detail=True)


def _show(request: Request) -> Answer:
    return Answer(200, {"server": _view(request, found(request), one=True)})


# -- created ---------------------------------------------------------------------------------------


def _new(request: Request) -> tuple[Server, str, str | None]:
    """The requested server, the only host and the zone that it may have.

    Raises:
        RefusalError: it cannot be had.
    """
    world, wanted = request.world, request.json("server")
    flavor = world.flavors.get(str(wanted.get("flavorRef")))
    if flavor is None:
        raise RefusalError(400, f"Flavor {wanted.get('flavorRef')} could not be found.")
    image = wanted.get("imageRef") or ""
    volumes = _volumes(request, wanted)
    if not (image or volumes) or (image and image not in world.images):
        raise RefusalError(400, "Invalid imageRef provided.")
    zone, host = wanted.get("availability_zone"), str(wanted.get("host") or "")
    if zone and ":" in zone:
        zone, host = zone.split(":", 1)
    if host:
        request.must_be_admin("os_compute_api:servers:create:requested_destination")
        if host not in world.hosts:
            raise RefusalError(400, f"Compute host {host} could not be found.")
    if zone and zone not in world.zones():
        raise RefusalError(400, "The requested availability zone is not available")
    group = str(wanted.get("os:scheduler_hints", {}).get("group", ""))
    if group and group not in world.groups:
        raise RefusalError(400, f"Instance group {group} could not be found.")
    server = Server(
        str(uuid.uuid4()),
        request.json("server", "name"),
        request.token.project,
        request.token.user,
        flavor,
        image=image,
        volumes=volumes,
        group=group,
        zone=zone,
        shared=world.shared or bool(volumes),
        metadata=dict(wanted.get("metadata", {})),
    )
    _networks(request, wanted, server)
    if group:
        world.groups[group].members.append(server.id)
    return server, host, zone


def _volumes(request: Request, wanted: Json) -> tuple[str, ...]:
    made = []
    for device in wanted.get("block_device_mapping_v2", ()):
        if device.get("destination_type") != "volume":
            continue
        volume = Volume(
            str(uuid.uuid4()),
            "",
            int(device.get("volume_size", 1)),
            device.get("volume_type") or "default",
            request.token.project,
        )
        request.world.volumes[volume.id] = volume
        made.append(volume.id)
    return tuple(made)


def _networks(request: Request, wanted: Json, server: Server) -> None:
    networks = wanted.get("networks")
    if networks is None and request.version >= (2, 37):
        raise RefusalError(400, "Invalid input: 'networks' is a required property")
    for network in networks if isinstance(networks, list) else ():
        id = network.get("uuid")
        if id not in request.world.networks:
            raise RefusalError(400, f"Network {id} could not be found.")
        port = Port(str(uuid.uuid4()), id, server.id, "")
        request.world.ports[port.id] = port
