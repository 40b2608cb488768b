from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import replies, served

from hypercobalt.adapters.ovs import unixctl
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError


async def reply(path: Path, text: bytes) -> str:
    async with served(path / "d.1.ctl", replies(text)) as socket:
        with closing(await unixctl.connect(socket)) as control:
            return await control.run("bond/show", "bond0")


async def test_the_text_of_a_reply_is_given(tmp_path: Path) -> None:
    text = b'{"id":1,"result":"---- bond0 ----\\nbond_mode: balance-slb\\n","error":null}'
    assert await reply(tmp_path, text) == "---- bond0 ----\nbond_mode: balance-slb\n"


async def test_a_reply_without_end_is_given_up_early(tmp_path: Path) -> None:
    """A reply of 100 MB, of which no more is taken than fits."""
    written = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.read(4096)
        writer.write(b'{"id":1,"result":"')
        while written < 100 * 1024**2:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    async with served(tmp_path / "d.1.ctl", serve) as socket:
        control = await unixctl.connect(socket)
        with pytest.raises(SwitchError, match="more than 4194304 bytes") as failed:
            await control.run("bridge/dump-flows")
    assert failed.value.fault is ProducerFault.MALFORMED
    assert written < 2 * unixctl.LIMIT


async def test_an_empty_reply_is_empty_text(tmp_path: Path) -> None:
    assert await reply(tmp_path, b'{"id":1,"result":null,"error":null}') == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            b'{"id":1,"error":"\\"bond/show\\" is not a valid command (use --help)\\n"}',
            ProducerFault.UNKNOWN_COMMAND,
            id="another-version",
        ),
        pytest.param(b'{"id":1,"error":"no such bond\\n"}', ProducerFault.REFUSED, id="refused"),
        pytest.param(
            b'{"id":1,"result":["x"],"error":null}', ProducerFault.MALFORMED, id="no-text"
        ),
        pytest.param(b'{"id":1,"result":7}', ProducerFault.MALFORMED, id="number"),
        pytest.param(b"SSH-2.0-OpenSSH", ProducerFault.MALFORMED, id="another-protocol"),
    ],
)
async def test_a_failed_command_shows_its_kind(
    tmp_path: Path, text: bytes, fault: ProducerFault
) -> None:
    with pytest.raises(SwitchError) as failed:
        await reply(tmp_path, text)
    assert failed.value.fault is fault
