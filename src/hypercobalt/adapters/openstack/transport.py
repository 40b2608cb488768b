"""HTTP for keystoneauth, with an end: of time and of size.

requests bounds the wait for each packet, not for all of them, and reads whatever comes. A service
that drips, or sends without end, would hold a thread for ever or fill the memory.
"""

from __future__ import annotations

import time
from io import BytesIO
from typing import Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 25.0
"""Longest silence of a service, and longest time that its whole answer may take, where a request
has no limits of its own."""
MAX_BYTES: Final = 64 * 1024 * 1024
_PIECE = 64 * 1024


class BoundedTransport(HTTPAdapter):
    """Reads whole answers at once.

    Args:
        connections: kept open to each service.
    """

    def __init__(self, connections: int) -> None:
        super().__init__(pool_maxsize=connections, max_retries=0)

    def send(  # noqa: PLR0917  as requests calls it
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float | None, float | None] | None = None,
        verify: bool | str = True,
        cert: str | tuple[str, str] | None = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send, and read the answer into memory.

        Raises:
            requests.ReadTimeout: the answer is not there in time.
            requests.ConnectionError: it breaks off, or is too large.
        """
        seconds = timeout if isinstance(timeout, int | float) else READ_SECONDS
        until = time.monotonic() + seconds
        limits = (min(CONNECT_SECONDS, seconds), seconds)
        response = super().send(request, True, limits, verify, cert, proxies)
        try:
            response.raw = BytesIO(_read(response, until, seconds))
        except HTTPError as exc:
            raise requests.ConnectionError(f"the answer is incomplete: {exc}") from exc
        return response


def _read(response: requests.Response, until: float, seconds: float) -> bytes:
    body = bytearray()
    with response.raw as raw:
        while piece := raw.read(_PIECE, decode_content=True):
            body += piece
            if len(body) > MAX_BYTES:
                raise requests.ConnectionError(f"the answer has more than {MAX_BYTES} bytes")
            if time.monotonic() > until:
                raise requests.ReadTimeout(f"the answer takes more than {seconds:g} s")
    return bytes(body)


def http_session(connections: int) -> requests.Session:
    """What keystoneauth sends by."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundedTransport(connections))
    return session
