"""The environment variables by which OpenStack's own clients find a cloud."""

from __future__ import annotations

import os

import pytest

from tests.openstack.client import Account


def set_account(monkeypatch: pytest.MonkeyPatch, account: Account, **more: str) -> None:
    """Have one account in the environment, and nothing else of OpenStack's.

    Args:
        monkeypatch: takes it back.
        account: whose.
        more: further variables.
    """
    for name in [name for name in os.environ if name.startswith("OS_")]:
        monkeypatch.delenv(name)
    values = {
        "OS_CLIENT_CONFIG_FILE": "/nonexistent/clouds.yaml",
        "OS_AUTH_URL": account.auth_url,
        "OS_USERNAME": account.user,
        "OS_PASSWORD": account.password,
        "OS_PROJECT_NAME": account.project,
        "OS_USER_DOMAIN_ID": "default",
        "OS_PROJECT_DOMAIN_ID": "default",
        "OS_REGION_NAME": account.region,
    }
    for name, value in {**values, **more}.items():
        monkeypatch.setenv(name, value)
