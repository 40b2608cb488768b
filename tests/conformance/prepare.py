"""Put the CRDs on a server before the first scenario: the suite's own and the project's."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable

import yaml
from tests.conformance.real import TOKEN, Server
from tests.conformance.samples import DEFINITIONS
from tests.conformance.targets import COBALT
from tests.conformance.wire import Body, Json

WAIT_SECONDS = 15


def own_definitions() -> list[Body]:
    """Return the CRDs of this project's kinds."""
    printed = subprocess.run([COBALT, "crds"], check=True, stdout=subprocess.PIPE, text=True)
    return list(yaml.safe_load_all(printed.stdout))


def install_definitions(server: Server, bodies: Iterable[Body]) -> None:
    """Create those CRDs that the server does not have from the start, and wait for all."""
    bodies = list(bodies)
    present = {item["metadata"]["name"] for item in call(server, "GET", DEFINITIONS)["items"]}
    for body in bodies:
        if body["metadata"]["name"] not in present:
            call(server, "POST", DEFINITIONS, body)
    for body in bodies:
        spec = body["spec"]
        for version in spec["versions"]:
            names = f"{version['name']}/{spec['names']['plural']}"
            _wait_served(server, f"/apis/{spec['group']}/{names}")


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
