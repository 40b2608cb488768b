"""A session with a server that a test scripts: old ones, damaged ones, silent ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import SCHEMA, Serve, served

from hypercobalt.adapters.ovs import ovsdb
from hypercobalt.adapters.ovs.database import WANTED, Snapshots
from hypercobalt.adapters.ovs.framing import Objects
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.adapters.ovs.rows import BridgeRow

UUID, OTHER = "7c2f1f3e-0e0a-4a93-8a4e-1d6c3a6f6f10", "11111111-0e0a-4a93-8a4e-1d6c3a6f6f10"
ROW = {"name": "br-int", "external_ids": ["map", [["a", "1"]]]}
REFUSED = "unknown method"
Answers = Mapping[str, object]


def server(
    answers: Answers, *after: object, received: list[Mapping[str, object]] | None = None
) -> Serve:
    """Answer each method with its result, refuse the others, then notify of changes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        objects = Objects("test", 10**6)
        while data := await reader.read(65536):
            for text in objects.feed(data):
                call = json.loads(text)
                if received is not None:
                    received.append(call)
                method = call["method"]
                if answers.get(method) is None:
                    error = None if method in answers else REFUSED
                    if error is None:
                        continue  # silence
                    reply: dict[str, object] = {"id": call["id"], "error": {"error": error}}
                else:
                    reply = {"id": call["id"], "result": answers[method], "error": None}
                notified = after if method.startswith("monitor") and "result" in reply else ()
                writer.write(b"".join(json.dumps(one).encode() for one in (reply, *notified)))

    return serve


def since(updates: object) -> object:
    return [False, "00000000-0000-0000-0000-000000000001", updates]


def notification(method: str, *params: object) -> object:
    return {"id": None, "method": method, "params": list(params)}


def session(socket: Path, echo_period: float = 60) -> AbstractAsyncContextManager[ovsdb.Session]:
    remote = Remote("unix", str(socket))
    return ovsdb.monitored(remote, "Open_vSwitch", WANTED, deadline=1.0, echo_period=echo_period)


async def bridges(
    path: Path, serve: Serve, until: Callable[[ovsdb.Session], bool]
) -> list[BridgeRow]:
    """The bridges once a session meets a predicate."""
    async with served(path / "db.sock", serve) as socket, session(socket) as found:
        async with asyncio.timeout(5):
            while not until(found):
                found.changed.clear()
                await found.changed.wait()
        return list(Snapshots(found.tables).take().bridges.values())


def number_of_bridges(count: int) -> Callable[[ovsdb.Session], bool]:
    return lambda found: len(found.tables.rows.get("Bridge", {})) == count


async def fault(path: Path, serve: Serve, echo_period: float = 60) -> SwitchError:
    """Why a session ends, or does not begin."""
    try:
        async with served(path / "db.sock", serve) as socket, session(socket, echo_period) as found:
            async with asyncio.timeout(5):
                return await asyncio.shield(found.closed)
    except SwitchError as exc:
        return exc


@pytest.mark.parametrize(
    ("method", "answer", "update"),
    [
        pytest.param(
            "monitor_cond_since",
            since({"Bridge": {UUID: {"initial": ROW}}}),
            notification("update3", "m", "id", {"Bridge": {OTHER: {"insert": {"name": "b"}}}}),
            id="of-today",
        ),
        pytest.param(
            "monitor_cond",
            {"Bridge": {UUID: {"initial": ROW}}},
            notification("update2", "m", {"Bridge": {OTHER: {"insert": {"name": "b"}}}}),
            id="before-2.12",
        ),
        pytest.param(
            "monitor",
            {"Bridge": {UUID: {"new": ROW}}},
            notification("update", "m", {"Bridge": {OTHER: {"new": {"name": "b"}}}}),
            id="before-2.6",
        ),
    ],
)
async def test_servers_of_each_age_are_monitored(
    tmp_path: Path, method: str, answer: object, update: object
) -> None:
    serve = server({"get_schema": SCHEMA, method: answer}, update)
    found = await bridges(tmp_path, serve, number_of_bridges(2))
    assert found == [
        BridgeRow(OTHER, "b"),
        BridgeRow(UUID, "br-int", external_ids={"a": "1"}),
    ]


async def test_only_columns_of_the_schema_are_requested(tmp_path: Path) -> None:
    received: list[Mapping[str, object]] = []
    serve = server({"get_schema": SCHEMA, "monitor_cond_since": since({})}, received=received)
    await bridges(tmp_path, serve, lambda _: True)
    database, _, tables, *_ = json.loads(json.dumps(received[-1]["params"]))
    assert database == "Open_vSwitch"
    assert tables == {
        "Open_vSwitch": [{"columns": ["cur_cfg"]}],
        "SSL": [{"columns": ["ca_cert"]}],
        "Bridge": [{"columns": ["datapath_id", "external_ids", "name"]}],
        "Port": [{"columns": ["name"]}],
        "Interface": [{"columns": ["name"]}],
        "Mirror": [{"columns": ["name"]}],
        "Manager": [{"columns": ["target"]}],
    }


async def test_rows_change_and_go(tmp_path: Path) -> None:
    modify = {"datapath_id": "00aa", "external_ids": ["map", [["a", "1"], ["b", "2"]]]}
    serve = server(
        {
            "get_schema": SCHEMA,
            "monitor_cond_since": since(
                {"Bridge": {UUID: {"initial": ROW}, OTHER: {"initial": ROW}}}
            ),
        },
        notification("update3", "m", "id", {"Bridge": {UUID: {"modify": modify}}}),
        notification("update3", "m", "id", {"Bridge": {OTHER: {"delete": None}}}),
        notification("monitor_canceled", "m"),
    )
    found = await bridges(tmp_path, serve, number_of_bridges(1))
    assert found == [BridgeRow(UUID, "br-int", datapath_id="00aa", external_ids={"b": "2"})]


WRONG_UPDATES: dict[str, list[object]] = {
    "no-parameters": [],
    "no-updates": ["m", "id", 7],
    "unknown-row": ["m", "id", {"Bridge": {OTHER: {"modify": {"name": "x"}}}}],
    "unknown-table": ["m", "id", {"Flows": {OTHER: {"insert": {}}}}],
    "unknown-column": ["m", "id", {"Bridge": {OTHER: {"insert": {"x": 1}}}}],
    "no-value": ["m", "id", {"Bridge": {OTHER: {"insert": {"name": {}}}}}],
}
MONITORED = partial(since, {"Bridge": {UUID: {"initial": ROW}}})


@pytest.mark.parametrize(
    ("answers", "after", "expected"),
    [
        pytest.param({}, [], ProducerFault.SCHEMA_UNSUPPORTED, id="no-such-database"),
        pytest.param(
            {"get_schema": {"version": "1", "tables": {}}},
            [],
            ProducerFault.SCHEMA_UNSUPPORTED,
            id="no-table",
        ),
        pytest.param(
            {"get_schema": SCHEMA}, [], ProducerFault.MONITOR_FAILED, id="monitor-refused"
        ),
        pytest.param({"get_schema": None}, [], ProducerFault.TIMEOUT, id="silent"),
        pytest.param(
            {"get_schema": SCHEMA, "monitor_cond_since": [1]},
            [],
            ProducerFault.MALFORMED,
            id="no-rows",
        ),
        *(
            pytest.param(
                {"get_schema": SCHEMA, "monitor_cond_since": MONITORED()},
                [notification("update3", *params)],
                ProducerFault.MALFORMED,
                id=name,
            )
            for name, params in WRONG_UPDATES.items()
        ),
    ],
)
async def test_database_that_cannot_be_monitored_is_reported(
    tmp_path: Path, answers: Answers, after: list[object], expected: ProducerFault
) -> None:
    assert (await fault(tmp_path, server(answers, *after))).fault is expected


async def test_a_server_that_answers_no_echo_ends_the_session(tmp_path: Path) -> None:
    answers = {"get_schema": SCHEMA, "monitor_cond_since": MONITORED(), "echo": None}
    found = await fault(tmp_path, server(answers), echo_period=0.01)
    assert found.fault is ProducerFault.TIMEOUT
    assert "echo was not answered within 1 s" in str(found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([{"rows": [{"nb_cfg": 7}]}], None),
        ([{"error": "referential integrity violation", "details": "x"}], ProducerFault.REFUSED),
        ([{"rows": 7}], ProducerFault.MALFORMED),
        (None, ProducerFault.TIMEOUT),
    ],
)
async def test_rows_are_selected_once(
    tmp_path: Path, answer: object, expected: ProducerFault | None
) -> None:
    question = {"table": "SB_Global", "where": [], "columns": ["nb_cfg"]}
    async with served(tmp_path / "db.sock", server({"transact": answer})) as socket:
        remote = Remote("unix", str(socket))
        try:
            found = await ovsdb.select(remote, "OVN_Southbound", [question], deadline=0.2)
        except SwitchError as exc:
            assert exc.fault is expected  # noqa: PT017 - one of the cases
        else:
            assert found == [[{"nb_cfg": 7}]]
