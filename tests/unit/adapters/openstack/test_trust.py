"""What is not protected on its way to OpenStack is logged and counted at start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import requests
from prometheus_client import CollectorRegistry

from hypercobalt.adapters.openstack.account import Account, AccountIdentity
from hypercobalt.adapters.openstack.metrics import OpenStackMetrics
from hypercobalt.adapters.openstack.trust import PLAIN, UNVERIFIED, is_plain
from hypercobalt.compute.leadership import unguarded
from hypercobalt.compute.nova.service import connect
from hypercobalt.compute.nova.settings import NovaSettings

CLOUD = """
clouds:
  site:
    auth: {{auth_url: {url}, username: u, password: correct-horse, project_name: p,
            user_domain_name: d, project_domain_name: d}}
    verify: {verify}
"""

TOKEN_CLOUD = """
clouds:
  site:
    auth_type: admin_token
    auth: {{endpoint: "https://keystone.example", token: correct-horse}}
    compute_endpoint_override: {endpoint}
"""


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("https://keystone.example/v3", False),
        ("http://keystone.example/v3", True),
        ("http://192.0.2.1:5000/v3", True),
        ("http://127.0.0.1:5000/v3", False),
        ("http://[::1]:5000/v3", False),
        ("http://localhost/identity", False),
        ("http://localhost.example/identity", True),
        ("", False),
    ],
)
def test_only_what_leaves_the_machine_without_tls_is_plain(url: str, *, plain: bool) -> None:
    assert is_plain(url) is plain


@pytest.mark.parametrize(
    ("url", "verify", "kinds"),
    [
        ("https://keystone.example/v3", "true", []),
        ("http://keystone.example/v3", "true", [PLAIN]),
        ("https://keystone.example/v3", "false", [UNVERIFIED]),
        ("http://keystone.example/v3", "false", [PLAIN, UNVERIFIED]),
    ],
)
def test_an_account_that_exposes_its_password_is_logged_and_counted_at_start(
    url: str,
    verify: str,
    kinds: list[str],
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "clouds.yaml").write_text(CLOUD.format(url=url, verify=verify))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.setenv("OS_CLOUD", "site")
    registry = CollectorRegistry()
    with caplog.at_level(logging.WARNING):
        connect("test", "", registry, NovaSettings(), unguarded)
    lines = [str(r.msg) for r in caplog.records if "openstack_traffic_exposed" in str(r.msg)]
    assert [kind for kind in (PLAIN, UNVERIFIED) if any(kind in line for line in lines)] == kinds
    assert len(lines) == len(kinds)  # once each, though two accounts are read
    assert "correct-horse" not in caplog.text
    for kind in (PLAIN, UNVERIFIED):
        value = registry.get_sample_value("hypercobalt_openstack_exposed", {"kind": kind})
        assert value == (1.0 if kind in kinds else 0.0)


@pytest.mark.parametrize(
    ("endpoint", "exposed"),
    [
        ("http://nova.example:8774/v2.1", 1.0),
        ("https://nova.example:8774/v2.1", 0.0),
        ("http://127.0.0.1:8774/v2.1", 0.0),
    ],
)
def test_a_service_that_gets_tokens_in_clear_is_logged_and_counted_when_it_is_found(
    endpoint: str,
    exposed: float,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "clouds.yaml").write_text(TOKEN_CLOUD.format(endpoint=endpoint))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    monkeypatch.setenv("OS_CLOUD", "site")
    registry = CollectorRegistry()
    account = Account(AccountIdentity("test"), requests.Session, OpenStackMetrics(registry).exposed)
    account.check()
    labels = {"kind": PLAIN}
    assert registry.get_sample_value("hypercobalt_openstack_exposed", labels) == 0.0

    with caplog.at_level(logging.WARNING):
        assert account.endpoint("compute") == endpoint
        account.endpoint("compute")

    assert registry.get_sample_value("hypercobalt_openstack_exposed", labels) == exposed
    named = [r for r in caplog.records if f"compute at {endpoint}" in str(r.msg)]
    assert len(named) == exposed
    assert "correct-horse" not in caplog.text


def test_an_exposure_is_logged_once() -> None:
    metrics = OpenStackMetrics(CollectorRegistry())
    metrics.exposed(PLAIN, "the service compute")
    metrics.exposed(PLAIN, "the service compute")
    assert len(metrics._noted) == 1
