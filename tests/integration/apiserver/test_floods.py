"""Many requests at once, with and without credentials: bounded memory, and room for others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.requests.bodies import MAX_BODY
from hypercobalt.apiserver.server import ServerOptions, serve
from tests.floods import ATTACKS, client_context, flood, resident_mib, status_of

from .agents import agents_of
from .conftest import Client, start_server
from .connections import connection, ended, works
from .objects import CONFIG_MAPS

MIB = 2**20
POST = f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
ADMIN = b"Authorization: Bearer secret-admin\r\n"
OTHER = b"Authorization: Bearer secret-other\r\n"
CROWD = 40
FLOOD, ATTACKER = 400, "127.0.0.66"


def head(credentials: bytes, length: int = MAX_BODY) -> bytes:
    return POST + credentials + b"Content-Length: %d\r\n\r\n" % length


@contextlib.asynccontextmanager
async def half_bodies(
    api: Client, credentials: bytes, count: int = CROWD
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Connections that have sent a head and half of what it promises, if that is taken."""
    half = b'{"data":{"a":"' + b"x" * (MAX_BODY // 2)
    async with contextlib.AsyncExitStack() as stack:
        crowd = [await stack.enter_async_context(connection(api)) for _ in range(count)]
        for _, writer in crowd:
            writer.write(head(credentials) + half)
        yield crowd


async def first_line(reader: asyncio.StreamReader) -> bytes:
    """What the server answers; nothing where it ended the connection while this side wrote."""
    with contextlib.suppress(OSError):
        return await reader.readline()
    return b""


@pytest.mark.parametrize(
    ("credentials", "refusal"),
    [
        (b"", b"HTTP/1.1 403 Forbidden\r\n"),
        (b"Authorization: Bearer wrong\r\n", b"HTTP/1.1 401 Unauthorized\r\n"),
        (b"Authorization: Bearer secret-viewer\r\n", b"HTTP/1.1 403 Forbidden\r\n"),
    ],
)
async def test_strangers_with_half_a_body_are_refused_and_cost_no_memory(
    tmp_path: Path, credentials: bytes, refusal: bytes
) -> None:
    async with start_server(tmp_path / "data") as server, Client(server.url) as api:
        async with half_bodies(api, b"", 1) as ((reader, _),):
            await reader.readline()
        before = resident_mib(server.process.pid)
        async with half_bodies(api, credentials) as crowd, asyncio.timeout(30):
            lines = [await first_line(reader) for reader, _ in crowd]
            assert set(lines) <= {refusal, b""}
            assert lines.count(b"") < CROWD / 2
            for reader, _ in crowd:
                await ended(reader)
            await works(api)
        assert resident_mib(server.process.pid) - before < 15


async def test_an_unread_body_ends_its_connection_after_the_answer(api: Client) -> None:
    async with connection(api) as (reader, writer):
        writer.write(head(b"", 100_000) + b"x" * 50_000)
        async with asyncio.timeout(5):
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b"connection: close" in answer
            writer.write(b"x" * 50_000)  # a client that writes first can read the answer
            assert b'"code":403' in await reader.read()


async def test_a_stranger_without_a_body_keeps_its_connection(api: Client) -> None:
    async with connection(api) as (reader, writer), asyncio.timeout(5):
        for _ in range(2):
            writer.write(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403 ")
            await reader.readuntil(b'"code":403}')


async def test_bodies_under_way_are_bounded_and_leave_room_for_other_users(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.inflight.BODY_BYTES", 8 * MIB)
    async with serve(options) as server, Client(server.url) as admin:
        async with half_bodies(admin, OTHER, 10) as crowd, asyncio.timeout(30):
            answers = {asyncio.create_task(first_line(reader)) for reader, _ in crowd}
            lines: list[bytes] = []
            while len(answers) > 2:  # these have room, and wait for the rest of theirs
                done, answers = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
                lines += [task.result() for task in done]
            assert set(lines) <= {b"HTTP/1.1 429 Too Many Requests\r\n", b""}
            assert any(lines)
            await works(admin)
            for task in answers:
                task.cancel()
        await works(admin)


async def test_requests_under_way_are_bounded_and_leave_room_for_others(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.inflight.WRITES", 32)
    as_other = {"authorization": "Bearer secret-other"}
    async with (
        serve(options) as server,
        Client(server.url) as admin,
        half_bodies(admin, OTHER, 16),
        asyncio.timeout(30),
    ):
        answer = await admin.post(CONFIG_MAPS, json={}, headers=as_other)
        while answer.status_code != 429:  # until all of them have begun
            answer = await admin.post(CONFIG_MAPS, json={}, headers=as_other)
        refusal = answer.json()
        assert answer.headers["retry-after"] == "1"
        assert refusal["reason"] == "TooManyRequests"
        assert refusal["details"] == {"retryAfterSeconds": 1}
        assert (await admin.get(CONFIG_MAPS, headers=as_other)).status_code == 200
        await works(admin)


async def test_a_flooding_agent_keeps_the_operator_waiting_for_a_few_of_its_requests(
    tmp_path: Path,
) -> None:
    """Both send as fast as the server allows; so the test compares counts, not times."""
    connections, turns = 180, 100
    answered = {b"200": 0, b"429": 0}

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\n" + OTHER + b"\r\n")
            answer = await reader.readuntil(b"\r\n\r\n")
            answered[answer.split(b" ", 2)[1]] += 1
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)

    async with (
        start_server(tmp_path / "data") as server,
        Client(server.url) as operator,
        contextlib.AsyncExitStack() as stack,
    ):
        crowd = [await stack.enter_async_context(connection(operator)) for _ in range(connections)]
        tasks = [asyncio.create_task(flood(*each)) for each in crowd]
        await works(operator)
        before = answered[b"200"]
        async with asyncio.timeout(60):
            codes = [(await operator.get("/api/v1/nodes")).status_code for _ in range(turns)]
        flooded = (answered[b"200"] - before) / turns
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert set(codes) == {200}
    assert not any(task.exception() for task in tasks if not task.cancelled())
    assert flooded < connections / 2, "of a flood's requests, answered for one of the operator"


async def test_refused_requests_hold_no_place(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.inflight.WRITES", 4)
    monkeypatch.setattr("hypercobalt.apiserver.inflight.READS", 4)
    as_viewer = {"authorization": "Bearer secret-viewer"}
    async with serve(options) as server, Client(server.url) as api:
        for _ in range(20):
            for method in ("POST", "GET"):
                answer = await api.request(method, CONFIG_MAPS, headers=as_viewer)
                assert answer.status_code == 403
            await works(api)


@pytest.mark.parametrize("second", ["wrong", "secret-admin"])
async def test_two_authorization_headers_are_refused(api: Client, second: str) -> None:
    headers = [("authorization", "Bearer secret-admin"), ("authorization", f"Bearer {second}")]
    for path in (CONFIG_MAPS, "/readyz"):
        answer = await api.get(path, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), path


@pytest.mark.parametrize("selector", ["labelSelector", "fieldSelector"])
@pytest.mark.parametrize("watch", ["true", "false"])
async def test_selectors_of_thousands_of_terms_are_refused(
    api: Client, selector: str, watch: str
) -> None:
    terms = ",".join(f"metadata.name!=k{number}" for number in range(1_500))
    answer = await api.get(CONFIG_MAPS, params={selector: terms, "watch": watch})
    assert answer.status_code == 400
    assert "too long: limit 16384" in answer.json()["message"]


async def test_watches_are_bounded_by_what_their_selectors_hold(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.inflight.WATCHES", 80)
    long = ",".join(f"k{number}!=v" for number in range(200))
    async with serve(options) as server, Client(server.url) as api:
        async with api.watching(CONFIG_MAPS, labelSelector=long) as first:
            assert first.status == 200
            async with api.watching(CONFIG_MAPS, labelSelector=long) as second:
                assert second.status == 429
            async with api.watching(CONFIG_MAPS) as plain:
                assert plain.status == 200
        async with api.watching(CONFIG_MAPS, labelSelector=long) as again:
            assert again.status == 200


async def test_stored_bytes_of_one_host_are_bounded_and_others_go_on(tmp_path: Path) -> None:
    async with start_server(tmp_path / "data") as server, Client(server.url) as admin:
        captured, other = await agents_of(admin, "kvm-a", "kvm-b")
        before, codes, number = resident_mib(server.process.pid), [201], 0
        while codes[-1] == 201 and number < 200:
            number += 1
            body = {"metadata": {"name": f"big-{number}"}, "data": {"a": "x" * 900_000}}
            answer = await admin.post(CONFIG_MAPS, json=body, headers=captured)
            codes.append(answer.status_code)
        assert codes[-1] == 403
        assert "exceeded quota: user system:serviceaccount:default:agent on kvm-a" in answer.text
        assert resident_mib(server.process.pid) - before < 60
        small = {"metadata": {"name": "small"}, "data": {"a": "x" * 50_000}}
        answer = await admin.post(CONFIG_MAPS, json=small, headers=other)
        assert answer.status_code == 201
        await works(admin)
        answer = await admin.delete(f"{CONFIG_MAPS}/big-1", headers=captured)
        assert answer.status_code == 200
        body["metadata"] = {"name": "again"}
        answer = await admin.post(CONFIG_MAPS, json=body, headers=captured)
        assert answer.status_code == 201


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def costly(count: int) -> dict[str, object]:
    """A ConfigMap with so many owned fields."""
    owned: dict[str, object] = {"f:data": {f"f:k{number}": {} for number in range(count)}}
    stamp = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {"metadata": {"name": "c", "managedFields": [{**stamp, "fieldsV1": owned}]}}


def applied(count: int) -> dict[str, object]:
    """An applied ConfigMap with so many items that are merged by key."""
    about = {"apiVersion": "example.com/v1", "kind": "Owner"}
    owners = [{**about, "name": f"n{n}", "uid": f"u{n}"} for n in range(count)]
    meta = {"name": "c", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


async def test_one_request_of_a_host_costs_less_than_a_second(tmp_path: Path) -> None:
    async with start_server(tmp_path / "data") as server, Client(server.url) as admin:
        (captured,) = await agents_of(admin, "kvm-a")
        headers = {**captured, "content-type": "application/apply-patch+yaml"}
        one = f"{CONFIG_MAPS}/c?fieldManager=m&force=true"
        for shape, largest in ((costly, 29_000), (applied, 5_000)):
            for count, refused in ((largest, False), (60_000, True), (15_000, shape is applied)):
                body, before = msgspec.json.encode(shape(count)), cpu_seconds(server.process.pid)
                if shape is applied:
                    answer = await admin.patch(one, content=body, headers=headers)
                else:
                    answer = await admin.post(CONFIG_MAPS, content=body, headers=captured)
                used = cpu_seconds(server.process.pid) - before
                assert (answer.status_code == 413) is refused, answer.text[:300]
                assert used < 1, f"{shape.__name__}({count}) took {used:.2f} s"
        headers["content-type"] = "application/json-patch+json"
        one = f"{CONFIG_MAPS}/grown"
        await admin.post(CONFIG_MAPS, json={"metadata": {"name": "grown"}}, headers=captured)
        steps: list[dict[str, object]] = [{"op": "add", "path": "/data", "value": {}}]
        codes: list[int] = []
        for place in range(10):
            names = (f"/data/k{place}-{number}" for number in range(7_000))
            steps += [{"op": "add", "path": name, "value": "v"} for name in names]
            before = cpu_seconds(server.process.pid)
            answer = await admin.patch(one, content=msgspec.json.encode(steps), headers=headers)
            codes, steps = [*codes, answer.status_code], []
            assert cpu_seconds(server.process.pid) - before < 1
        assert (codes[0], codes[-1]) == (200, 413), "small steps lead no further"


async def test_object_grows_to_what_etcd_takes_and_no_further(api: Client) -> None:
    await api.post(CONFIG_MAPS, json={"metadata": {"name": "c"}, "data": {"a": "x" * 1_000_000}})
    notes = {f"n{number}": "x" * 1000 for number in range(250)}
    answer = await api.patch_as(
        "merge-patch+json", f"{CONFIG_MAPS}/c", {"metadata": {"annotations": notes}}
    )
    assert answer.status_code == 200
    names = {"".join(("x" * 40, str(number))): "" for number in range(9_000)}
    answer = await api.patch_as(
        "merge-patch+json", f"{CONFIG_MAPS}/c", {"metadata": {"labels": names}}
    )
    assert answer.status_code == 413
    assert "limit is 1572864" in answer.json()["message"]


@pytest.mark.parametrize("attack", ["silent", "stalled-handshake", "silent-after-handshake"])
async def test_connections_of_strangers_are_bounded_and_others_are_served(
    tmp_path: Path, attack: str
) -> None:
    ready, tls = b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", client_context()
    async with start_server(tmp_path / "data") as server, Client(server.url) as admin:
        await works(admin)
        port = admin.base_url.port
        assert port is not None
        before = resident_mib(server.process.pid)
        async with flood(port, ATTACKS[attack], FLOOD, ATTACKER), asyncio.timeout(10):
            for source in (ATTACKER, "127.0.0.7"):
                line = await status_of(port, ready, source, tls)
                assert line == b"HTTP/1.1 200 OK\r\n", source
            async with Client(server.url) as another:  # with a connection of its own
                await works(another)
            most = resident_mib(server.process.pid)
        await works(admin)
        assert most - before < 30
        assert resident_mib(server.process.pid) - before < 15


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """The status line of an answer, which is read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head.partition(b"\r\n")[0]


@pytest.mark.parametrize("then", [b"", b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"])
async def test_idle_connections_of_one_user_are_bounded_whatever_came_last(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch, then: bytes
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.connections.KEPT", 8)
    get = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n".encode() + OTHER + b"\r\n"
    async with (
        serve(options) as server,
        Client(server.url) as admin,
        contextlib.AsyncExitStack() as stack,
    ):
        await works(admin)
        crowd = []
        for _ in range(12):
            reader, writer = await stack.enter_async_context(connection(admin))
            for request in (get, then) if then else (get,):
                writer.write(request)
                assert await answer_of(reader) == b"HTTP/1.1 200 OK"
            crowd.append(reader)
        async with asyncio.timeout(5):
            for reader in crowd[:8]:  # the oldest
                await ended(reader)
        assert not crowd[-1].at_eof()
        await works(admin)


async def test_watches_of_one_host_are_few(api: Client) -> None:
    captured, other = await agents_of(api, "kvm-a", "kvm-b")
    watch = f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\n"
    lines: list[bytes] = []
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(30):
        for headers in (*(captured,) * 33, other):
            reader, writer = await stack.enter_async_context(connection(api))
            writer.write(f"{watch}Authorization: {headers['authorization']}\r\n\r\n".encode())
            lines.append(await reader.readline())
    assert lines[:32] == [b"HTTP/1.1 200 OK\r\n"] * 32
    assert lines[32:] == [b"HTTP/1.1 429 Too Many Requests\r\n", b"HTTP/1.1 200 OK\r\n"]
