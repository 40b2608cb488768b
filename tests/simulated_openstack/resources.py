"""As much of Glance, Neutron and Cinder as the boot of a server needs."""

from __future__ import annotations

from typing import Final

from tests.simulated_openstack.http import (
    Answer,
    Handler,
    Json,
    RefusalError,
    Request,
    Service,
    route,
)
from tests.simulated_openstack.model import Image, Network, Port

# -- images ----------------------------------------------------------------------------------------


def _image_error(code: int, message: str, _kind: str = "") -> Json:
    return {"message": f"{code}: {message}"}


def _image(image: Image) -> Json:
    return {
        "id": image.id,
        "name": image.name,
        "status": "active",
        "visibility": "public",
        "container_format": "bare",
        "disk_format": "qcow2",
        "min_disk": 0,
        "min_ram": 0,
        "size": 10 * 1024**2,
        "schema": "/v2/schemas/image",
        "tags": [],
        **image.properties,
    }


def _images(request: Request) -> Answer:
    name = request.query.get("name")
    found = [i for i in request.world.images.values() if name in {None, i.name}]
    body = {"images": [_image(i) for i in found], "first": "/v2/images"}
    return Answer(200, body | {"schema": "/v2/schemas/images"})


def _one_image(request: Request) -> Answer:
    id = request.parts["id"]
    if id not in request.world.images:
        raise RefusalError(404, f"Failed to find image {id}")
    return Answer(200, _image(request.world.images[id]))


def _image_versions(request: Request) -> Answer:
    links = [{"rel": "self", "href": f"{request.root}/v2/"}]
    return Answer(300, {"versions": [{"id": "v2.17", "status": "CURRENT", "links": links}]})


IMAGES: Final = Service(
    "image",
    "",
    (
        route("GET", "", _image_versions, public=True),
        route("GET", "/", _image_versions, public=True),
        route("GET", "/v2/images", _images),
        route("GET", "/v2/images/{id}", _one_image),
    ),
    _image_error,
)


# -- networks --------------------------------------------------------------------------------------


def _network_error(code: int, message: str, kind: str = "") -> Json:
    return {"NeutronError": {"type": kind or "Error", "message": message, "detail": str(code)}}


def _network(network: Network) -> Json:
    return {
        "id": network.id,
        "name": network.name,
        "shared": network.shared,
        "status": "ACTIVE",
        "tenant_id": network.project,
        "project_id": network.project,
        "subnets": [],
        "router:external": False,
        "admin_state_up": True,
    }


def _networks(request: Request) -> Answer:
    query, mine = request.query, request.token.project
    found = [
        network
        for network in request.world.networks.values()
        if (request.token.admin or network.shared or network.project == mine)
        and query.get("name") in {None, network.name}
        and query.get("project_id") in {None, network.project}
        and query.get("shared", str(network.shared)).lower() == str(network.shared).lower()
        and query.get("router:external", "false").lower() == "false"
    ]
    return Answer(200, {"networks": [_network(n) for n in found]})


def _port(port: Port) -> Json:
    return {
        "id": port.id,
        "network_id": port.network,
        "device_id": port.server,
        "status": port.status,
        "binding:host_id": port.host,
        "binding:vif_type": "ovs",
        "device_owner": "compute:nova",
        "fixed_ips": [],
        "admin_state_up": True,
    }


def _ports(request: Request) -> Answer:
    server = request.query.get("device_id")
    found = [p for p in request.world.ports.values() if server in {None, p.server}]
    return Answer(200, {"ports": [_port(p) for p in found]})


def _nothing(name: str) -> Handler:
    return lambda _request: Answer(200, {name: []})


def _network_versions(request: Request) -> Answer:
    links = [{"rel": "self", "href": f"{request.root}/v2.0/"}]
    return Answer(200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]})


NETWORKS: Final = Service(
    "network",
    "",
    (
        route("GET", "", _network_versions, public=True),
        route("GET", "/", _network_versions, public=True),
        route("GET", "/v2.0/networks", _networks),
        route("GET", "/v2.0/ports", _ports),
        route("GET", "/v2.0/subnets", _nothing("subnets")),
        route("GET", "/v2.0/security-groups", _nothing("security_groups")),
        route("GET", "/v2.0/extensions", _nothing("extensions")),
    ),
    _network_error,
)


# -- volumes ---------------------------------------------------------------------------------------


def _volume_error(code: int, message: str, _kind: str = "") -> Json:
    return {"badRequest" if code == 400 else "computeFault": {"code": code, "message": message}}


def _volumes(request: Request) -> Answer:
    shown = [
        {"id": v.id, "name": v.name, "size": v.size, "volume_type": v.kind, "status": "in-use"}
        for v in request.world.volumes.values()
        if v.project == request.token.project
    ]
    return Answer(200, {"volumes": shown})


def _types(_request: Request) -> Answer:
    names = ("default", "premium")
    return Answer(200, {"volume_types": [{"id": name, "name": name} for name in names]})


def _volume_version(request: Request) -> Answer:
    links = [{"rel": "self", "href": f"{request.root}/"}]
    shown = {"id": "v3.0", "status": "CURRENT", "version": "3.71", "min_version": "3.0"}
    return Answer(200, {"version": shown | {"links": links}})


VOLUMES: Final = Service(
    "block-storage",
    "/v3",
    (
        route("GET", "", _volume_version, public=True),
        route("GET", "/", _volume_version, public=True),
        route("GET", "/volumes", _volumes),
        route("GET", "/volumes/detail", _volumes),
        route("GET", "/types", _types),
    ),
    _volume_error,
)
