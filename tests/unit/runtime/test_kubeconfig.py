"""Finding the API server and our identity."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest

from hypercobalt.api.core import Node
from hypercobalt.errors import ConfigurationError, TransientError
from hypercobalt.kubeconfig import from_files
from hypercobalt.runtime import Backoff, Connection, Kube, Limits, Metrics, load_connection

Config = dict[str, object]


def write(path: Path, **changes: object) -> Path:
    config: Config = {
        "current-context": "dev",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/"}}],
        "users": [{"name": "u", "user": {"token": "t0p"}}],
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    }
    path.write_text(yaml.safe_dump(config | changes))
    return path


def test_current_context_gives_server_namespace_and_user(tmp_path: Path) -> None:
    found = load_connection(write(tmp_path / "config"), env={})
    assert (found.server, found.namespace) == ("https://api:6443", "n")
    assert found.user is not None
    assert found.user.token == "t0p"


def test_repr_of_a_connection_shows_no_secret(tmp_path: Path) -> None:
    found = load_connection(write(tmp_path / "config"), env={})
    assert "t0p" not in repr(found) + repr(found.user)


def test_named_context_is_found_over_several_files(tmp_path: Path) -> None:
    first = write(tmp_path / "first", contexts=None)
    second = write(
        tmp_path / "second",
        clusters=[
            {"name": "c", "cluster": {"server": "https://never:1"}},
            {"name": "d", "cluster": {"server": "https://other:6443"}},
        ],
        contexts=[
            {"name": "x", "context": {"cluster": "d"}},
            {"name": "dev", "context": {"cluster": "c"}},
        ],
    )
    env = {"KUBECONFIG": f"{first}:{second}:{tmp_path / 'absent'}"}
    assert load_connection(env=env, context="x").server == "https://other:6443"
    assert load_connection(env=env).server == "https://api:6443", "the first file wins"


def test_paths_are_relative_to_the_file_and_data_is_decoded(tmp_path: Path) -> None:
    config = write(
        tmp_path / "config",
        clusters=[{"name": "c", "cluster": {"server": "https://a", "certificate-authority": "ca"}}],
        users=[
            {
                "name": "u",
                "user": {
                    "client-certificate-data": base64.b64encode(b"chain").decode(),
                    "client-key": "key",
                },
            }
        ],
    )
    found = from_files([config])
    assert found.authority is not None
    assert found.authority.path == tmp_path / "ca"
    assert found.user is not None
    assert found.user.certificate is not None
    assert found.user.certificate.read() == b"chain"
    with pytest.raises(ConfigurationError, match="key: No such file"):
        found.user.key.read()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"current-context": None}, "no current-context", id="no-context"),
        pytest.param({"current-context": "x"}, "context 'x' is not there; there are: dev", id="x"),
        pytest.param({"clusters": []}, "cluster 'c' is not there", id="no-cluster"),
        pytest.param({"users": None}, "user 'u' is not there", id="no-user"),
        pytest.param(
            {"clusters": [{"name": "c", "cluster": {"server": "api:1"}}]}, "http", id="no-scheme"
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
            "exec plugin",
            id="auth-provider",
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"client-key": "k"}}]}, "together", id="half-a-pair"
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"client-key-data": "%"}}]}, "base64", id="no-base64"
        ),
        pytest.param({"clusters": "c"}, "clusters", id="wrong-shape"),
    ],
)
def test_fault_of_a_kubeconfig_is_named(tmp_path: Path, changes: Config, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_connection(write(tmp_path / "config", **changes), env={})


def test_a_date_of_no_calendar_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("name: 2026-13-45\n")
    with pytest.raises(ConfigurationError, match="month"):
        load_connection(tmp_path / "config", env={})


@pytest.mark.parametrize(
    "made",
    [
        Connection("https://h:x"),
        Connection("http://[::1"),
        Connection("https://ex\u2603..com"),
        Connection("https://h", proxy="ftp://p"),
        Connection("https://h", proxy="http://p:x"),
    ],
    ids=repr,
)
def test_urls_that_cannot_be_used_are_refused_at_once(made: Connection) -> None:
    with pytest.raises(ConfigurationError, match="server http"):
        Kube(made)


async def test_a_password_in_the_url_is_neither_sent_nor_counted() -> None:
    metrics = Metrics()
    limits = Limits(backoff=Backoff(jitter=lambda _: 60))
    server = Connection("http://u:s3cret@127.0.0.1:1")
    async with Kube(server, metrics=metrics, limits=limits) as kube:
        with pytest.raises(TransientError):
            await kube.get(Node, "a")
    assert b"s3cret" not in generate_latest(metrics.registry)


def test_broken_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("a: 1\ntoken: s3cret: x\n")
    with pytest.raises(ConfigurationError, match="line 2") as caught:
        load_connection(path, env={})
    assert "s3cret" not in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        load_connection(env={"KUBECONFIG": str(tmp_path / "absent")})


def test_error_without_any_kubeconfig_names_how_to_give_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError) as raised:
        load_connection(env={})
    assert str(raised.value) == (
        "no API server is configured: give --kubeconfig or set KUBECONFIG "
        f"({tmp_path}/.kube/config does not exist)"
    )


def test_pod_connects_with_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("ns\n")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = load_connection(env=env, service_account=tmp_path)
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "ns")
    assert found.user is not None
    assert found.user.token_file == tmp_path / "token"
