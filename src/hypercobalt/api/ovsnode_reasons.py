"""Reasons of an OVSNode's conditions and codes of its issues: closed sets, for programs.

A code is the reason of the condition that it makes False, except that codes of single ports come
together under a few reasons.

Source: ovs-vswitchd.conf.db(5) and ovn-controller(8) for what each names.
"""

from __future__ import annotations

from enum import StrEnum


class OVSDBReason(StrEnum):
    """Reasons of `OVSDBConnected`."""

    CONNECTED = "Connected"
    STARTING = "Starting"
    SOCKET_MISSING = "SocketMissing"
    CONNECTION_REFUSED = "ConnectionRefused"
    NOT_PERMITTED = "NotPermitted"
    ECHO_TIMEOUT = "EchoTimeout"
    SCHEMA_UNSUPPORTED = "SchemaUnsupported"
    MONITOR_FAILED = "MonitorFailed"


class VswitchdReason(StrEnum):
    """Reasons of `VswitchdResponding`."""

    RESPONDING = "Responding"
    STARTING = "Starting"
    SOCKET_MISSING = "SocketMissing"
    CONNECTION_REFUSED = "ConnectionRefused"
    NOT_PERMITTED = "NotPermitted"
    TIMEOUT = "Timeout"
    CONFIG_LAG = "ConfigLag"


class ControllerReason(StrEnum):
    """Reasons of `OVNControllerConnected`."""

    CONNECTED = "Connected"
    NOT_USED = "NotUsed"
    STARTING = "Starting"
    NOT_CONFIGURED = "NotConfigured"
    NOT_RUNNING = "NotRunning"
    UNRESPONSIVE = "Unresponsive"
    PAUSED = "Paused"
    SB_DISCONNECTED = "SBDisconnected"
    SB_STALE = "SBStale"
    SB_NOT_PROBED = "SBNotProbed"
    OPENFLOW_DISCONNECTED = "OpenFlowDisconnected"
    CHASSIS_MISMATCH = "ChassisMismatch"


class BridgesReason(StrEnum):
    """Reasons of `AllBridgesHealthy`, besides the codes of issues."""

    ALL_ACTIVE = "AllBridgesActive"


class BondsReason(StrEnum):
    """Reasons of `AllBondsHealthy`, besides the codes of issues."""

    ALL_ACTIVE = "AllMembersActive"
    NO_BONDS = "NoBonds"


class PortsReason(StrEnum):
    """Reasons of `PortsHealthy`."""

    NO_ISSUES = "NoIssues"
    ORPHAN_PORTS = "OrphanPorts"
    PORT_ERRORS = "PortErrors"
    PORTS_NOT_INSTALLED = "PortsNotInstalled"
    DUPLICATE_IFACE_ID = "DuplicateIfaceID"
    SILENTLY_DEAD = "SilentlyDead"
    INSTANCES_CUT_OFF = "InstancesCutOff"


class FlowsReason(StrEnum):
    """Reasons of `FlowsInSync`."""

    IN_SYNC = "InSync"
    LAGGING = "FlowsLagging"
    STALE = "StaleFlows"
    FOREIGN = "ForeignFlows"
    FROZEN = "FlowsFrozen"
    NOT_MEASURABLE = "NotMeasurable"


class OVSReadyReason(StrEnum):
    """Reasons of `Ready`, besides the type of the first condition that fails."""

    ALL_PASSED = "AllChecksPassed"
    STALE = "Stale"
    AGENT_SILENT = "AgentSilent"


class UnknownReason(StrEnum):
    """Reasons of any condition that is Unknown because a producer of its values is away."""

    STARTING = "Starting"
    OVSDB_UNAVAILABLE = "OVSDBUnavailable"
    VSWITCHD_UNAVAILABLE = "VswitchdUnavailable"
    NOT_READABLE = "NotReadable"


class IssueCode(StrEnum):
    """Codes of issues."""

    OVSDB_DISCONNECTED = "OVSDBDisconnected"
    VSWITCHD_NOT_RESPONDING = "VswitchdNotResponding"
    CONFIG_LAG = "ConfigLag"
    VERSION_SKEW = "VersionSkew"
    MANAGER_DISCONNECTED = "ManagerDisconnected"
    # ovn-controller
    NOT_CONFIGURED = "NotConfigured"
    NOT_RUNNING = "NotRunning"
    UNRESPONSIVE = "Unresponsive"
    PAUSED = "Paused"
    SB_DISCONNECTED = "SBDisconnected"
    SB_STALE = "SBStale"
    OPENFLOW_DISCONNECTED = "OpenFlowDisconnected"
    CHASSIS_MISMATCH = "ChassisMismatch"
    TUNNEL_DOWN = "TunnelDown"
    # bridges
    BRIDGE_MISSING = "BridgeMissing"
    BRIDGE_DOWN = "BridgeDown"
    DATAPATH_MISMATCH = "DatapathMismatch"
    PATCH_PEER_MISSING = "PatchPeerMissing"
    MIRROR_LEFT_OVER = "MirrorLeftOver"
    NO_FLOWS = "NoFlows"
    # bonds
    BOND_DOWN = "BondDown"
    LACP_NOT_NEGOTIATED = "LACPNotNegotiated"
    MEMBER_MISSING = "MemberMissing"
    MEMBER_DOWN = "MemberDown"
    # ports
    INSTANCE_PORT_MISSING = "InstancePortMissing"
    INSTANCE_DEVICE_LOST = "InstanceDeviceLost"
    ORPHAN_PORT_NO_DEVICE = "OrphanPortNoDevice"
    ORPHAN_PORT_NO_BINDING = "OrphanPortNoBinding"
    ORPHAN_PORT_NO_DOMAIN = "OrphanPortNoDomain"
    PORT_NOT_INSTALLED = "PortNotInstalled"
    DUPLICATE_IFACE_ID = "DuplicateIfaceID"
    PORT_SILENTLY_DEAD = "PortSilentlyDead"
    PORT_ERROR = "PortError"
    PORT_PENDING = "PortPending"
    # flows
    FLOWS_LAGGING = "FlowsLagging"
    FLOWS_FROZEN = "FlowsFrozen"
    STALE_FLOW_IN_PORT = "StaleFlowInPort"
    STALE_FLOW_OUTPUT = "StaleFlowOutput"
    STALE_FLOW_COOKIE = "StaleFlowCookie"
    FOREIGN_FLOW = "ForeignFlow"
