"""Rows of the database Open_vSwitch, one frozen class a table, with the columns that are read.

An optional column that is empty is None; text that is empty is "". ovsdb-server keeps rows when
ovs-vswitchd is dead, and empties the ephemeral columns when it starts itself.

Source: ovs-vswitchd.conf.db(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypercobalt.adapters.ovs.model import TlsFiles


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """The one row of Open_vSwitch.

    Args:
        ovs_version: what the start script has written; empty when it did not start the daemon.
        dpdk_initialized: whether DPDK runs.
        dpdk_version: as `DPDK 23.11.1`; `none` when built without.
        cur_cfg: configuration that ovs-vswitchd has put into effect; kept when it dies.
        next_cfg: configuration that clients wait for.
        external_ids: `system-id`, `ovn-remote`, `ovn-encap-ip`, `ovn-bridge-mappings` …
        other_config: `hw-offload`, `tc-policy` …
        tls: the row of SSL, which ovn-controller uses too; None without one.
    """

    ovs_version: str = ""
    dpdk_initialized: bool = False
    dpdk_version: str | None = None
    cur_cfg: int = 0
    next_cfg: int = 0
    external_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    other_config: Mapping[str, str] = field(default_factory=dict[str, str])
    tls: TlsFiles | None = None


@dataclass(frozen=True, slots=True)
class BridgeRow:
    """A row of Bridge.

    Args:
        uuid: of the row.
        name: of the bridge.
        ports: UUIDs of Port rows.
        datapath_type: as configured; empty means `system`.
        datapath_id: 16 hex digits, None until ovs-vswitchd has made the bridge; ephemeral.
        protocols: OpenFlow versions that are allowed, as `OpenFlow13`; empty for the default.
        external_ids: on the integration bridge `ovn-nb-cfg`, `ovn-nb-cfg-ts`, `ovn-startup-ts` …
        mirrors: UUIDs of Mirror rows.
    """

    uuid: str
    name: str
    ports: tuple[str, ...] = ()
    datapath_type: str = ""
    datapath_id: str | None = None
    protocols: tuple[str, ...] = ()
    external_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    mirrors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PortRow:
    """A row of Port; one with several interfaces is a bond.

    Args:
        uuid: of the row.
        name: of the port.
        interfaces: UUIDs of Interface rows: the configured members.
        bond_mode: None for the default, `active-backup`.
        lacp: `active`, `passive`, `off`, or None for the default, `off`.
        bond_active_slave: MAC address of the member that carries; kept when ovs-vswitchd dies.
        tag: VLAN of an access port.
        external_ids: of the port.
    """

    uuid: str
    name: str
    interfaces: tuple[str, ...] = ()
    bond_mode: str | None = None
    lacp: str | None = None
    bond_active_slave: str | None = None
    tag: int | None = None
    external_ids: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """A row of Interface, without its counters.

    Args:
        uuid: of the row.
        name: of the interface.
        type: `""` or `system`, `internal`, `tap`, `patch`, `geneve`, `dpdk` …
        ofport: number of the port; -1 when it could not be made, None when ovs-vswitchd has not
            processed the row. Kept when ovs-vswitchd dies, and assigned again when it starts.
        error: why the port could not be made; None or "" for no error.
        admin_up: `admin_state`; ephemeral, as are all below but the last three.
        link_up: `link_state`.
        link_resets: how often the link has changed.
        link_speed: bit/s; stays while the link is down.
        mtu: bytes.
        ifindex: of the kernel; 0 when the device is gone.
        mac_in_use: MAC address.
        lacp_current: whether LACP has fresh information of the partner.
        status: `driver_name`, `tunnel_egress_iface` …
        bfd_status: `state`, `diagnostic` …; empty without BFD.
        external_ids: `iface-id`, `vm-uuid` or `vm-id`, `attached-mac`, `ovn-installed` …
        options: of a tunnel `remote_ip`, of a patch `peer` …
    """

    uuid: str
    name: str
    type: str = ""
    ofport: int | None = None
    error: str | None = None
    admin_up: bool | None = None
    link_up: bool | None = None
    link_resets: int | None = None
    link_speed: int | None = None
    mtu: int | None = None
    ifindex: int | None = None
    mac_in_use: str | None = None
    lacp_current: bool | None = None
    status: Mapping[str, str] = field(default_factory=dict[str, str])
    bfd_status: Mapping[str, str] = field(default_factory=dict[str, str])
    external_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def instance(self) -> str:
        """UUID of the instance that the interface belongs to; "" if nothing names one.

        Nova's os-vif writes it as `vm-uuid` when it plugs the port. libvirt writes it as `vm-id`
        when it plugs the port itself, for `<virtualport type='openvswitch'/>`. Other tools use
        `vm-id` for names of their own.

        Source: os-vif, vif_plug_ovs/ovsdb/ovsdb_lib.py; libvirt, src/util/virnetdevopenvswitch.c.
        """
        return self.external_ids.get("vm-uuid", "") or self.external_ids.get("vm-id", "")


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """A row of Mirror; ports that are removed vanish from it, and it stays.

    Args:
        uuid: of the row.
        name: of the mirror; several may have one.
        select_all: whether the packets of all ports of the bridge are copied.
        select_src_port: UUIDs of ports whose packets are copied as they come in.
        select_dst_port: UUIDs of ports whose packets are copied as they go out.
        output_port: UUID of the port that the copies go to; None without one.
        output_vlan: VLAN that the copies go to; None without one.
        external_ids: of the mirror.
    """

    uuid: str
    name: str
    select_all: bool = False
    select_src_port: tuple[str, ...] = ()
    select_dst_port: tuple[str, ...] = ()
    output_port: str | None = None
    output_vlan: int | None = None
    external_ids: Mapping[str, str] = field(default_factory=dict[str, str])

    def selects(self, port: str) -> bool:
        """Whether packets of a port of its bridge are copied, by the UUID of the port."""
        return self.select_all or port in self.select_src_port or port in self.select_dst_port


@dataclass(frozen=True, slots=True)
class ManagerRow:
    """A row of Manager: a remote of ovsdb-server; ovsdb-server itself writes its state.

    Args:
        uuid: of the row.
        target: `ssl:HOST:PORT` or `tcp:HOST:PORT`, which ovsdb-server connects to, or `pssl:`,
            `ptcp:` or `punix:`, where it listens.
        is_connected: whether there is a connection; ephemeral. One that listens has none while
            no client connects.
    """

    uuid: str
    target: str
    is_connected: bool = False


@dataclass(frozen=True, slots=True)
class Database:
    """Open_vSwitch's database at one moment.

    Args:
        schema_version: as `8.3.1`.
        switch: the one row of Open_vSwitch.
        bridges: by UUID.
        ports: by UUID.
        interfaces: by UUID.
        mirrors: by UUID.
        managers: by UUID; only those of `manager_options` exist.
    """

    schema_version: str
    switch: SwitchRow
    bridges: Mapping[str, BridgeRow] = field(default_factory=dict[str, BridgeRow])
    ports: Mapping[str, PortRow] = field(default_factory=dict[str, PortRow])
    interfaces: Mapping[str, InterfaceRow] = field(default_factory=dict[str, InterfaceRow])
    mirrors: Mapping[str, MirrorRow] = field(default_factory=dict[str, MirrorRow])
    managers: Mapping[str, ManagerRow] = field(default_factory=dict[str, ManagerRow])

    @property
    def is_filled(self) -> bool:
        """Whether ovs-vswitchd has filled the ephemeral columns since ovsdb-server started.

        They are empty for up to 9 s after ovsdb-server alone has restarted, while `ofport` stays.
        """
        made = [one for one in self.interfaces.values() if (one.ofport or 0) > 0]
        return not made or any(one.link_up is not None for one in made)
