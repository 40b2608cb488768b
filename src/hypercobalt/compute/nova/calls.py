"""Calls of Nova's adapter: versions negotiated, and errors as those of the port."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeVar

from hypercobalt.adapters.openstack.client import Client
from hypercobalt.adapters.openstack.errors import NoAnswerError
from hypercobalt.adapters.openstack.request import DEADLINE, Answer, Request
from hypercobalt.adapters.openstack.versions import Version, supported
from hypercobalt.compute.errors import ConflictError, RefusedError, UnreachableError
from hypercobalt.compute.nova.shared import Shared
from hypercobalt.logs import get_logger

log = get_logger(__name__)

COMPUTE: Final = "compute"
PLACEMENT: Final = "placement"
LONG: Final = 120.0
"""Seconds for listings of the whole fleet, for which Nova asks its database about each host."""

_SUPPORTED: Final = {COMPUTE: ((2, 65), (2, 98)), PLACEMENT: ((1, 29), (1, 39))}
"""Oldest microversion that has all that is asked for (2.65: abort a queued live migration; 1.29:
nested providers in allocation candidates), and the newest whose answers are understood."""
_ASSUMED: Final = {COMPUTE: (2, 95), PLACEMENT: (1, 39)}
"""Of a service that does not report what it has."""
_NOT_FOUND, _NOT_ACCEPTABLE, _CONFLICT = 404, 406, 409
T = TypeVar("T")
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
            service: Shared(f"versions-{service}", reader, seconds=_FOR_EVER, clock=clock)
            for service, reader in (
                (COMPUTE, self._compute_versions),
                (PLACEMENT, self._placement_versions),
            )
        }
        self._unsupported: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Why Nova or Placement is not called at present; "" when they are."""
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
            about: what is done to which object, for messages and logs.
            service: its type in the catalogue.
            method: of HTTP.
            path: below the service's endpoint.
            query: parameters.
            body: sent as JSON; None sends nothing.
            version: the newest microversion to ask with; None sends none.
            allow: codes of refusals that are an answer here.
            deadline: seconds.

        Raises:
            UnreachableError: there is no usable answer.
            ConflictError: 409.
            RefusedError: any other refusal.
        """
        try:
            chosen = await self._version(service, version) if version else ""
            answer = await self._client.call(
                Request(about, service, method, path, tuple(query), body, chosen, deadline)
            )
        except NoAnswerError as exc:
            raise UnreachableError(str(exc), retry_after=exc.retry_after) from exc
        if answer.ok or answer.code in allow:
            return answer
        if answer.code == _NOT_ACCEPTABLE and service in self._newest:
            self._newest[service].forget()  # another Nova than the one that was asked at first
            raise UnreachableError(f"{about}: {service} answered {answer.words}")
        if answer.code == _CONFLICT:
            raise ConflictError(f"{about}: {service} answered {answer.words}")
        raise refused(answer, service)

    async def user(self) -> str:
        """The id of the account's user; "" when Keystone does not give it."""
        try:
            return await self._client.user()
        except NoAnswerError as exc:
            raise UnreachableError(str(exc), retry_after=exc.retry_after) from exc

    async def close(self) -> None:
        """End what is under way."""
        for newest in self._newest.values():
            await newest.close()

    async def _version(self, service: str, asked: Version) -> str:
        newest = await self._newest[service].get()
        major, minor = min(asked, newest)
        return f"{major}.{minor}"

    async def _compute_versions(self) -> Version:
        return await self._negotiate(COMPUTE)

    async def _placement_versions(self) -> Version:
        return await self._negotiate(PLACEMENT)

    async def _negotiate(self, service: str) -> Version:
        oldest, understood = _SUPPORTED[service]
        try:
            offered = await supported(self._client, service)
        except NoAnswerError as exc:
            raise UnreachableError(str(exc), retry_after=exc.retry_after) from exc
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


def read(answer: Answer, type_: type[T]) -> T:
    """The body of an answer as a type.

    Raises:
        UnreachableError: it is not of that shape.
    """
    try:
        return answer.read(type_)
    except NoAnswerError as exc:
        raise UnreachableError(str(exc)) from exc


def refused(answer: Answer, service: str) -> RefusedError:
    """The error for a refusal that is no conflict."""
    return RefusedError(
        f"{answer.about}: {service} answered {answer.words}",
        reason="NotFound" if answer.code == _NOT_FOUND else "Refused",
        code=answer.code,
    )


def _range(versions: tuple[Version, Version]) -> str:
    return " to ".join(f"{major}.{minor}" for major, minor in versions)
