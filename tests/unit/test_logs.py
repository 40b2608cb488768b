"""Log lines: JSON in service, text on a terminal, with the pass they belong to, without secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest

from hypercobalt import logs
from hypercobalt.logs import get_logger, reconcile_context

log = get_logger("room")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal() -> Terminal:
    stream = Terminal()
    logs.configure(stream=stream)
    return stream


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_name_the_pass(written_logs: io.StringIO) -> None:
    with reconcile_context("eviction", "drain-a") as reconcile_id:
        log.info("migrating_instance", instance="i1")
    log.info("afterwards")
    inside, after = read(written_logs)
    assert inside["timestamp"].endswith("Z")
    assert (inside["level"], inside["logger"]) == ("info", "room")
    assert inside["event"] == "migrating_instance"
    assert (inside["controller"], inside["key"]) == ("eviction", "drain-a")
    assert (inside["reconcile_id"], inside["instance"]) == (reconcile_id, "i1")
    assert "reconcile_id" not in after


async def test_passes_at_the_same_time_keep_their_names_apart(written_logs: io.StringIO) -> None:
    both = asyncio.Barrier(2)

    async def run(key: str) -> None:
        with reconcile_context("eviction", key):
            await both.wait()
            log.info("migrating_instance", instance=key)

    async with asyncio.TaskGroup() as tasks:
        for key in ("a", "b"):
            tasks.create_task(run(key))
    assert sorted((line["key"], line["instance"]) for line in read(written_logs)) == [
        ("a", "a"),
        ("b", "b"),
    ]


def test_secrets_are_blanked(written_logs: io.StringIO) -> None:
    with logs.bound(client_key="s3cret"):
        log.info("x", bearer_token="s3cret", password="s3cret", secret="its-name")
    assert "s3cret" not in written_logs.getvalue()
    assert "its-name" in written_logs.getvalue()


def test_secrets_are_blanked_for_handlers_of_libraries(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("x", bearer_token="s3cret", host="kvm-a")
    assert caplog.messages == ["x bearer_token=*** host=kvm-a"]


HOSTILE = pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\udcff", 'a" b="c'])


@HOSTILE
def test_a_hostile_value_stays_in_its_field(name: str, written_logs: io.StringIO) -> None:
    log.info("seen", name=name)
    (line,) = read(written_logs)
    assert line["name"] == name


@HOSTILE
def test_a_hostile_value_does_nothing_to_a_terminal(name: str, terminal: Terminal) -> None:
    log.info("seen", name=name)
    (line,) = terminal.getvalue().splitlines()
    assert line.endswith(f"name={name!r}")


def test_text_in_a_file_has_no_colours(written_logs: io.StringIO, terminal: Terminal) -> None:
    log.info("seen", name="a")
    logs.configure(stream=written_logs, text=True)
    log.info("seen", name="a")
    assert "\x1b[" in terminal.getvalue()
    assert written_logs.getvalue().endswith(" info     seen name=a\n")


def test_values_that_json_has_no_form_for_are_written_as_text(written_logs: io.StringIO) -> None:
    log.info("x", error=ValueError("no such host"), raw=b"\x00", huge=2**80)
    (line,) = read(written_logs)
    assert (line["error"], line["raw"], line["huge"]) == ("no such host", "b'\\x00'", 2**80)


def test_libraries_write_lines_of_the_same_form(written_logs: io.StringIO) -> None:
    logging.getLogger("asyncio").error("Task %s was destroyed", "t1")
    logging.getLogger("httpx2").info("GET /token=s3cret")
    (line,) = read(written_logs)
    assert (line["logger"], line["event"]) == ("asyncio", "Task t1 was destroyed")


def test_lines_below_the_level_are_not_written(written_logs: io.StringIO) -> None:
    log.debug("api_called")
    assert not written_logs.getvalue()


def fail_with(authorization: str) -> None:
    raise RuntimeError(f"{len(authorization)} letters")


def report(error: Exception) -> None:
    log.error("reconcile_crashed", exc_info=error)


@pytest.mark.parametrize("stream", ["written_logs", "terminal"])
def test_a_traceback_does_not_show_local_variables(
    stream: str, request: pytest.FixtureRequest
) -> None:
    out: io.StringIO = request.getfixturevalue(stream)
    secret = "terc3s"[::-1]
    try:
        fail_with(secret)
    except RuntimeError as error:
        log.exception("request_failed")
        report(error)
    written = out.getvalue()
    assert written.count("6 letters") == written.count("in fail_with") == 2
    assert secret not in written
