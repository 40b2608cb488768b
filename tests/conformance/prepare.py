"""Put the suite's CRDs on a server before the first scenario."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

from tests.conformance.real import TOKEN, Server
from tests.conformance.samples import DEFINITIONS, GADGETS, GROUP, TRINKETS
from tests.conformance.wire import Json

WAIT_SECONDS = 15


def install_definitions(server: Server) -> None:
    for body in (GADGETS, TRINKETS):
        call(server, "POST", DEFINITIONS, body)
    for plural in ("gadgets", "trinkets"):
        _wait_served(server, f"/apis/{GROUP}/v1/{plural}")


def call(server: Server, method: str, path: str, body: Json = None) -> Json:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310
        server.url + path, data=content, headers=headers, method=method
    )
    try:
        with urllib.request.urlopen(request, context=server.ssl_context(), timeout=15) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise RuntimeError(f"{server.name}: {method} {path}: {error.code}: {text}") from error


def _wait_served(server: Server, path: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            call(server, "GET", path)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return
