"""Accounts of a host, and the unit of what runs its pods."""

from __future__ import annotations

import pytest

from hypercobalt.errors import ConfigurationError
from hypercobalt.lab.pods.running.account import check_account
from hypercobalt.lab.pods.running.install import without_account

PASSWD = """\
root:x:0:0:root:/root:/bin/bash
broker:x:107:112::/var/lib/broker:/usr/sbin/nologin
other:x:1070:107::/:/usr/sbin/nologin
"""


def test_account_with_the_launchers_user_id_is_taken_out() -> None:
    kept, name = without_account(PASSWD, 107)
    assert name == "broker"
    assert [line.split(":")[0] for line in kept.splitlines()] == ["root", "other"]
    assert without_account(kept, 107) == (kept, "")


def test_lines_that_are_no_accounts_stay() -> None:
    text = "+::::::\nx\n\n"
    assert without_account(text, 107) == (text, "")


def test_host_with_such_an_account_runs_no_pods_and_says_why() -> None:
    check_account(lambda _: "")
    with pytest.raises(ConfigurationError, match=r"broker.*107"):
        check_account(lambda _: "broker")
