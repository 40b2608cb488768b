"""A session with an OVSDB server: its schema, a monitor of some tables, echoes of our own.

A server that hangs keeps its connections open, and nothing shows it but an unanswered echo.

Source: RFC 7047, section 4; ovsdb-server(7), "Monitor Cond Since".
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from hypercobalt.adapters.ovs import jsonrpc
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.adapters.ovs.schema import Schema, Value, parse_schema

Row: TypeAlias = dict[str, Value]
_Sent: TypeAlias = Mapping[str, object]
_Updates: TypeAlias = Mapping[str, Mapping[str, Mapping[str, _Sent | None]]]
_SentUpdates: TypeAlias = dict[str, dict[str, dict[str, dict[str, object] | None]]]
_MONITOR: Final = "hypercobalt"
_NO_TRANSACTION: Final = "00000000-0000-0000-0000-000000000000"


class _Result(msgspec.Struct):
    rows: list[dict[str, object]] = []
    error: str = ""
    details: str = ""


@dataclass(slots=True)
class Tables:
    """Rows by table and UUID, kept up to date.

    Attributes:
        rows: as they are now.
        touched: UUIDs of rows by table that came, changed or went since this was emptied.
    """

    schema: Schema
    rows: dict[str, dict[str, Row]] = field(default_factory=dict[str, dict[str, Row]])
    touched: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def apply(self, updates: _Updates) -> None:
        """Apply what a monitor sends, in the form of `update2` or `update`.

        Raises:
            SwitchError: MALFORMED.
        """
        for table, rows in updates.items():
            for uuid, change in rows.items():
                try:
                    self._apply(table, uuid, change)
                except (KeyError, ValueError) as exc:
                    raise SwitchError(
                        ProducerFault.MALFORMED,
                        f"{table} {uuid}: the change cannot be applied: {exc}",
                    ) from exc

    def _apply(self, table: str, uuid: str, change: Mapping[str, _Sent | None]) -> None:
        columns, known = self.schema.tables[table], self.rows.setdefault(table, {})
        self.touched.setdefault(table, set()).add(uuid)
        if modify := change.get("modify"):
            old = known[uuid]
            changed = {name: columns[name].change(old[name], v) for name, v in modify.items()}
            known[uuid] = old | changed
        elif (sent := _whole(change)) is not None:
            # `new` of an `update` has all monitored columns, the others leave out defaults.
            defaults: Row = {name: column.default for name, column in columns.items()}
            known[uuid] = defaults | {name: columns[name].decode(v) for name, v in sent.items()}
        elif "delete" in change or "old" in change:
            known.pop(uuid, None)


def _whole(change: Mapping[str, _Sent | None]) -> _Sent | None:
    for key in ("initial", "insert", "new"):
        if (sent := change.get(key)) is not None:
            return sent
    return None


class Session:
    """A monitor of some tables; made by `monitored`.

    Attributes:
        tables: up to date.
        changed: set when they have changed, and at the session's end.
    """

    def __init__(self, stream: jsonrpc.Stream, tables: Tables) -> None:
        self.tables = tables
        self.changed = asyncio.Event()
        self._stream = stream
        stream.closed.add_done_callback(lambda _: self.changed.set())

    @property
    def closed(self) -> asyncio.Future[SwitchError]:
        """Why the session ended, once it has."""
        return self._stream.closed

    def apply(self, updates: _Updates) -> None:
        """Take what the server reports."""
        self.tables.apply(updates)
        self.changed.set()

    async def keep_alive(self, period: float, deadline: float) -> None:
        """Send an echo request each period; end the session when it is not answered."""
        while not self.closed.done():
            await asyncio.sleep(period)  # of a probe: nothing else shows a server that hangs
            try:
                await self._stream.call("echo", [], deadline=deadline)
            except SwitchError as exc:
                self._stream.close(exc)


class _Inbox:
    """Takes notifications; those that come before the tables are made wait for them."""

    def __init__(self) -> None:
        self._early: list[_Updates] = []
        self._session: Session | None = None

    def attach(self, session: Session) -> None:
        for updates in self._early:
            session.apply(updates)
        self._session = session

    def listen(self, method: str, params: jsonrpc.Json) -> None:
        if method not in {"update", "update2", "update3"}:
            return
        sent = msgspec.json.decode(params, type=list[msgspec.Raw])
        if not sent:
            raise SwitchError(
                ProducerFault.MALFORMED, f"a notification {method} without parameters"
            )
        updates: _Updates = msgspec.json.decode(sent[-1], type=_SentUpdates)
        if self._session is None:
            self._early.append(updates)
        else:
            self._session.apply(updates)


@asynccontextmanager
async def monitored(
    remote: Remote,
    database: str,
    wanted: Mapping[str, tuple[str, ...]],
    *,
    deadline: float,
    echo_period: float,
) -> AsyncGenerator[Session]:
    """Monitor tables of a database; the session ends with the context.

    Args:
        remote: of the server.
        database: such as `Open_vSwitch`.
        wanted: columns by table; those that the schema lacks are left out.
        deadline: seconds for each answer.
        echo_period: seconds between echoes.

    Raises:
        SwitchError: no connection, no answer, SCHEMA_UNSUPPORTED for a database or table that is
            missing, MONITOR_FAILED when the server refuses, MALFORMED.
    """
    inbox = _Inbox()
    stream = await jsonrpc.connect(remote, deadline=deadline, listener=inbox.listen)
    try:
        schema = (await _schema(stream, database, deadline)).only(wanted)
        if missing := wanted.keys() - schema.tables.keys():
            raise SwitchError(
                ProducerFault.SCHEMA_UNSUPPORTED,
                f"{remote}: {database} {schema.version} has no table {', '.join(sorted(missing))}",
            )
        session = Session(stream, Tables(schema))
        session.apply(await _begin_monitor(stream, database, schema, deadline))
        inbox.attach(session)
        echoes = asyncio.create_task(session.keep_alive(echo_period, deadline), name="ovsdb-echo")
        try:
            yield session
        finally:
            echoes.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await echoes
    finally:
        stream.close()


Query: TypeAlias = Mapping[str, object]
Select: TypeAlias = Callable[[Sequence[Query]], Awaitable[list[list[dict[str, object]]]]]


async def select(
    remote: Remote,
    database: str,
    queries: Sequence[Query],
    *,
    deadline: float,
) -> list[list[dict[str, object]]]:
    """Read rows once, over a connection of its own; see `selecting`.

    Returns:
        The rows of each query, values as they are sent.
    """
    async with selecting(remote, database, deadline=deadline) as read:
        return await read(queries)


@asynccontextmanager
async def selecting(
    remote: Remote, database: str, *, deadline: float, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Select]:
    """Read rows over one connection; yield a function that takes `table`, `where` and `columns`.

    Args:
        remote: of the server.
        database: such as `OVN_Southbound`.
        deadline: seconds for the connection and for each answer.
        tls: for an `ssl` remote.

    Raises:
        SwitchError: no connection, no answer, REFUSED, MALFORMED.
    """
    stream = await jsonrpc.connect(remote, deadline=deadline, tls=tls)

    async def read(queries: Sequence[Query]) -> list[list[dict[str, object]]]:
        operations = [{"op": "select", **query} for query in queries]
        answer = await stream.call("transact", [database, *operations], deadline=deadline)
        return _selected(f"{remote}: {database}", answer)

    try:
        yield read
    finally:
        stream.close()


def _selected(source: str, answer: jsonrpc.Json) -> list[list[dict[str, object]]]:
    try:
        results = msgspec.json.decode(answer, type=list[_Result | None])
    except msgspec.MsgspecError as exc:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{source}: the rows cannot be read: {exc}"
        ) from exc
    for result in results:
        if result and result.error:
            words = f"{result.error} {result.details}".strip()
            raise SwitchError(ProducerFault.REFUSED, f"{source}: {words}")
    return [result.rows if result else [] for result in results]


async def _schema(stream: jsonrpc.Stream, database: str, deadline: float) -> Schema:
    try:
        return parse_schema(await stream.call("get_schema", [database], deadline=deadline))
    except SwitchError as exc:
        if exc.fault is ProducerFault.REFUSED:
            raise SwitchError(ProducerFault.SCHEMA_UNSUPPORTED, str(exc)) from exc
        raise


async def _begin_monitor(
    stream: jsonrpc.Stream, database: str, schema: Schema, deadline: float
) -> _Updates:
    """Begin with the newest method that the server has, and return all rows."""
    wanted = {table: [{"columns": sorted(names)}] for table, names in schema.tables.items()}
    params: list[object] = [database, _MONITOR, wanted]
    refusal: SwitchError | None = None
    for method in ("monitor_cond_since", "monitor_cond", "monitor"):
        since = method == "monitor_cond_since"
        try:
            more = [_NO_TRANSACTION] if since else []
            answer = await stream.call(method, [*params, *more], deadline=deadline)
        except SwitchError as exc:
            if exc.fault is not ProducerFault.REFUSED:
                raise
            refusal = exc
            continue
        return _rows(answer, since=since)
    raise SwitchError(ProducerFault.MONITOR_FAILED, str(refusal))


def _rows(answer: jsonrpc.Json, *, since: bool) -> _Updates:
    try:
        if since:
            return msgspec.json.decode(answer, type=tuple[bool, str, _SentUpdates])[2]
        return msgspec.json.decode(answer, type=_SentUpdates)
    except msgspec.MsgspecError as exc:
        raise SwitchError(
            ProducerFault.MALFORMED, f"the monitored rows cannot be read: {exc}"
        ) from exc
