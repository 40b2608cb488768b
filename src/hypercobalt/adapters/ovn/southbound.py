"""Reads logical flows and ports of OVN's southbound database, for one trace at a time.

The server looks through a whole table for each query but one by UUID, on the one thread that serves
all chassis. So the rows of a trace are found in two rounds: UUIDs alone, of the switches and
routers that the packet passed, then the few rows that its cookies name, by UUID.

Source: ovn-sb(5); RFC 7047, section 5.2.2; OVN, controller/lflow.c: a flow's cookie is the first 32
bits of the UUID of the row that it comes from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.adapters.ovn.logical import (
    Explained,
    LogicalDatapath,
    LogicalFlow,
    LogicalPort,
    Wanted,
)
from hypercobalt.adapters.ovs.ovsdb import Query, Select
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.schema import Column

NAME: Final = "OVN_Southbound"
MOST_DATAPATHS: Final = 16
"""Switches and routers of one trace; further ones stay without names."""
MOST_GROUPS: Final = 32
"""Groups of datapaths, whose flows are kept together."""
MOST_COOKIES: Final = 512
_FLOW, _PORT = "Logical_Flow", "Port_Binding"
_MAP: Final = Column("string", is_map=True)
_SET: Final = Column("string", is_set=True)
_UUID: Final = Column("uuid")
_PREFIX: Final = 8  # digits of a UUID that are 32 bits
_COLUMNS: Final = {
    _FLOW: ("pipeline", "table_id", "priority", "match", "actions", "external_ids"),
    _PORT: ("logical_port",),
}
_OF_PORT: Final = ("logical_port", "datapath", "mac", "type", "options")
Row = Mapping[str, object]


async def explain(select: Select, wanted: Wanted) -> Explained:
    """Read what a trace has passed.

    Raises:
        SwitchError: see `ovsdb.selecting`; MALFORMED also for values of another form.
    """
    keys = sorted(wanted.datapaths)[:MOST_DATAPATHS]
    names = sorted(wanted.chassis)[:MOST_DATAPATHS]
    found = await select(
        [
            *(_query("Datapath_Binding", "tunnel_key", key, "external_ids") for key in keys),
            *(_query("Chassis", "name", name, "hostname") for name in names),
        ]
    )
    try:
        datapaths = {key: rows[0] for key, rows in zip(keys, found, strict=False) if rows}
        hosts = zip(names, found[len(keys) :], strict=True)
        rows = await _rows(select, [_uuid(row) for row in datapaths.values()], wanted.cookies)
        return Explained(
            flows={key: _flow(row) for key, (table, row) in rows.items() if table == _FLOW},
            ports={
                key: str(row["logical_port"])
                for key, (table, row) in rows.items()
                if table == _PORT
            },
            datapaths={key: _datapath(row) for key, row in datapaths.items()},
            hosts={name: str(row[0]["hostname"]) for name, row in hosts if row},
        )
    except (KeyError, ValueError, TypeError, IndexError) as exc:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{NAME}: a row cannot be read: {exc!r}"
        ) from exc


async def logical_port(select: Select, name: str) -> LogicalPort | None:
    """Read a logical port; None if there is none of this name.

    Raises:
        SwitchError: see `explain`.
    """
    found = await _ports(select, [_query(_PORT, "logical_port", name, *_OF_PORT)])
    return found[0] if found else None


async def gateways(select: Select, datapath: str) -> tuple[LogicalPort, ...]:
    """Read the routers' ports that a switch is connected to, by name.

    Raises:
        SwitchError: see `explain`.
    """
    where = [["datapath", "==", ["uuid", datapath]], ["type", "==", "patch"]]
    query = {"table": _PORT, "where": where, "columns": ["_uuid", *_OF_PORT]}
    patches = await _ports(select, [query])
    peers = sorted({one.peer for one in patches if one.peer})[:MOST_DATAPATHS]
    if not peers:
        return ()
    found = await _ports(select, [_query(_PORT, "logical_port", peer, *_OF_PORT) for peer in peers])
    return tuple(sorted(found, key=lambda one: one.name))


async def _ports(select: Select, queries: list[Query]) -> list[LogicalPort]:
    answers = await select(queries)
    try:
        return [_port(row) for rows in answers for row in rows]
    except (KeyError, ValueError, TypeError, IndexError) as exc:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{NAME}: a port cannot be read: {exc!r}"
        ) from exc


async def _rows(
    select: Select, datapaths: list[str], cookies: frozenset[int]
) -> dict[int, tuple[str, Row]]:
    """Rows by cookie, with their table."""
    if not datapaths or not cookies:
        return {}
    groups = await select(
        [_query("Logical_DP_Group", "datapaths", uuid, verb="includes") for uuid in datapaths]
    )
    of_groups = sorted({_uuid(row) for rows in groups for row in rows})[:MOST_GROUPS]
    sources = [
        *((_FLOW, "logical_datapath", uuid) for uuid in datapaths),
        *((_FLOW, "logical_dp_group", uuid) for uuid in of_groups),
        *((_PORT, "datapath", uuid) for uuid in datapaths),
    ]
    by_cookie: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for table, column, value in sources:
        # One by one: the rows of a large network are megabytes, and are soon forgotten.
        (rows,) = await select([_query(table, column, value)])
        for uuid in map(_uuid, rows):
            cookie = int(uuid[:_PREFIX], 16)
            if cookie in cookies:
                by_cookie[cookie].add((table, uuid))
    # A cookie that two rows share names neither.
    sure = {key: next(iter(one)) for key, one in by_cookie.items() if len(one) == 1}
    chosen = list(sure.items())[:MOST_COOKIES]
    details = await select(
        [_query(table, "_uuid", uuid, *_COLUMNS[table]) for _, (table, uuid) in chosen]
    )
    pairs = zip(chosen, details, strict=True)
    return {key: (table, rows[0]) for (key, (table, _)), rows in pairs if rows}


def _query(
    table: str, column: str, value: str | int, *columns: str, verb: str = "=="
) -> dict[str, object]:
    references = {"_uuid", "datapath", "datapaths", "logical_datapath", "logical_dp_group"}
    sent: object = ["uuid", value] if column in references else value
    return {"table": table, "where": [[column, verb, sent]], "columns": ["_uuid", *columns]}


def _uuid(row: Row) -> str:
    return str(_UUID.decode(row["_uuid"]))


def _texts(value: object) -> dict[str, str]:
    found = _MAP.decode(value)
    return {key: str(one) for key, one in found.items()} if isinstance(found, Mapping) else {}


def _flow(row: Row) -> LogicalFlow:
    ids = _texts(row["external_ids"])
    return LogicalFlow(
        ids.get("stage-name", ""),
        str(row["pipeline"]),
        int(str(row["table_id"])),
        int(str(row["priority"])),
        str(row["match"]),
        str(row["actions"]),
        ids.get("stage-hint", ""),
    )


def _datapath(row: Row) -> LogicalDatapath:
    ids = _texts(row["external_ids"])
    # Neutron calls a switch by its UUID, and keeps the name that a person gave beside it.
    return LogicalDatapath(ids.get("name2") or ids.get("name", ""), "logical-router" in ids)


def _port(row: Row) -> LogicalPort:
    addresses = _SET.decode(row["mac"])
    found: Iterable[object] = addresses if isinstance(addresses, frozenset) else ()
    return LogicalPort(
        str(row["logical_port"]),
        str(_UUID.decode(row["datapath"])),
        tuple(sorted(str(one) for one in found)),
        str(row["type"]),
        _texts(row["options"]).get("peer", ""),
    )
