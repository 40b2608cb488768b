"""Rows of Open_vSwitch as `rows.py` has them, out of the tables of a session.

A row is converted when it has changed, and a snapshot shares the others with the one before.

Source: ovs-vswitchd.conf.db(5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from hypercobalt.adapters.ovs.model import TlsFiles
from hypercobalt.adapters.ovs.ovsdb import Row, Tables
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.rows import (
    BridgeRow,
    Database,
    InterfaceRow,
    ManagerRow,
    MirrorRow,
    PortRow,
    SwitchRow,
)

NAME: Final = "Open_vSwitch"
WANTED: Final[Mapping[str, tuple[str, ...]]] = {
    "Open_vSwitch": (
        *("ovs_version", "dpdk_initialized", "dpdk_version", "cur_cfg", "next_cfg"),
        *("external_ids", "other_config"),
    ),
    "SSL": ("private_key", "certificate", "ca_cert"),
    "Bridge": (
        *("name", "ports", "datapath_type", "datapath_id", "protocols", "external_ids"),
        "mirrors",
    ),
    "Port": (
        *("name", "interfaces", "bond_mode", "lacp", "bond_active_slave", "tag"),
        "external_ids",
    ),
    "Interface": (
        *("name", "type", "ofport", "error", "admin_state", "link_state", "link_resets"),
        *("link_speed", "mtu", "ifindex", "mac_in_use", "lacp_current", "status", "bfd_status"),
        *("external_ids", "options"),
    ),
    "Mirror": (
        *("name", "select_all", "select_src_port", "select_dst_port", "output_port"),
        *("output_vlan", "external_ids"),
    ),
    "Manager": ("target", "is_connected"),
}
"""Without `statistics`: those change every 5 s, and are read when they are used. Without `status`
of Manager: it counts the seconds of its connection."""
_Typed = TypeVar("_Typed")


class _Kept(Generic[_Typed]):
    """The rows of one table, each converted again when it has changed.

    Args:
        table: its name.
        convert: makes a row of its UUID and its columns.
    """

    def __init__(self, table: str, convert: Callable[[str, Row], _Typed]) -> None:
        self._table, self._convert = table, convert
        self._rows: Mapping[str, _Typed] = MappingProxyType({})

    def renewed(self, tables: Tables, touched: Mapping[str, set[str]]) -> Mapping[str, _Typed]:
        """The rows now, by UUID; those of before if none was touched."""
        if uuids := touched.get(self._table):
            rows = tables.rows[self._table]
            kept = {uuid: row for uuid, row in self._rows.items() if uuid not in uuids}
            new = {uuid: self._convert(uuid, rows[uuid]) for uuid in sorted(uuids & rows.keys())}
            self._rows = MappingProxyType(kept | new)
        return self._rows


class Snapshots:
    """Makes snapshots of the tables.

    Args:
        tables: of a session.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._bridges = _Kept("Bridge", _bridge)
        self._ports = _Kept("Port", _port)
        self._interfaces = _Kept("Interface", _interface)
        self._mirrors = _Kept("Mirror", _mirror)
        self._managers = _Kept("Manager", _manager)

    def take(self) -> Database:
        """The database now.

        Raises:
            SwitchError: MALFORMED, for a value that is none of its column.
        """
        tables = self._tables
        touched, tables.touched = tables.touched, {}
        switches = tables.rows.get("Open_vSwitch", {})
        tls = next((_tls(row) for row in tables.rows.get("SSL", {}).values()), None)
        return Database(
            tables.schema.version,
            next((_switch(row, tls) for row in switches.values()), SwitchRow(tls=tls)),
            bridges=self._bridges.renewed(tables, touched),
            ports=self._ports.renewed(tables, touched),
            interfaces=self._interfaces.renewed(tables, touched),
            mirrors=self._mirrors.renewed(tables, touched),
            managers=self._managers.renewed(tables, touched),
        )


def _tls(row: Row) -> TlsFiles:
    key, certificate = _text(row, "private_key"), _text(row, "certificate")
    return TlsFiles(key or "", certificate or "", _text(row, "ca_cert") or "")


def _switch(row: Row, tls: TlsFiles | None) -> SwitchRow:
    return SwitchRow(
        ovs_version=_text(row, "ovs_version") or "",
        dpdk_initialized=_flag(row, "dpdk_initialized") or False,
        dpdk_version=_text(row, "dpdk_version"),
        cur_cfg=_number(row, "cur_cfg") or 0,
        next_cfg=_number(row, "next_cfg") or 0,
        external_ids=_texts(row, "external_ids"),
        other_config=_texts(row, "other_config"),
        tls=tls,
    )


def _bridge(uuid: str, row: Row) -> BridgeRow:
    return BridgeRow(
        uuid=uuid,
        name=_text(row, "name") or "",
        ports=_set(row, "ports"),
        datapath_type=_text(row, "datapath_type") or "",
        datapath_id=_text(row, "datapath_id"),
        protocols=_set(row, "protocols"),
        external_ids=_texts(row, "external_ids"),
        mirrors=_set(row, "mirrors"),
    )


def _port(uuid: str, row: Row) -> PortRow:
    return PortRow(
        uuid=uuid,
        name=_text(row, "name") or "",
        interfaces=_set(row, "interfaces"),
        bond_mode=_text(row, "bond_mode"),
        lacp=_text(row, "lacp"),
        bond_active_slave=_text(row, "bond_active_slave"),
        tag=_number(row, "tag"),
        external_ids=_texts(row, "external_ids"),
    )


def _interface(uuid: str, row: Row) -> InterfaceRow:
    return InterfaceRow(
        uuid=uuid,
        name=_text(row, "name") or "",
        type=_text(row, "type") or "",
        ofport=_number(row, "ofport"),
        error=_text(row, "error"),
        admin_up=_up(row, "admin_state"),
        link_up=_up(row, "link_state"),
        link_resets=_number(row, "link_resets"),
        link_speed=_number(row, "link_speed"),
        mtu=_number(row, "mtu"),
        ifindex=_number(row, "ifindex"),
        mac_in_use=_text(row, "mac_in_use"),
        lacp_current=_flag(row, "lacp_current"),
        status=_texts(row, "status"),
        bfd_status=_texts(row, "bfd_status"),
        external_ids=_texts(row, "external_ids"),
        options=_texts(row, "options"),
    )


def _mirror(uuid: str, row: Row) -> MirrorRow:
    return MirrorRow(
        uuid=uuid,
        name=_text(row, "name") or "",
        select_all=_flag(row, "select_all") or False,
        select_src_port=_set(row, "select_src_port"),
        select_dst_port=_set(row, "select_dst_port"),
        output_port=_text(row, "output_port"),
        output_vlan=_number(row, "output_vlan"),
        external_ids=_texts(row, "external_ids"),
    )


def _manager(uuid: str, row: Row) -> ManagerRow:
    return ManagerRow(
        uuid=uuid,
        target=_text(row, "target") or "",
        is_connected=_flag(row, "is_connected") or False,
    )


def _text(row: Row, column: str) -> str | None:
    value = row.get(column)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(row, column)


def _number(row: Row, column: str) -> int | None:
    value = row.get(column)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _wrong(row, column)


def _flag(row: Row, column: str) -> bool | None:
    value = row.get(column)
    if value is None or isinstance(value, bool):
        return value
    raise _wrong(row, column)


def _up(row: Row, column: str) -> bool | None:
    value = _text(row, column)
    return None if value is None else value == "up"


def _set(row: Row, column: str) -> tuple[str, ...]:
    value = row.get(column, frozenset())
    if isinstance(value, str):
        return (value,)
    if isinstance(value, frozenset):
        return tuple(sorted(str(one) for one in value))
    raise _wrong(row, column)


def _texts(row: Row, column: str) -> Mapping[str, str]:
    value = row.get(column, {})
    if isinstance(value, Mapping):
        return {key: str(one) for key, one in value.items()}
    raise _wrong(row, column)


def _wrong(row: Row, column: str) -> SwitchError:
    return SwitchError(
        ProducerFault.MALFORMED,
        f"{NAME}: {row.get('name', 'a row')}: {column} is {row.get(column)!r}",
    )
