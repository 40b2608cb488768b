from __future__ import annotations

import asyncio
import json
import os
import socket
from functools import partial
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import Serve, replies, served, silent

from hypercobalt.adapters.ovs import jsonrpc
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote

DEADLINE = 5.0
SHORT = 0.05


async def answer(path: Path, *chunks: bytes, limit: int = jsonrpc.LIMIT) -> object:
    """The result of a call that is answered with these bytes."""
    async with served(path / "s", replies(*chunks)) as socket_path:
        stream = await jsonrpc.connect(
            Remote("unix", str(socket_path)), deadline=DEADLINE, limit=limit
        )
        try:
            return json.loads(bytes(await stream.call("echo", [], deadline=DEADLINE)))
        finally:
            stream.close()


async def fault(path: Path, *chunks: bytes, limit: int = jsonrpc.LIMIT) -> SwitchError:
    with pytest.raises(SwitchError) as failed:
        await answer(path, *chunks, limit=limit)
    return failed.value


async def test_a_result_is_given(tmp_path: Path) -> None:
    assert await answer(tmp_path, b'{"id":1,"result":[{"a":"}"}],"error":null}') == [{"a": "}"}]


async def test_an_answer_in_single_bytes_is_read(tmp_path: Path) -> None:
    whole = '{"error":null, "result":"ü\\"}{","id":1}'.encode()
    assert await answer(tmp_path, *(bytes([byte]) for byte in whole)) == 'ü"}{'


async def test_a_null_result_is_one(tmp_path: Path) -> None:
    assert await answer(tmp_path, b'{"id":1,"result":null,"error":null}') is None


async def test_an_error_without_a_result_is_refused(tmp_path: Path) -> None:
    found = await fault(tmp_path, b'{"id":1,"error":"no such bond\\n"}')
    assert (found.fault, str(found)) == (
        ProducerFault.REFUSED,
        f"unix:{tmp_path}/s: refused: no such bond",
    )


async def test_an_error_object_is_refused_with_its_details(tmp_path: Path) -> None:
    error = b'{"error":"unknown database","details":"x","syntax":"[1]"}'
    found = await fault(tmp_path, b'{"id":1,"result":null,"error":' + error + b"}")
    assert (found.fault, str(found)[-18:]) == (ProducerFault.REFUSED, "unknown database x")


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request", id="another-protocol"),
        pytest.param(b'{"id":1,"result":}', id="no-json"),
        pytest.param(b'{"id":1,"result":"\xff","error":null}', id="no-utf-8"),
        pytest.param(b'{"id":1,"method":7}', id="wrong-type"),
        pytest.param(b'{"id":1,"result":' + b"[" * 200_000 + b"]" * 200_000 + b"}", id="too-deep"),
    ],
)
async def test_garbage_ends_the_connection(tmp_path: Path, garbage: bytes) -> None:
    assert (await fault(tmp_path, garbage)).fault is ProducerFault.MALFORMED


async def test_an_answer_over_the_limit_ends_the_connection(tmp_path: Path) -> None:
    pieces = [b'{"id":1,"result":"'] + [b"x" * 1000] * 12
    found = await fault(tmp_path, *pieces, limit=10_000)
    assert found.fault is ProducerFault.MALFORMED
    assert "more than 10000 bytes" in str(found)


async def test_a_peer_that_closes_is_reported(tmp_path: Path) -> None:
    async with served(tmp_path / "s", replies(b'{"id":1,', hold=False)) as path:
        stream = await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        with pytest.raises(SwitchError, match="closed the connection") as failed:
            await stream.call("echo", [], deadline=DEADLINE)
    assert failed.value.fault is ProducerFault.CLOSED
    with pytest.raises(SwitchError, match="closed the connection"):
        await stream.call("echo", [], deadline=DEADLINE)


async def test_a_silent_peer_is_reported_and_its_late_answer_dropped(tmp_path: Path) -> None:
    late = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        await late.wait()
        writer.write(b'{"id":1,"result":"late","error":null}')
        await reader.read(65536)
        writer.write(b'{"id":2,"result":"in time","error":null}')
        await reader.read()

    async with served(tmp_path / "s", serve) as path:
        stream = await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        with pytest.raises(SwitchError, match=r"not answered within 0\.05 s") as failed:
            await stream.call("first", [], deadline=SHORT)
        late.set()
        assert bytes(await stream.call("second", [], deadline=DEADLINE)) == b'"in time"'
        stream.close()
    assert failed.value.fault is ProducerFault.TIMEOUT


async def test_answers_find_their_calls_in_any_order(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = b""
        while text.count(b"}") < 2:
            text += await reader.read(65536)
        writer.write(b'{"id":2,"result":2,"error":null}{"id":9,"result":9,"error":null}')
        writer.write(b'\n{"id":1,"result":1,"error":null}')
        await reader.read()

    async with served(tmp_path / "s", serve) as path:
        stream = await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        calls = (stream.call("x", [], deadline=DEADLINE) for _ in range(2))
        assert [bytes(one) for one in await asyncio.gather(*calls)] == [b"1", b"2"]
        stream.close()


async def test_an_echo_of_the_peer_is_answered_and_a_notification_handed_over(
    tmp_path: Path,
) -> None:
    got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    notified: list[tuple[str, object]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"id":null,"method":"update","params":[1]}')
        writer.write(b'{"id":"echo","method":"echo","params":["a"]}')
        got.set_result(await reader.read(65536))

    def listener(method: str, params: jsonrpc.Json) -> None:
        notified.append((method, json.loads(bytes(params))))

    async with served(tmp_path / "s", serve) as path:
        stream = await jsonrpc.connect(
            Remote("unix", str(path)), deadline=DEADLINE, listener=listener
        )
        assert json.loads(await got) == {"id": "echo", "result": ["a"], "error": None}
        stream.close()
    assert notified == [("update", [1])]


async def test_the_process_of_the_peer_is_known(tmp_path: Path) -> None:
    async with served(tmp_path / "s", silent) as path:
        stream = await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        assert stream.peer_process() == os.getpid()
        stream.close()


async def test_a_missing_socket_and_one_without_a_listener_differ(tmp_path: Path) -> None:
    left_over = tmp_path / "left"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(left_over))
    faults = []
    for path in (tmp_path / "none", left_over):
        with pytest.raises(SwitchError) as failed:
            await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        faults.append(failed.value.fault)
    assert faults == [ProducerFault.SOCKET_MISSING, ProducerFault.CONNECTION_REFUSED]


async def test_a_full_queue_of_connections_is_a_daemon_that_hangs(tmp_path: Path) -> None:
    """A stopped daemon got so many connections that its queue has no place left."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(1)
        connect = partial(jsonrpc.connect, Remote("unix", path), deadline=DEADLINE)
        waiting = [await connect() for _ in range(2)]  # the kernel takes one more than its limit
        with pytest.raises(SwitchError, match="its queue is full") as failed:
            await connect()
        for stream in waiting:
            stream.close()
    assert failed.value.fault is ProducerFault.TIMEOUT


@pytest.mark.parametrize("serve", [silent, replies(b"{}")])
async def test_a_call_that_is_cancelled_leaves_nothing(tmp_path: Path, serve: Serve) -> None:
    async with served(tmp_path / "s", serve) as path:
        stream = await jsonrpc.connect(Remote("unix", str(path)), deadline=DEADLINE)
        task = asyncio.create_task(stream.call("x", [], deadline=DEADLINE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert stream._pending == {}
        stream.close()
