"""Publishes the CA of client certificates, for servers that clients show the same certificates.

Source: kubernetes pkg/controlplane/controller/clusterauthenticationtrust.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from hypercobalt.apiserver.access.bootstrap import Handle
from hypercobalt.apiserver.requests.bodies import APPLY_PATCH
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Request, Response
from hypercobalt.logs import get_logger

log = get_logger(__name__)

NAMESPACE, NAME, KEY = "kube-system", "extension-apiserver-authentication", "client-ca-file"


async def publish(handle: Handle, ca: bytes) -> None:
    """Have the ConfigMap hold this CA, in PEM form; the server starts without it, too."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {KEY: ca.decode("ascii")},
    }
    query = {"fieldManager": "kube-apiserver", "force": "true"}
    headers = {"content-type": APPLY_PATCH}
    data = msgspec.json.encode(body)
    answer = await handle(Request("PATCH", path, query, headers, SYSTEM_USER, data))
    if not isinstance(answer, Response) or answer.code >= HTTPStatus.BAD_REQUEST:
        log.warning("client_ca_not_published", config_map=f"{NAMESPACE}/{NAME}")
