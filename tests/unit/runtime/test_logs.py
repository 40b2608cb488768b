"""Log lines: JSON in service, with the pass they belong to and without secrets."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from hypercobalt.logs import reconcile_context
from hypercobalt.runtime import configure_logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs(stream=stream)
    yield stream
    structlog.reset_defaults()


def test_lines_name_the_pass(lines: io.StringIO) -> None:
    with reconcile_context("eviction", "drain-a") as reconcile_id:
        structlog.get_logger().info("migrating_instance", instance="i1")
    structlog.get_logger().info("afterwards")
    inside, after = map(json.loads, lines.getvalue().splitlines())
    assert inside["event"] == "migrating_instance"
    assert (inside["controller"], inside["key"]) == ("eviction", "drain-a")
    assert (inside["reconcile_id"], inside["instance"]) == (reconcile_id, "i1")
    assert "reconcile_id" not in after


def test_secrets_are_blanked(lines: io.StringIO) -> None:
    structlog.get_logger().info("x", bearer_token="s3cret", password="s3cret", secret="its-name")
    assert "s3cret" not in lines.getvalue()
    assert "its-name" in lines.getvalue()


def fail_with(authorization: str) -> None:
    raise RuntimeError(f"{len(authorization)} letters")


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "service"])
def test_a_traceback_does_not_show_local_variables(*, terminal: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    configure_logs(stream=stream)
    secret = "terc3s"[::-1]
    try:
        fail_with(secret)
    except RuntimeError:
        structlog.get_logger().exception("request_failed")
    finally:
        structlog.reset_defaults()
    assert "6 letters" in stream.getvalue()
    assert secret not in stream.getvalue()
