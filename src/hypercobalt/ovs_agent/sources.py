"""Rows of the database that a probe depends on: the probe runs once they change. Pure."""

from __future__ import annotations

from hypercobalt.adapters.ovs.rows import Database


def bridges(database: Database) -> object:
    return {
        one.name: (one.datapath_id, one.datapath_type, one.protocols)
        for one in database.bridges.values()
    }


def bond_members(database: Database) -> object:
    """What a change of may have changed a bond's state."""
    members = {
        uuid: (port.name, port.lacp, port.bond_mode, port.bond_active_slave)
        for port in database.ports.values()
        if len(port.interfaces) > 1
        for uuid in port.interfaces
    }
    rows = ((members[uuid], database.interfaces.get(uuid)) for uuid in members)
    return [
        (port, row and (row.ofport, row.link_up, row.admin_up, row.lacp_current))
        for port, row in rows
    ]


def devices(database: Database) -> object:
    return {
        one.name: (one.ofport, one.ifindex, one.admin_up, one.link_up)
        for one in database.interfaces.values()
    }


def installed(database: Database) -> object:
    return {
        uuid: (one.external_ids.get("iface-id"), one.external_ids.get("ovn-installed"))
        for uuid, one in database.interfaces.items()
    }


def ovn(database: Database) -> object:
    ids = database.switch.external_ids
    return database.switch.tls, {
        key: ids[key] for key in ids if key.startswith(("ovn-", "system-"))
    }
