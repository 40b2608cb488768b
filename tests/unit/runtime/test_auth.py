"""Credentials: when they are read or requested again."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.kubeconfig import ExecEntry, ExecVariable, Identity
from hypercobalt.runtime import Connection, FakeClock
from hypercobalt.runtime.client.auth import Credentials, credentials_for

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def still() -> FakeClock:
    return FakeClock()


def connection(user: Identity | None) -> Connection:
    return Connection("https://api:6443", user=user)


async def authorization(credentials: Credentials) -> str | None:
    return (await credentials.current()).authorization


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param(None, None, id="anonymous"),
        pytest.param(Identity(token="t"), "Bearer t", id="token"),
        pytest.param(Identity(username="u", password="p"), "Basic dTpw", id="password"),
    ],
)
async def test_header_follows_from_fixed_credentials(
    user: Identity | None, header: str | None, still: FakeClock
) -> None:
    assert await authorization(credentials_for(connection(user), still)) == header


@pytest.mark.parametrize("token", ["s3cret\nX", "s3cr\u00e9t", "s3cret\x00", "\n"], ids=repr)
async def test_a_token_that_no_header_carries_is_refused_and_not_shown(
    tmp_path: Path, still: FakeClock, token: str
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    body = printing(f'{{"token": {json.dumps(token)}}}')
    for user in (Identity(token=token), Identity(token_file=file), plugin(tmp_path, body)):
        with pytest.raises((ConfigurationError, TransientError), match="token") as caught:
            await credentials_for(connection(user), still).current()
        assert "s3c" not in str(caught.value)


async def test_white_space_around_a_token_is_not_part_of_it(still: FakeClock) -> None:
    user = Identity(token="t\n")
    assert await authorization(credentials_for(connection(user), still)) == "Bearer t"


async def test_token_file_is_read_once_a_minute(tmp_path: Path, still: FakeClock) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = credentials_for(connection(Identity(token_file=file)), still)
    assert await authorization(credentials) == "Bearer one"
    file.write_text("two")
    still.advance(timedelta(seconds=59))
    assert await authorization(credentials) == "Bearer one"
    still.advance(timedelta(seconds=2))
    assert await authorization(credentials) == "Bearer two"


async def test_rejected_token_is_read_again_at_once(tmp_path: Path, still: FakeClock) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = credentials_for(connection(Identity(token_file=file)), still)
    old = await credentials.current()
    file.write_text("two")
    credentials.rejected(old)
    assert await authorization(credentials) == "Bearer two"


async def test_old_token_serves_while_the_file_is_replaced(
    tmp_path: Path, still: FakeClock
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = credentials_for(connection(Identity(token_file=file)), still)
    await credentials.current()
    file.unlink()
    still.advance(timedelta(minutes=2))
    assert await authorization(credentials) == "Bearer one"


async def test_absent_or_empty_token_file_is_named(tmp_path: Path, still: FakeClock) -> None:
    file = tmp_path / "token"
    with pytest.raises(ConfigurationError, match="token: No such file"):
        await credentials_for(connection(Identity(token_file=file)), still).current()
    file.touch()
    with pytest.raises(ConfigurationError, match="is empty"):
        await credentials_for(connection(Identity(token_file=file)), still).current()


def plugin(tmp_path: Path, body: str, **entry: object) -> Identity:
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho x >> {tmp_path}/runs\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    fields: dict[str, object] = {"command": "./plugin", "api_version": V1} | entry
    return Identity(exec=ExecEntry(**fields), folder=tmp_path)  # type: ignore[arg-type]


def printing(status: str) -> str:
    printed = f'{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {status}}}'
    return f"cat <<'END'\n{printed}\nEND"


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


async def test_plugin_runs_again_when_its_token_ends(tmp_path: Path, still: FakeClock) -> None:
    until = (still.now() + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = printing(f'{{"token": "t", "expirationTimestamp": "{until}"}}')
    credentials = credentials_for(connection(plugin(tmp_path, body)), still)
    for _ in range(2):
        assert await authorization(credentials) == "Bearer t"
    assert runs(tmp_path) == 1
    still.advance(timedelta(minutes=9, seconds=45))
    await credentials.current()
    assert runs(tmp_path) == 2


async def test_plugin_runs_again_after_a_401(tmp_path: Path, still: FakeClock) -> None:
    credentials = credentials_for(connection(plugin(tmp_path, printing('{"token": "t"}'))), still)
    credentials.rejected(await credentials.current())
    await credentials.current()
    assert runs(tmp_path) == 2


async def test_plugin_receives_the_cluster(tmp_path: Path, still: FakeClock) -> None:
    body = f'echo "$KUBERNETES_EXEC_INFO $EXTRA" > {tmp_path}/info\n' + printing('{"token": "t"}')
    who = plugin(tmp_path, body, provide_cluster_info=True, env=(ExecVariable("EXTRA", "more"),))
    await credentials_for(connection(who), still).current()
    info = (tmp_path / "info").read_text()
    assert '"server":"https://api:6443"' in info
    assert '"interactive":false' in info
    assert info.endswith(" more\n")


async def test_plugin_may_give_a_client_certificate(tmp_path: Path, still: FakeClock) -> None:
    body = printing('{"clientCertificateData": "chain", "clientKeyData": "key"}')
    found = await credentials_for(connection(plugin(tmp_path, body)), still).current()
    assert found.certificate == (b"chain", b"key")
    assert "key" not in repr(found)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("echo no login >&2; exit 3", "exit code 3: no login", id="fails"),
        pytest.param("echo hello", "did not print an ExecCredential", id="nonsense"),
        pytest.param("echo '{}'", "apiVersion ''", id="no-version"),
        pytest.param(printing("{}"), "neither a token", id="empty"),
        pytest.param(printing('{"clientKeyData": "k", "token": "t"}'), "only one", id="half"),
    ],
)
async def test_plugin_faults_are_named(
    tmp_path: Path, still: FakeClock, body: str, message: str
) -> None:
    credentials = credentials_for(connection(plugin(tmp_path, body)), still)
    with pytest.raises(TransientError, match=message):
        await credentials.current()


async def test_absent_plugin_comes_with_its_hint(tmp_path: Path, still: FakeClock) -> None:
    who = Identity(
        exec=ExecEntry(command="absent-plugin", api_version=V1, install_hint="apt install it"),
        folder=tmp_path,
    )
    with pytest.raises(TransientError, match=r"No such file.*apt install it"):
        await credentials_for(connection(who), still).current()


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            ExecEntry(command="x", api_version="client.authentication.k8s.io/v1alpha1"), id="alpha"
        ),
        pytest.param(
            ExecEntry(command="x", api_version=V1, interactive_mode="Always"), id="interactive"
        ),
    ],
)
def test_unusable_plugins_are_refused(entry: ExecEntry, still: FakeClock) -> None:
    with pytest.raises(ConfigurationError, match="exec plugin x"):
        credentials_for(connection(Identity(exec=entry)), still)
