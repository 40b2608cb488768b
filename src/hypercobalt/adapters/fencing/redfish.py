"""Reads the UUID of the computer system that a Redfish service switches; fence_redfish prints none.

The same system, address, TLS settings and credentials as fence_redfish uses. The password goes to
that address only: redirects are not followed, and no link leads to another host.

Source: DMTF DSP0266, 7.2 and 13.3; ComputerSystem schema, UUID; fence-agents 4.12, fence_redfish.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import httpx2
import msgspec

from hypercobalt.adapters.fencing.devices import Device
from hypercobalt.adapters.fencing.port import Credentials, FenceError, FenceFailure

_ROOT: Final = "/redfish/v1"
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})
_LONGEST: Final = 1024 * 1024  # bytes of an answer
_HEADERS: Final = {
    "Accept": "application/json",
    "OData-Version": "4.0",
    "Accept-Encoding": "identity",  # a few bytes could unpack to any number
}


class _Link(msgspec.Struct, rename={"id": "@odata.id"}):
    id: str = ""


class _Root(msgspec.Struct, rename="pascal"):
    systems: _Link = msgspec.field(default_factory=_Link)


class _Systems(msgspec.Struct, rename="pascal"):
    members: tuple[_Link, ...] = ()


class _System(msgspec.Struct):
    UUID: str | None = None


async def system_uuids(
    device: Device, credentials: Credentials, within: timedelta
) -> frozenset[str]:
    """The UUID of the system; none where it has none, or one of zeros alone.

    Raises:
        FenceError: the service does not answer in time, or refuses.
    """
    try:
        async with (
            asyncio.timeout(within.total_seconds()),
            httpx2.AsyncClient(
                verify=_tls(device),
                auth=(credentials.username, credentials.password),
                headers=_HEADERS,
                follow_redirects=False,
                trust_env=False,
                timeout=within.total_seconds(),
            ) as client,
        ):
            return await _read(client, device.parameters)
    except TimeoutError as error:
        text = f"{device.title}: UUID of the system: no answer in time"
        raise FenceError(text, FenceFailure.TIMED_OUT) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.DecodeError, ssl.SSLError) as error:
        raise _failed(device, str(error) or type(error).__name__) from error
    except _UnexpectedError as error:
        raise _failed(device, str(error), error.failure) from error


class _UnexpectedError(Exception):
    """The service answers what no Redfish service would, or refuses."""

    def __init__(self, message: str, failure: FenceFailure = FenceFailure.FAILED) -> None:
        super().__init__(message)
        self.failure = failure


async def _read(client: httpx2.AsyncClient, parameters: Mapping[str, str]) -> frozenset[str]:
    base = f"https://{parameters.get('ip', '')}:{parameters.get('ipport') or '443'}"
    path = parameters.get("systems_uri", "")
    if not path:
        root = await _get(client, base, parameters.get("redfish_uri") or _ROOT)
        systems = await _get(client, base, msgspec.json.decode(root, type=_Root).systems.id)
        members = msgspec.json.decode(systems, type=_Systems).members
        path = members[-1].id if members else ""  # as fence_redfish does
    found = msgspec.json.decode(await _get(client, base, path), type=_System).UUID or ""
    try:
        value = uuid.UUID(found)
    except ValueError:
        return frozenset()
    return frozenset({str(value)} if value.int else ())


async def _get(client: httpx2.AsyncClient, base: str, path: str) -> bytes:
    if not path.startswith("/") or path.startswith("//"):
        raise _UnexpectedError(f"it names no path on itself: {path[:80]!r}")
    async with client.stream("GET", f"{base}{path}") as answer:
        if answer.status_code != HTTPStatus.OK:
            refused = answer.status_code in _REFUSED
            failure = FenceFailure.REFUSED if refused else FenceFailure.FAILED
            raise _UnexpectedError(f"GET {path[:80]}: {answer.status_code}", failure)
        found = bytearray()
        async for part in answer.aiter_raw():
            found += part
            if len(found) > _LONGEST:
                raise _UnexpectedError(f"GET {path[:80]}: more than {_LONGEST} bytes")
        return bytes(found)


def _tls(device: Device) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=device.authority or None)
    if "ssl_insecure" in device.parameters:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _failed(device: Device, why: str, failure: FenceFailure = FenceFailure.FAILED) -> FenceError:
    text = f"{device.title}: UUID of the system cannot be read: {why[:200]}"
    return FenceError(text, failure)
