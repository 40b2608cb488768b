"""What a captured host's agent answers ends in one line on a person's machine, and takes little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

import pytest

from hypercobalt.api.ovsnode import OVSNode
from hypercobalt.cli import agents, ovn, ports, trace
from hypercobalt.cli.agents import MOST
from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime.client.pinned import Reply

PIECE = bytes(2**16)


def answers(monkeypatch: pytest.MonkeyPatch, pieces: Iterable[bytes]) -> None:
    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncGenerator[Reply]:
        async def chunks() -> AsyncGenerator[bytes]:
            for piece in pieces:
                yield piece

        yield Reply("application/json", chunks())

    monkeypatch.setattr(agents, "opened", opened)


def test_answer_without_an_end_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = 0

    def endless() -> Iterable[bytes]:
        nonlocal sent
        while sent < 4 * MOST:
            sent += len(PIECE)
            yield PIECE

    answers(monkeypatch, endless())
    assert ports.ports("kvm-1") == 1
    assert sent <= MOST + len(PIECE)
    assert "kvm-1: the answer to ports has more than 16 MiB" in capsys.readouterr().err


def test_answer_that_comes_byte_by_byte_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncGenerator[Reply]:
        async def chunks() -> AsyncGenerator[bytes]:
            yield b"x"
            await asyncio.get_running_loop().create_future()

        yield Reply("application/json", chunks())

    monkeypatch.setattr(agents, "opened", opened)
    monkeypatch.setattr(agents, "_WHOLE_SECONDS", 0.05)
    assert ports.ports("kvm-1") == 1
    assert "kvm-1: the answer to ports is not complete after 0.05 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff", id="no text"),
        pytest.param(b'{"notes": ["\xff"]}', id="a text that is none"),
        pytest.param(b'{"notes": 1}', id="another type"),
        pytest.param(b'{"x": ' + b"[" * 10**6, id="a million levels"),
        pytest.param(b'{"notes": ' + b"9" * 10**6 + b"}", id="a number of a million digits"),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_answer_that_no_agent_gives_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bytes,
    output: str,
) -> None:
    answers(monkeypatch, [answer])
    given = {"output": output}
    assert ports.ports("kvm-1", **given) == 1  # type: ignore[arg-type]
    assert ovn.ovn("kvm-1", **given) == 1  # type: ignore[arg-type]
    assert trace.trace("kvm-1", "icmp", from_="tap1", **given) == 1  # type: ignore[arg-type]
    found = capsys.readouterr().err.splitlines()
    assert len(found) == 3
    assert all("kvm-1: the answer to" in line for line in found)


async def test_answer_that_fits_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, [PIECE] * (MOST // len(PIECE)))
    assert len(await agents.whole(OVSNode, "kvm-1", "ports")) == MOST
    answers(monkeypatch, [PIECE] * (MOST // len(PIECE)) + [b"x"])
    with pytest.raises(HypercobaltError, match="more than 16 MiB"):
        await agents.whole(OVSNode, "kvm-1", "ports")
