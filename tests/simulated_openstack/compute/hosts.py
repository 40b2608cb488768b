"""Hypervisors and compute services."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import Final

from tests.simulated_openstack.http import (
    Answer,
    Json,
    RefusalError,
    Request,
    next_links,
    page,
    route,
)
from tests.simulated_openstack.model import Host, now

_NO_SIZES: Final = (2, 88)
_UUIDS: Final = (2, 53)
_ALWAYS_SERVERS: Final = (2, 75)
_UNDER_WAY: Final = {"migrating", "finished", "confirming", "accepted", "reverting"}
_UPTIME: Final = " 12:00:00 up 1 day,  2:03,  0 users,  load average: 0.10, 0.20, 0.30"


def is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


# -- hypervisors -----------------------------------------------------------------------------------


def _hypervisor(request: Request, host: Host, *, detail: bool, servers: bool) -> Json:
    shown: Json = {
        "id": host.id,
        "hypervisor_hostname": host.hostname,
        "state": "up" if request.world.is_up(host) else "down",
        "status": "enabled" if host.enabled else "disabled",
    }
    if detail:
        shown |= {
            "hypervisor_type": "QEMU",
            "hypervisor_version": 7002000,
            "host_ip": host.address,
            "service": {
                "id": host.service_id,
                "host": host.name,
                "disabled_reason": host.disabled_reason,
            },
        }
        shown |= (
            {"uptime": _UPTIME if host.alive else None}
            if request.version >= _NO_SIZES
            else _sizes(host)
        )
    if servers and (host.servers or request.version >= _ALWAYS_SERVERS):
        shown["servers"] = [
            {"uuid": s.id, "name": f"instance-{s.id}"} for s in host.servers.values()
        ]
    return shown


def _sizes(host: Host) -> Json:
    have = {name: found.total for name, found in host.inventory.items()}
    used = {name: host.used.get(name, 0) for name in have}
    return {
        "vcpus": have["VCPU"],
        "memory_mb": have["MEMORY_MB"],
        "local_gb": have["DISK_GB"],
        "vcpus_used": used["VCPU"],
        "memory_mb_used": used["MEMORY_MB"],
        "local_gb_used": used["DISK_GB"],
        "free_ram_mb": have["MEMORY_MB"] - used["MEMORY_MB"],
        "free_disk_gb": have["DISK_GB"] - used["DISK_GB"],
        "current_workload": 0,
        "running_vms": len(host.servers),
        "disk_available_least": None,
        "cpu_info": {},
    }


def _hypervisors(request: Request, *, detail: bool) -> Answer:
    request.must_be_admin("os_compute_api:os-hypervisors:list")
    found = [host for host in request.world.hosts.values() if host.service]
    links = ""
    pattern = request.query.get("hypervisor_hostname_pattern")
    if pattern is not None:
        if "limit" in request.query or "marker" in request.query:
            text = "hypervisor_hostname_pattern query parameter is not supported."
            raise RefusalError(400, f"Paging over hypervisors with the {text}")
        found = [host for host in found if pattern in host.hostname]
        if not found:
            raise RefusalError(404, f"No hypervisor matching '{pattern}' could be found.")
    else:
        found, links = page(request, found, lambda host: host.id)  # type: ignore[assignment]
    servers = request.flag("with_servers")
    body: Json = {
        "hypervisors": [_hypervisor(request, h, detail=detail, servers=servers) for h in found]
    }
    if links:
        body["hypervisors_links"] = next_links(request, links)
    return Answer(200, body)


def _list(request: Request) -> Answer:
    return _hypervisors(request, detail=False)


def _detail(request: Request) -> Answer:
    return _hypervisors(request, detail=True)


def _show(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-hypervisors:show")
    id = request.parts["id"]
    if not is_uuid(id):
        raise RefusalError(400, f"Invalid uuid {id}")
    host = request.world.by_id.get(id)
    if host is None or not host.service:
        raise RefusalError(404, f"Hypervisor with ID '{id}' could not be found.")
    servers = request.flag("with_servers")
    return Answer(200, {"hypervisor": _hypervisor(request, host, detail=True, servers=servers)})


# -- compute services ------------------------------------------------------------------------------


def _service(request: Request, host: Host) -> Json:
    world = request.world
    reported = now() - timedelta(seconds=time.monotonic() - world.last_report(host))
    return {
        "id": host.service_id,
        "binary": "nova-compute",
        "host": host.name,
        "zone": world.zone(host.name),
        "status": "enabled" if host.enabled else "disabled",
        "state": "up" if world.is_up(host) else "down",
        "updated_at": f"{reported:%Y-%m-%dT%H:%M:%S.}{reported.microsecond // 1000 * 1000:06}",
        "disabled_reason": host.disabled_reason,
        "forced_down": host.forced_down,
    }


def _services(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-services:list")
    world = request.world
    binary = request.query.get("binary")
    if binary not in {None, "", "nova-compute"}:
        parts = world.parts.get(binary, {})
        shown = [{"id": name, "host": name, "state": state} for name, state in parts.items()]
        return Answer(200, {"services": shown})
    name = request.query.get("host")
    hosts = [world.hosts[name]] if name in world.hosts else [] if name else world.hosts.values()
    return Answer(200, {"services": [_service(request, host) for host in hosts if host.service]})


def _found(request: Request) -> Host:
    id = request.parts["id"]
    if not is_uuid(id):
        raise RefusalError(400, f"Invalid uuid {id}")
    host = request.world.by_service.get(id)
    if host is None or not host.service:
        raise RefusalError(404, f"Service {id} could not be found.")
    return host


def _update(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-services:update")
    host, body = _found(request), request.json()
    if (
        not isinstance(body, dict)
        or not body
        or body.keys() - {*("status", "disabled_reason", "forced_down")}
    ):
        raise RefusalError(400, "Additional properties are not allowed")
    status, reason = body.get("status"), body.get("disabled_reason")
    if status not in {None, "enabled", "disabled"}:
        raise RefusalError(400, f"Invalid input for field/attribute status. Value: {status}.")
    if reason is not None and status != "disabled":
        raise RefusalError(400, "Specifying disabled_reason requires that status is disabled.")
    if body.get("forced_down") is False:
        _check_evacuations(request, host)
    if status is not None:
        host.enabled, host.disabled_reason = status == "enabled", reason
        request.world.sync_disabled(host)
    host.forced_down = bool(body.get("forced_down", host.forced_down))
    return Answer(200, {"service": _service(request, host)})


def _check_evacuations(request: Request, host: Host) -> None:
    for migration in request.world.migrations.values():
        if (migration.kind, migration.status, migration.source) == (
            *("evacuation", "done", host.name),
        ):
            raise RefusalError(
                400,
                f"Unable to force up host {host.name} as `done` evacuation migration records "
                "remain associated with the host. Ensure the compute service has been restarted, "
                "allowing these records to move to `completed` before retrying this request.",
            )


def _delete(request: Request) -> Answer:
    request.must_be_admin("os_compute_api:os-services:delete")
    host, world = _found(request), request.world
    text = "Unable to delete compute service that"
    if host.servers:
        raise RefusalError(
            409, f"{text} is hosting instances. Migrate or delete the instances first."
        )
    if any(
        host.name in {m.source, m.target} and (m.in_progress or m.status in _UNDER_WAY)
        for m in world.migrations.values()
    ):
        raise RefusalError(409, f"{text} has in-progress migrations.")
    for aggregate in world.aggregates.values():
        aggregate.hosts.pop(host.name, None)
    host.service = False
    world.remove_provider(host)
    return Answer(204)


ROUTES: Final = (
    route("GET", "/os-hypervisors", _list),
    route("GET", "/os-hypervisors/detail", _detail),
    route("GET", "/os-hypervisors/{id}", _show),
    route("GET", "/os-services", _services),
    route("PUT", "/os-services/{id}", _update),
    route("DELETE", "/os-services/{id}", _delete),
)
