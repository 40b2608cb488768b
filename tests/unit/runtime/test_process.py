"""How settings come to a process, and how it ends when they cannot be used."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hypercobalt import logs
from hypercobalt.api.address import Address
from hypercobalt.errors import (
    ConfigurationError,
    HypercobaltError,
    InvalidRequestError,
    TransientError,
)
from hypercobalt.launch import ProcessSettings, decode_settings, passed
from hypercobalt.runtime import process
from hypercobalt.runtime.process import main


@dataclass(frozen=True, slots=True)
class Settings(ProcessSettings):
    """Settings of one kind of process."""

    name: str


FULL = Settings("a" * 200_000, kubeconfig=Path("/kube config"), metrics=Address("::1", 0))


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what `main` sets for its whole process from that of the tests."""
    for name in ("use_one_arena", "bound_memory"):
        monkeypatch.setattr(process, name, lambda: None)
    monkeypatch.setattr(logs, "configure", lambda **_: None)


def test_settings_longer_than_an_argument_arrive_and_their_descriptor_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    descriptor = passed(FULL)
    assert os.get_inheritable(descriptor)
    monkeypatch.setattr(sys, "argv", ["", str(descriptor)])
    arrived: list[Settings] = []

    async def run(settings: Settings) -> None:
        arrived.append(settings)

    assert main(Settings, run) == 0
    assert arrived == [FULL]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("--flag"), 2),
        (InvalidRequestError("name"), 2),
        (TransientError("the API server is away"), 1),
        (HypercobaltError("else"), 1),
    ],
)
def test_exit_code_is_2_for_what_cannot_be_used_and_else_1(
    monkeypatch: pytest.MonkeyPatch, error: HypercobaltError, code: int
) -> None:
    monkeypatch.setattr(sys, "argv", ["", str(passed(FULL))])

    async def run(_: Settings) -> None:
        raise error

    assert main(Settings, run) == code


@pytest.mark.parametrize("given", ["{}", "999999", "-1"])
def test_process_started_without_its_command_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["", given])

    async def run(_: Settings) -> None:
        raise AssertionError

    assert main(Settings, run) == 2


def test_settings_of_another_kind_are_refused() -> None:
    for data in (b"", b"{}", b'{"name": 1}', b"\xff"):
        with pytest.raises(ConfigurationError, match="settings b"):
            decode_settings(data, Settings)
