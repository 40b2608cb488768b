"""A client of OpenStack's APIs, as small as can be: what is sent and answered stays visible.

It needs the address of a cloud's identity service and an account, and nothing else; so the tests
that call a lab's OpenStack by it run against any cloud, real or simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec

from hypercobalt.lab.errors import LabError

Json = Any  # of another project's making

_TIMEOUT = 60
_TOKEN = "X-Subject-Token"  # noqa: S105 - the name of a header
_OK, _CREATED, _REDIRECTED = 200, 201, 300
_MICROVERSION_NAMES = {"compute": "compute", "placement": "placement", "block-storage": "volume"}


@dataclass(frozen=True, slots=True)
class Account:
    """A user of a cloud.

    Args:
        auth_url: of the identity service, with its `/v3`.
        user: in the domain `default`.
        password: of the user.
        project: in the domain `default`.
        region: whose services are used.
    """

    auth_url: str
    user: str
    password: str
    project: str
    region: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered.

    Args:
        code: HTTP status.
        body: decoded JSON; text that is no JSON as it is; None when there is none.
    """

    code: int
    body: Json

    def ok(self) -> Json:
        """The body of an answer that grants the request.

        Raises:
            LabError: it does not.
        """
        if not _OK <= self.code < _REDIRECTED:
            raise LabError(f"{self.code}: {self.body}")
        return self.body


class Session:
    """One account's connection to a cloud; `token` is what it sends.

    async with Session(account) as cloud: answer = await cloud("compute", "GET", "/servers")
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        # The environment's proxies are for the outside.
        self._http = httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=False)
        self.token = ""
        self._endpoints: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        try:
            await self.authenticate()
        except BaseException:
            await self._http.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, exc, trace)

    async def authenticate(self) -> Json:
        """Get a new token, with its user, project, roles and catalogue."""
        account = self._account
        domain = {"id": "default"}
        user = {"name": account.user, "password": account.password, "domain": domain}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": {"name": account.project, "domain": domain}},
            }
        }
        response = await self._http.post(f"{account.auth_url}/auth/tokens", json=body)
        if response.status_code != _CREATED:
            raise LabError(f"{account.auth_url}: {response.status_code}: {response.text}")
        self.token = response.headers[_TOKEN]
        token = response.json()["token"]
        self._endpoints = {
            service["type"]: endpoint["url"].rstrip("/")
            for service in token.get("catalog", ())
            for endpoint in service["endpoints"]
            if (endpoint["interface"], endpoint["region"]) == ("public", account.region)
        }
        return token

    def endpoint(self, service: str) -> str:
        """The address of a service, from the catalogue; identity has the address of the account."""
        return self._endpoints.get(service) or {"identity": self._account.auth_url}[service]

    async def __call__(
        self,
        service: str,
        method: str,
        path: str,
        body: object = None,
        *,
        version: str = "",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answer:
        """Call a service.

        Args:
            service: its type in the catalogue.
            method: of HTTP.
            path: below its endpoint, with the query.
            body: to send as JSON.
            version: microversion; the oldest when not given.
            headers: more of them.
            content: to send as it is.
        """
        sent = {"X-Auth-Token": self.token, **(headers or {})}
        if version:
            sent["OpenStack-API-Version"] = f"{_MICROVERSION_NAMES[service]} {version}"
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = msgspec.json.encode(body)
        url = self.endpoint(service) + path
        response = await self._http.request(method, url, headers=sent, content=content)
        try:
            answered: Json = response.json() if response.content else None
        except ValueError:
            answered = response.text
        return Answer(response.status_code, answered)
