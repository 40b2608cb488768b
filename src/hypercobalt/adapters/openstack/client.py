"""Calls to OpenStack's services.

Each has a deadline, a metric and a log line that names its object. Reads are tried again, with
jitter; writes are not, since nothing is known of what a call without an answer did. A service that
is away is left alone for a while (`breaker.py`).
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from keystoneauth1 import exceptions as keystone

from hypercobalt.adapters.openstack.account import Account
from hypercobalt.adapters.openstack.breaker import Breaker, Rules
from hypercobalt.adapters.openstack.errors import (
    CircuitOpenError,
    NoAnswerError,
    NoEndpointError,
    NotAuthenticatedError,
)
from hypercobalt.adapters.openstack.metrics import OpenStackMetrics
from hypercobalt.adapters.openstack.request import DEADLINE, Answer, Request, refusal
from hypercobalt.adapters.openstack.threads import Threads
from hypercobalt.adapters.openstack.trust import why
from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

ATTEMPTS: Final = 3
IDENTITY: Final = "identity"
_BACKOFF = (0.2, 1.0)  # seconds, most, before the second and the third attempt
_FIRST_SHARE: Final = 5 / 6  # of the deadline: a connection that has died leaves time for another
_NO_ANSWER = "<error>"
_UNAUTHORIZED, _TOO_MANY, _SERVER_FAULT = 401, 429, 500
_AWAY = frozenset({502, 503, 504})
_VERSION: Final = re.compile(r"/v\d")
_LAST_VERSION: Final = re.compile(r"/v\d+(\.\d+)?$")
_ACCEPT: Final = {"Accept": "application/json"}  # webob refuses others with a page
_MEANT: Final = frozenset({404, 405, 409})
"""Refusals that callers take for an answer: it is not there, it is in use."""
_JSON: Final = (b"{", b"[", b"n")  # "n" of null, which is empty too, but JSON
_random = random.SystemRandom()


class Client:
    """One account's calls.

    Args:
        account: of the requests.
        threads: that the calls are made on.
        metrics: counts them.
        clock: seconds that never step back.
        rules: of the circuit breakers, one for each service.
        guard: called on a thread right before everything but GET is sent; what it raises, a
            `TransientError`, forbids it.
    """

    def __init__(
        self,
        account: Account,
        threads: Threads,
        metrics: OpenStackMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        rules: Rules | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self._account, self._threads, self._metrics = account, threads, metrics
        self._clock, self._rules, self._guard = clock, rules or Rules(), guard
        self._breakers: dict[str, Breaker] = {}

    def trouble(self, service: str) -> str:
        """Why a service gets no calls at present, in words; "" when it does."""
        for breaker in (self._breaker(IDENTITY), self._breaker(service)):
            if breaker.open_for:
                return breaker.why
        return ""

    async def call(self, request: Request) -> Answer:
        """Make a call.

        Returns:
            The answer, if it grants the request or refuses it: 4xx is no error here.

        Raises:
            NoAnswerError: there is none from the service itself.
            TransientError: the guard forbids it.
        """
        until = self._clock() + request.deadline
        if not request.idempotent:
            log.info(
                "calling_openstack",
                about=request.about,
                service=request.service,
                method=request.method,
                path=request.path,
            )
        try:
            async with asyncio.timeout(request.deadline):
                return await self._attempts(request, until)
        except TimeoutError as exc:
            error = NoAnswerError(
                f"{request.about}: the service {request.service} did not answer within "
                f"{request.deadline:g} s"
            )
            self._breaker(request.service).failed(str(error))
            log.warning("openstack_did_not_answer", about=request.about, error=str(error))
            raise error from exc

    async def user(self) -> str:
        """The id of the account's user, by its token; "" when that does not have it.

        Raises:
            NoAnswerError: there is no token.
        """
        async with asyncio.timeout(DEADLINE):
            return await self._threads.run(self._account.user)

    async def _attempts(self, request: Request, until: float) -> Answer:
        for attempt in range(ATTEMPTS):
            try:
                left = min(until - self._clock(), request.deadline * _FIRST_SHARE)
                return await self._attempt(replace(request, deadline=left))
            except CircuitOpenError:
                raise
            except NoAnswerError as exc:
                log.warning("openstack_did_not_answer", about=request.about, error=str(exc))
                wait = _wait(exc, attempt)
                may = request.idempotent and not isinstance(
                    exc, (NotAuthenticatedError, NoEndpointError)
                )
                if not may or attempt + 1 == ATTEMPTS or self._clock() + wait >= until:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError  # the last attempt returned or raised

    async def _attempt(self, request: Request) -> Answer:
        admitted: list[Breaker] = []
        try:
            for name in (IDENTITY, request.service):
                self._admit(request, name)
                admitted.append(self._breaker(name))
            answer = await self._timed(request)
        except CircuitOpenError:
            _each(admitted, Breaker.unknown)
            raise
        except NoAnswerError as exc:
            self._note(request, exc)
            raise
        except (asyncio.CancelledError, TransientError):  # not sent, or no caller waits for it
            _each(admitted, Breaker.unknown)
            raise
        _each(admitted, Breaker.succeeded)
        return answer

    def _admit(self, request: Request, name: str) -> None:
        breaker = self._breaker(name)
        if wait := breaker.admit():
            raise CircuitOpenError(
                f"{request.about}: not sent: {breaker.why or 'another call probes the service'}",
                retry_after=timedelta(seconds=wait),
                sent=False,
            )

    def _note(self, request: Request, error: NoAnswerError) -> None:
        identity, service = self._breaker(IDENTITY), self._breaker(request.service)
        if isinstance(error, NotAuthenticatedError):
            service.unknown()
            identity.failed(str(error), at_once=True)
            return
        identity.succeeded()
        if error.down:
            service.failed(str(error), at_once=isinstance(error, NoEndpointError))
        else:
            service.succeeded()

    async def _timed(self, request: Request) -> Answer:
        began, code = self._clock(), _NO_ANSWER
        try:
            answer = await self._threads.run(lambda: self._send(request))
            code = str(answer.code)
            return _sorted_out(request, answer)
        finally:
            self._metrics.calls.labels(request.service, request.method, code).inc()
            seconds = self._metrics.seconds.labels(request.service, request.method)
            seconds.observe(self._clock() - began)

    def _send(self, request: Request) -> Answer:
        """Send a request; runs on a thread."""
        account = self._account
        try:
            headers = account.headers()
            answer = self._post(request, headers)
            if answer.code == _UNAUTHORIZED:
                answer = self._post(request, account.renew(headers))
        except ConfigurationError as exc:
            raise NotAuthenticatedError(f"{request.about}: {exc}", sent=False) from exc
        except (keystone.ClientException, OSError) as exc:  # what requests raises are OSErrors
            raise NoAnswerError(f"{request.about}: {why(exc)}") from exc
        return answer

    def _post(self, request: Request, headers: dict[str, str]) -> Answer:
        versions = {"OpenStack-API-Version": f"{request.service} {request.version}"}
        account = self._account
        address = account.root if request.root else account.endpoint
        session, url = account.session(), joined(address(request.service), request.path)
        if not request.idempotent:
            self._guard()
        response = session.request(
            url,
            request.method,
            headers={**_ACCEPT, **headers, **(versions if request.version else {})},
            params=list(request.query),
            json=request.body,
            timeout=request.deadline,
            authenticated=False,
            raise_exc=False,
        )
        return Answer(request.about, response.status_code, response.content, response.headers)

    def _breaker(self, service: str) -> Breaker:
        found = self._breakers.get(service)
        if found is None:
            found = self._breakers[service] = Breaker(self._clock, self._rules)
        return found


def joined(endpoint: str, path: str) -> str:
    """An address; the API's version is in it once, wherever the catalogue ends."""
    if _VERSION.match(path):
        endpoint = _LAST_VERSION.sub("", endpoint)
    return endpoint + path


def _sorted_out(request: Request, answer: Answer) -> Answer:
    """The answer, if it is the service's own and settles the request."""
    code = answer.code
    first = answer.body.lstrip()[:1]
    if (answer.ok and answer.body and first not in _JSON) or (code in _MEANT and first != b"{"):
        # Something between us and the service has answered: a write is not known to be done, and
        # what it does not find may be there.
        refused = "" if answer.ok else f" ({refusal(code, answer.body)})"
        raise NoAnswerError(
            f"{request.about}: the answer of the service {request.service} cannot be read: it is "
            f"not JSON but {answer.headers.get('Content-Type', 'of no type')}{refused}",
            down=False,
        )
    if code < _SERVER_FAULT and code not in {_UNAUTHORIZED, _TOO_MANY}:
        return answer
    text = refusal(code, answer.body)
    if code == _UNAUTHORIZED:
        text = f"{text}. The service refuses a fresh token: check its keystonemiddleware"
    raise NoAnswerError(
        f"{request.about}: the service {request.service} answered {text}",
        retry_after=_retry_after(answer.headers.get("Retry-After", "")),
        down=code in _AWAY or code == _UNAUTHORIZED,
        sent=code != _TOO_MANY,
    )


def _retry_after(text: str) -> timedelta | None:
    """Read Retry-After in seconds; dates, which OpenStack's services do not send, are not read."""
    plain = text.strip()
    return timedelta(seconds=min(int(plain), 3600)) if plain.isdecimal() else None


def _wait(error: NoAnswerError, attempt: int) -> float:
    ceiling = _BACKOFF[min(attempt, len(_BACKOFF) - 1)]
    requested = error.retry_after.total_seconds() if error.retry_after else 0.0
    return requested + _random.uniform(ceiling / 2, ceiling)


def _each(breakers: list[Breaker], record: Callable[[Breaker], None]) -> None:
    for breaker in breakers:
        record(breaker)
