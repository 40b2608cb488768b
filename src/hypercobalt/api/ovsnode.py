"""OVSNode: Open vSwitch and OVN on one host (`ovs.c5c3.io/v1alpha1`, namespaced).

The OVS agent of the host creates the object, under the name of its Node, and writes all of it.

Source: the CobaltCore documentation, 03-components/02-hypervisor.md and
04-architecture/01-crds.md; there is no public schema.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from hypercobalt.api.conditions import Condition
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.meta import ResourceInfo, Struct
from hypercobalt.api.schema import (
    Column,
    CustomObject,
    Definition,
    Field,
    Limits,
    Writer,
    condition_column,
)

_INT64 = Limits(minimum=0, format="int64")
_INT32 = Limits(minimum=0, format="int32")
_NAME = Limits(max_length=256)
_WORD = Limits(max_length=64)

MOST_ISSUES: Final = 50
MOST_BROKEN_TUNNELS: Final = 20
MOST_CONDITIONS: Final = 128


class OVSNodeConditionType(StrEnum):
    """Types of the conditions on an OVSNode."""

    READY = "Ready"
    OVSDB_CONNECTED = "OVSDBConnected"
    VSWITCHD_RESPONDING = "VswitchdResponding"
    OVN_CONTROLLER_CONNECTED = "OVNControllerConnected"
    ALL_BRIDGES_HEALTHY = "AllBridgesHealthy"
    ALL_BONDS_HEALTHY = "AllBondsHealthy"
    PORTS_HEALTHY = "PortsHealthy"
    FLOWS_IN_SYNC = "FlowsInSync"


class BridgeStatus(StrEnum):
    """Values of the status of a bridge or a bond."""

    ACTIVE = "Active"
    DEGRADED = "Degraded"
    DOWN = "Down"
    UNKNOWN = "Unknown"


class LinkStatus(StrEnum):
    """Values of the status of a physical interface."""

    UP = "Up"
    DOWN = "Down"
    UNKNOWN = "Unknown"


class IssueSeverity(StrEnum):
    """Values of the severity of an issue."""

    INFO = "Info"
    WARNING = "Warning"
    CRITICAL = "Critical"


class NodeReference(Struct, frozen=True):
    """A Kubernetes Node."""

    name: Annotated[str, Field("Name of the Node.", limits=Limits(min_length=1))]


class OVSNodeSpec(Struct, frozen=True):
    """Which host this is about."""

    nodeRef: Annotated[NodeReference, Field("The Node that the OVS agent runs on.")]


class Bridge(Struct, frozen=True):
    """One bridge of Open vSwitch."""

    name: Annotated[str, Field("Name of the bridge, such as `br-int`.", limits=_NAME)]
    ports: Annotated[int | None, Field("Number of ports; a bond counts once.", limits=_INT32)] = (
        None
    )
    flows: Annotated[int | None, Field("Number of OpenFlow flows.", limits=_INT64)] = None
    datapathType: Annotated[
        str | None,
        Field("Datapath: `system` is in the kernel, `netdev` in user space.", limits=_WORD),
    ] = None
    status: Annotated[
        str | None,
        Field(
            "Active, Degraded, Down or Unknown. Down: it does not run, does not exist although "
            "OVN's settings name it, or has no flows although instances are connected to it.",
            limits=_WORD,
        ),
    ] = None


class PhysicalInterface(Struct, frozen=True):
    """One network interface of the host that carries traffic of Open vSwitch."""

    name: Annotated[str, Field("Name of the interface.", limits=_NAME)]
    status: Annotated[str | None, Field("Up, Down or Unknown.", limits=_WORD)] = None
    speed: Annotated[str | None, Field("Speed of the link, as in `25Gbps`.", limits=_WORD)] = None
    bond: Annotated[str | None, Field("Name of the bond that it belongs to.", limits=_NAME)] = None


class Bond(Struct, frozen=True):
    """Several interfaces that act as one."""

    name: Annotated[str, Field("Name of the bond.", limits=_NAME)]
    mode: Annotated[str | None, Field("Bond mode, such as `balance-tcp`.", limits=_WORD)] = None
    status: Annotated[
        str | None,
        Field(
            "Active: all members carry traffic. Degraded: some do. Down: none does. "
            "Unknown: the switch does not answer.",
            limits=_WORD,
        ),
    ] = None
    members: Annotated[int | None, Field("Number of configured members.", limits=_INT32)] = None
    activeMembers: Annotated[
        int | None, Field("Number of members that can carry traffic.", limits=_INT32)
    ] = None


class Interfaces(Struct, frozen=True):
    """The links between the switch and the network around the host."""

    physical: Annotated[
        tuple[PhysicalInterface, ...], Field("Network interfaces of the host.", keys=("name",))
    ] = ()
    bonds: Annotated[
        tuple[Bond, ...], Field("Bonds, of Open vSwitch and of the kernel.", keys=("name",))
    ] = ()


class BridgeMapping(Struct, frozen=True):
    """A physical network of OVN and the bridge that leads to it."""

    network: Annotated[str, Field("Name of the physical network.", limits=_NAME)]
    bridge: Annotated[str, Field("Name of the bridge.", limits=_NAME)]


class Tunnels(Struct, frozen=True):
    """The tunnels to other chassis; an entry for each would grow with the fleet."""

    count: Annotated[int, Field("Number of tunnels.", limits=_INT32)]
    broken: Annotated[
        tuple[str, ...],
        Field(
            f"Addresses of the other ends of those that are down, {MOST_BROKEN_TUNNELS} at most.",
            limits=Limits(max_items=MOST_BROKEN_TUNNELS),
        ),
    ] = ()
    brokenTotal: Annotated[
        int | None,
        Field("Number of tunnels that are down, named in `broken` or not.", limits=_INT32),
    ] = None


class OVNController(Struct, frozen=True):
    """The ovn-controller of the host."""

    connected: Annotated[
        bool | None, Field("Whether it is connected, to the southbound database and the switch.")
    ] = None
    sbConnection: Annotated[
        str | None, Field("Southbound database, as in `tcp:10.0.0.10:6642`.")
    ] = None
    chassisId: Annotated[str | None, Field("Name of the host's chassis in OVN, a UUID.")] = None
    encapIP: Annotated[
        str | None, Field("Address of this end of tunnels; several have commas between them.")
    ] = None
    encapType: Annotated[
        str | None,
        Field("Encapsulation of tunnels, such as `geneve`; several have commas between them."),
    ] = None
    bridgeMappings: Annotated[
        tuple[BridgeMapping, ...],
        Field("Bridges of the physical networks.", keys=("network",)),
    ] = ()
    tunnels: Annotated[Tunnels | None, Field("Tunnels to other chassis.")] = None


class TableFlows(Struct, frozen=True):
    """The flows of one OpenFlow table."""

    table: Annotated[int, Field("Number of the table.", limits=_INT32)]
    flows: Annotated[int, Field("Number of flows, over all bridges.", limits=_INT64)]


class FlowStats(Struct, frozen=True):
    """The OpenFlow flows of the host."""

    totalFlows: Annotated[
        int | None, Field("Number of flows, over all bridges.", limits=_INT64)
    ] = None
    flowsPerTable: Annotated[
        tuple[TableFlows, ...], Field("The same by table; empty tables left out.", keys=("table",))
    ] = ()


class Metrics(Struct, frozen=True):
    """Counters since the start of the switch."""

    packetsReceived: Annotated[
        int | None, Field("Packets received, over the physical interfaces.", limits=_INT64)
    ] = None
    packetsSent: Annotated[
        int | None, Field("Packets sent, over the physical interfaces.", limits=_INT64)
    ] = None
    bytesReceived: Annotated[
        int | None, Field("Bytes received, over the physical interfaces.", limits=_INT64)
    ] = None
    bytesSent: Annotated[
        int | None, Field("Bytes sent, over the physical interfaces.", limits=_INT64)
    ] = None
    drops: Annotated[int | None, Field("Packets dropped, over all interfaces.", limits=_INT64)] = (
        None
    )
    errors: Annotated[
        int | None, Field("Packets with errors, over all interfaces.", limits=_INT64)
    ] = None


class Issue(Struct, frozen=True):
    """Something that a person should look at."""

    severity: Annotated[str, Field("Info, Warning or Critical.", limits=_WORD)]
    message: Annotated[str, Field("What is wrong, and where.")]
    detectedAt: Annotated[
        datetime | None, Field("When it was first seen; kept as long as it lasts.")
    ] = None
    code: Annotated[str | None, Field("What kind of issue it is, in CamelCase.", limits=_WORD)] = (
        None
    )
    object: Annotated[
        str | None,
        Field("What it is about: a daemon, bridge, bond or port, by its name.", limits=_NAME),
    ] = None


class OVSNodeStatus(Struct, frozen=True):
    """What the switch on the host is doing."""

    ovsVersion: Annotated[
        str | None, Field("Version of ovs-vswitchd, as it runs.", writer=Writer.OVS_AGENT)
    ] = None
    ovsdVersion: Annotated[
        str | None, Field("Version of ovsdb-server, as it runs.", writer=Writer.OVS_AGENT)
    ] = None
    dpdkEnabled: Annotated[
        bool | None, Field("Whether DPDK is initialised.", writer=Writer.OVS_AGENT)
    ] = None
    dpdkVersion: Annotated[
        str | None,
        Field(
            "Version of DPDK; absent if the switch was built without it.", writer=Writer.OVS_AGENT
        ),
    ] = None
    bridges: Annotated[
        tuple[Bridge, ...], Field("Bridges, by name.", keys=("name",), writer=Writer.OVS_AGENT)
    ] = ()
    interfaces: Annotated[
        Interfaces | None, Field("Uplinks and bonds.", writer=Writer.OVS_AGENT)
    ] = None
    ovnController: Annotated[
        OVNController | None, Field("State of ovn-controller.", writer=Writer.OVS_AGENT)
    ] = None
    flowStats: Annotated[
        FlowStats | None, Field("Number of OpenFlow flows.", writer=Writer.OVS_AGENT)
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            "State of each aspect of the switch.",
            # The policy of the agents compares each with each of those before.
            limits=Limits(max_items=MOST_CONDITIONS),
            keys=("type",),
            writer=Writer.BY_TYPE,
        ),
    ] = ()
    metrics: Annotated[Metrics | None, Field("Traffic counters.", writer=Writer.OVS_AGENT)] = None
    issues: Annotated[
        tuple[Issue, ...],
        Field(
            f"What a person should look at, worst first, {MOST_ISSUES} at most; empty when all is "
            "well.",
            limits=Limits(max_items=MOST_ISSUES),
            writer=Writer.OVS_AGENT,
        ),
    ] = ()
    issuesTotal: Annotated[
        int | None,
        Field(
            "Number of issues, those that `issues` has no room for included.",
            limits=_INT32,
            writer=Writer.OVS_AGENT,
        ),
    ] = None
    lastProbeTime: Annotated[
        datetime | None,
        Field(
            "When the counters were read; they are written with every change, else by a timer.",
            writer=Writer.OVS_AGENT,
        ),
    ] = None
    diagnostics: Annotated[
        DiagnosticsEndpoint | None,
        Field("Where the agent serves people; absent if it does not.", writer=Writer.OVS_AGENT),
    ] = None


class OVSNode(CustomObject, frozen=True, kw_only=True):
    resource: ClassVar[ResourceInfo] = ResourceInfo(
        "ovs.c5c3.io", "v1alpha1", "OVSNode", "ovsnodes", "Namespaced"
    )
    definition: ClassVar[Definition] = Definition(
        doc="OVSNode is Open vSwitch and OVN on one host. It has the name of its Node.",
        short_names=("ovs",),
        root_required=("spec",),
        columns=(
            condition_column("Ready", "Ready"),
            condition_column("OVSDB", "OVSDBConnected"),
            condition_column("OVN", "OVNControllerConnected"),
            condition_column("Bridges", "AllBridgesHealthy"),
            condition_column("Bonds", "AllBondsHealthy"),
            Column("Version", "string", ".status.ovsVersion"),
            Column("Flows", "integer", ".status.flowStats.totalFlows"),
            Column("Reported", "date", ".status.lastProbeTime"),
            Column("DPDK", "boolean", ".status.dpdkEnabled", 1),
            Column("Drops", "integer", ".status.metrics.drops", 1),
            Column("Errors", "integer", ".status.metrics.errors", 1),
            Column("Chassis", "string", ".status.ovnController.chassisId", 1),
            Column("Southbound", "string", ".status.ovnController.sbConnection", 1),
            Column("Age", "date", ".metadata.creationTimestamp"),
        ),
    )

    spec: Annotated[OVSNodeSpec, Field("Which host this is about.")]
    status: Annotated[OVSNodeStatus, Field("What the switch is doing.")] = OVSNodeStatus()
