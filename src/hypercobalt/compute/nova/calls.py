"""Calls of Nova's adapter, with negotiated versions, and errors of the port."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.errors import NoAnswerError
from hypercobalt.adapters.openstack.request import DEADLINE, Answer, Request
from hypercobalt.adapters.openstack.versions import Version, supported
from hypercobalt.compute.errors import ComputeConflictError, RefusedError, UnreachableError
from hypercobalt.compute.nova.pages import LIMIT, MOST_PAGES, Page, next_query
from hypercobalt.compute.nova.shared import SharedRead
from hypercobalt.logs import get_logger

log = get_logger(__name__)

COMPUTE: Final = "compute"
PLACEMENT: Final = "placement"
LONG: Final = 120.0
"""Seconds for listings of the whole fleet, for which Nova queries its database for each host."""

_SUPPORTED: Final = {COMPUTE: ((2, 65), (2, 98)), PLACEMENT: ((1, 29), (1, 39))}
"""Oldest microversion with all features in use (2.65: abort a queued live migration; 1.29:
nested providers in allocation candidates), and the newest whose answers are understood.
"""
_ASSUMED: Final = {COMPUTE: (2, 95), PLACEMENT: (1, 39)}
"""Microversion assumed for a service that does not report its versions."""
_NOT_FOUND, _NOT_ACCEPTABLE, _CONFLICT = 404, 406, 409
ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
"""Form of the ids of servers and migrations."""
T = TypeVar("T")
AnyPage = TypeVar("AnyPage", bound=Page)
_FOR_EVER = float("inf")


class Calls:
    """One account's calls to Nova and its neighbours.

    Args:
        client: of the account.
        clock: seconds that never step back.
    """

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._newest = {
            service: SharedRead(f"versions-{service}", reader, seconds=_FOR_EVER, clock=clock)
            for service, reader in (
                (COMPUTE, self._compute_versions),
                (PLACEMENT, self._placement_versions),
            )
        }
        self._unsupported: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Return why Nova or Placement is not called at present; "" when both are."""
        for service in (COMPUTE, PLACEMENT):
            if found := self._client.trouble(service) or self._unsupported.get(service, ""):
                return found
        return ""

    async def __call__(
        self,
        about: str,
        service: str,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: object = None,
        version: Version | None = None,
        allow: Collection[int] = (),
        deadline: float = DEADLINE,
    ) -> Answer:
        """Make a call.

        Args:
            about: action and object, for messages and logs.
            service: its type in the catalogue.
            method: of HTTP.
            path: below the service's endpoint.
            query: parameters.
            body: sent as JSON; None sends nothing.
            version: the newest microversion to send; None sends none.
            allow: codes of refusals that are an answer here.
            deadline: seconds.

        Raises:
            UnreachableError: there is no usable answer.
            ComputeConflictError: 409.
            RefusedError: any other refusal.
        """
        with _answered():
            chosen = await self._version(service, version) if version else ""
            answer = await self._client.call(
                Request(about, service, method, path, tuple(query), body, chosen, deadline)
            )
        if answer.ok or answer.code in allow:
            return answer
        if answer.code == _NOT_ACCEPTABLE and service in self._newest:
            self._newest[service].forget()  # another Nova than the first one
            raise UnreachableError(f"{about}: {service} answered {answer.words}")
        if answer.code == _CONFLICT:
            raise ComputeConflictError(f"{about}: {service} answered {answer.words}")
        raise refused(answer, service)

    async def user(self) -> str:
        """Return the id of the account's user; "" when Keystone does not give it."""
        with _answered():
            return await self._client.user()

    async def act(self, about: str, server: str, action: object, version: Version) -> Answer:
        """Request an action of Nova on a server, by its id, which has been checked."""
        path = f"/servers/{server}/action"
        return await self(about, COMPUTE, "POST", path, body=action, version=version)

    async def pages(
        self,
        about: str,
        path: str,
        type_: type[AnyPage],
        *,
        query: Sequence[tuple[str, str]],
        version: Version,
    ) -> list[AnyPage]:
        """Return every page of a listing of Nova's."""
        found, query = list[AnyPage](), (*query, LIMIT)
        for _ in range(MOST_PAGES):
            answer = await self(
                about, COMPUTE, "GET", path, query=query, version=version, deadline=LONG
            )
            found.append(read(answer, type_))
            if (following := next_query(found[-1].links)) is None:
                return found
            query = following
        raise UnreachableError(f"{about}: more than {MOST_PAGES} pages")

    async def close(self) -> None:
        """End pending calls."""
        for newest in self._newest.values():
            await newest.close()

    async def offers(self, service: str, version: Version) -> bool:
        """Whether a service has a microversion."""
        return await self._newest[service].get() >= version

    async def _version(self, service: str, highest: Version) -> str:
        newest = await self._newest[service].get()
        major, minor = min(highest, newest)
        return f"{major}.{minor}"

    async def _compute_versions(self) -> Version:
        return await self._negotiate(COMPUTE)

    async def _placement_versions(self) -> Version:
        return await self._negotiate(PLACEMENT)

    async def _negotiate(self, service: str) -> Version:
        oldest, understood = _SUPPORTED[service]
        with _answered():
            offered = await supported(self._client, service)
        if offered is not None and (offered[1] < oldest or offered[0] > understood):
            raise self._no_common(service, offered)
        self._unsupported.pop(service, None)
        chosen = min(offered[1], understood) if offered else _ASSUMED[service]
        log.info("negotiated_microversion", service=service, version="{}.{}".format(*chosen))
        return chosen

    def _no_common(self, service: str, offered: tuple[Version, Version]) -> UnreachableError:
        oldest, understood = _SUPPORTED[service]
        why = (
            f"the service {service} has microversions {_range(offered)}, needed is one of "
            f"{_range((oldest, understood))}"
        )
        self._unsupported[service] = why
        return UnreachableError(why)


def checked(id: str) -> str:
    """Check the id of a server or a migration that goes into a path, and return it."""
    if not ID.fullmatch(id):
        raise RefusedError(f"{id!r} is not the id of a server or a migration", reason="InvalidId")
    return id


def read(answer: Answer, type_: type[T]) -> T:
    """Decode the body of an answer as a type.

    Raises:
        UnreachableError: the body does not have that type.
    """
    with _answered():
        return answer.read(type_)


@contextmanager
def _answered() -> Generator[None]:
    """Raise the errors of a call without a usable answer as errors of the port."""
    try:
        yield
    except NoAnswerError as exc:
        raise UnreachableError(str(exc), retry_after=exc.retry_after) from exc


def refused(answer: Answer, service: str) -> RefusedError:
    """Return the error for a refusal that is no conflict."""
    return RefusedError(
        f"{answer.about}: {service} answered {answer.words}",
        reason="NotFound" if answer.code == _NOT_FOUND else "Refused",
        code=answer.code,
    )


def _range(versions: tuple[Version, Version]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in versions)


class Allocations(msgspec.Struct, frozen=True):
    """Placement's allocations, by consumer or by provider; their amounts are not read."""

    allocations: dict[str, msgspec.Raw]
