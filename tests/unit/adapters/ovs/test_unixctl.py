from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import replies, served

from hypercobalt.adapters.ovs import unixctl
from hypercobalt.adapters.ovs.port import Fault, SwitchError


async def reply(path: Path, text: bytes) -> str:
    async with served(path / "d.1.ctl", replies(text)) as socket:
        with closing(await unixctl.connect(socket)) as control:
            return await control.run("bond/show", "bond0")


async def test_the_text_of_a_reply_is_given(tmp_path: Path) -> None:
    text = b'{"id":1,"result":"---- bond0 ----\\nbond_mode: balance-slb\\n","error":null}'
    assert await reply(tmp_path, text) == "---- bond0 ----\nbond_mode: balance-slb\n"


async def test_an_empty_reply_is_empty_text(tmp_path: Path) -> None:
    assert await reply(tmp_path, b'{"id":1,"result":null,"error":null}') == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(
            b'{"id":1,"error":"\\"bond/show\\" is not a valid command (use --help)\\n"}',
            Fault.UNKNOWN_COMMAND,
            id="another-version",
        ),
        pytest.param(b'{"id":1,"error":"no such bond\\n"}', Fault.REFUSED, id="refused"),
        pytest.param(b'{"id":1,"result":["x"],"error":null}', Fault.MALFORMED, id="no-text"),
        pytest.param(b'{"id":1,"result":7}', Fault.MALFORMED, id="number"),
        pytest.param(b"SSH-2.0-OpenSSH", Fault.MALFORMED, id="another-protocol"),
    ],
)
async def test_a_failed_command_shows_its_kind(tmp_path: Path, text: bytes, fault: Fault) -> None:
    with pytest.raises(SwitchError) as failed:
        await reply(tmp_path, text)
    assert failed.value.fault is fault
