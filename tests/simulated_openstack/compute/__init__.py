"""Nova's API, by its parts."""

from __future__ import annotations

from typing import Final

from tests.simulated_openstack.compute import (
    actions,
    aggregates,
    hosts,
    instance_actions,
    migrations,
    others,
    servers,
)
from tests.simulated_openstack.http import Json, Service
from tests.simulated_openstack.life import Life

OLDEST: Final = (2, 1)
NEWEST: Final = (2, 104)
_KINDS: Final = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    409: "conflictingRequest",
    413: "overLimit",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}


def service(life: Life) -> Service:
    """Nova, over a world whose life goes on."""
    routes = (
        *hosts.ROUTES,
        *aggregates.routes(),
        *servers.routes(life),
        *actions.routes(life),
        *migrations.routes(life),
        *instance_actions.ROUTES,
        *others.ROUTES,
    )
    return Service("compute", "/v2.1", routes, _error, (OLDEST, NEWEST))


def _error(code: int, message: str, kind: str = "") -> Json:
    return {kind or _KINDS.get(code, "computeFault"): {"code": code, "message": message}}
