"""Authentication by tokens and client certificates; secrets stay out of logs."""

from __future__ import annotations

import asyncio
import base64
import io
import ssl
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import msgspec
import pytest
import yaml

from hypercobalt import pki
from hypercobalt.apiserver.server import ServerOptions, serve
from hypercobalt.errors import ConfigurationError
from hypercobalt.pki import Pair
from hypercobalt.pki.certificates import make_client

from .conftest import Client, no_check

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
pytestmark = pytest.mark.asyncio(loop_scope="module")

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("Bearer wrong", id="wrong-token"),
        pytest.param("Bearer secret-admi", id="cut-short"),
        pytest.param("Bearer caf\xe9", id="beyond-ascii"),
    ],
)
@pytest.mark.parametrize(
    "path", ["/api", "/apis", "/openapi/v3", CONFIG_MAPS, "/api/v1/nothing", "/nowhere"]
)
async def test_requests_without_valid_credentials_are_refused(
    shared: Client, path: str, authorization: str
) -> None:
    headers = [(b"authorization", authorization.encode("latin-1"))]
    async with Client(str(shared.base_url), token="") as client:
        answer = await client.get(path, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert 'User "system:anonymous" cannot' in answer.json()["message"]


@pytest.mark.parametrize(
    "authorization",
    ["Bearer", "Bearer  secret-admin", "Basic c2VjcmV0LWFkbWluOg==", "secret-admin"],
)
async def test_without_a_bearer_token_a_request_is_anonymous(
    shared: Client, authorization: str
) -> None:
    headers = [(b"authorization", authorization.encode())]
    async with Client(str(shared.base_url), token="") as client:
        assert (await client.get(CONFIG_MAPS, headers=headers)).status_code == 403
        assert (await client.get("/version", headers=headers)).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_and_version_are_open(shared: Client, path: str) -> None:
    async with Client(str(shared.base_url), token="") as client:
        assert (await client.get(path)).status_code == 200


async def test_a_token_has_a_user_and_groups(shared: Client) -> None:
    answer = await shared.post(REVIEWS, json=REVIEW)
    assert answer.json()["status"]["userInfo"] == {
        "username": "admin",
        "uid": "1",
        "groups": ["system:masters", "system:authenticated"],
    }


async def test_a_user_may_act_for_another(shared: Client) -> None:
    acting = [("impersonate-user", "eve"), ("impersonate-group", "x"), ("impersonate-group", "y")]
    answer = await shared.post(REVIEWS, json=REVIEW, headers=acting)
    assert answer.json()["status"]["userInfo"] == {
        "username": "eve",
        "groups": ["x", "y", "system:authenticated"],
    }
    async with Client(str(shared.base_url), token="") as client:
        answer = await client.post(REVIEWS, json=REVIEW, headers=acting)
    assert answer.status_code == 403


def client_context(directory: Path, user: str, groups: tuple[str, ...], ca: Pair) -> ssl.SSLContext:
    pair = make_client(ca, user, groups)
    certificate, key = directory / f"{user}.crt", directory / f"{user}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context = no_check()
    context.load_cert_chain(certificate, key)
    return context


async def test_a_client_certificate_has_a_user_and_groups(
    options: ServerOptions, tmp_path: Path
) -> None:
    files = options.data / "pki"
    ca = Pair((files / "ca.crt").read_bytes(), (files / "ca.key").read_bytes())
    context = client_context(tmp_path, "kim", ("blue", "green"), ca)
    async with (
        serve(options) as server,
        httpx2.AsyncClient(base_url=server.url, verify=context) as client,
    ):
        answer = await client.post(REVIEWS, json=REVIEW)
        assert answer.json()["status"]["userInfo"] == {
            "username": "kim",
            "groups": ["blue", "green", "system:authenticated"],
        }
        # As for kube-apiserver, a certificate comes before a token.
        headers = {"authorization": "Bearer wrong"}
        answer = await client.post(REVIEWS, json=REVIEW, headers=headers)
        assert answer.json()["status"]["userInfo"]["username"] == "kim"


async def test_a_certificate_of_another_authority_is_refused(
    options: ServerOptions, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    pki.prepare(other, "127.0.0.1")
    ca = Pair((other / "ca.crt").read_bytes(), (other / "ca.key").read_bytes())
    context = client_context(tmp_path, "mallory", ("system:masters",), ca)
    async with serve(options) as server, Client(server.url) as api:
        async with httpx2.AsyncClient(base_url=server.url, verify=context) as client:
            with pytest.raises(httpx2.HTTPError):
                await client.post(REVIEWS, json=REVIEW)
        assert (await api.get(CONFIG_MAPS)).status_code == 200


async def test_the_kubeconfig_verifies_the_server_and_is_an_administrator(
    options: ServerOptions, tmp_path: Path
) -> None:
    async with serve(options) as server:
        config = yaml.safe_load(server.kubeconfig.read_bytes())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        for name in ("certificate", "key"):
            data = base64.b64decode(user[f"client-{name}-data"])
            (tmp_path / name).write_bytes(data)
        context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
        async with httpx2.AsyncClient(base_url=cluster["server"], verify=context) as client:
            answer = await client.post(REVIEWS, json=REVIEW)
    assert "system:masters" in answer.json()["status"]["userInfo"]["groups"]


async def shown(url: str) -> bytes:
    """The certificate that the server shows a new connection."""
    _, _, address = url.rpartition("/")
    host, _, port = address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=no_check())
    try:
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()


async def test_certificates_are_renewed_while_the_server_runs(options: ServerOptions) -> None:
    often = replace(options, certificates_every=timedelta(milliseconds=100))
    record = options.data / "pki/record.json"
    async with serve(often) as server, Client(server.url) as api:
        assert (await api.get(CONFIG_MAPS)).status_code == 200
        before, config = await shown(server.url), server.kubeconfig.read_bytes()
        old = msgspec.json.decode(record.read_bytes(), type=pki.CertificateRecord)
        old.expires = datetime.now(UTC) + timedelta(days=100)
        record.write_bytes(msgspec.json.encode(old))
        async with asyncio.timeout(30):
            while await shown(server.url) == before:
                pass  # each turn is a connection
        assert (await api.get(CONFIG_MAPS)).status_code == 200
        assert server.kubeconfig.read_bytes() != config


async def test_a_kubeconfig_with_contexts_of_others_is_not_replaced(
    options: ServerOptions, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: production, context: {cluster: a, user: b}}]\n")
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"context 'production'.*--kubeconfig"):
        async with serve(replace(options, kubeconfig=path)):
            pass
    assert path.read_bytes() == before


async def test_logs_hold_no_token_and_no_secret(
    options: ServerOptions, written_logs: io.StringIO
) -> None:
    """A traceback has none either: here, the store breaks under a request."""
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "dear-to-a-user"}}
    async with serve(options) as server, Client(server.url) as api:
        assert (await api.post(SECRETS, json=secret)).status_code == 201
        await api.post(SECRETS, json={**secret, "data": {"x": "not base64"}})
        await api.get(f"{SECRETS}/s", params={"access_token": "secret-admin"})
        for body in (b"{", b'{"metadata":{"name":"dear-to-a-user"}}', b"\xff"):
            await api.post(SECRETS, content=body)
    written = written_logs.getvalue()
    assert "server_started" in written
    for text in ("secret-admin", "dear-to-a-user", "ZGVhci10by1zb21lYm9keQ", "PRIVATE KEY"):
        assert text not in written


async def test_a_running_server_prints_no_secret(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret-admin,admin,1,system:masters\n")
    command = str(Path(sys.executable).with_name("cobalt"))
    process = await asyncio.create_subprocess_exec(
        command,
        *("apiserver", "--data", str(tmp_path / "data"), "--port", "0"),
        *("--token-auth-file", str(tokens)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 20)
        url = line.decode().removeprefix("serving on ").strip()
        async with Client(url) as api:
            body = {"metadata": {"name": "s"}, "stringData": {"password": "dear-to-a-user"}}
            assert (await api.post(SECRETS, json=body)).status_code == 201
            await api.post(SECRETS, content=b"{" * 1000)
        process.terminate()
        out, err = await asyncio.wait_for(process.communicate(), 20)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    assert b"secret-admin" not in out + err
    assert b"dear-to-a-user" not in out + err
