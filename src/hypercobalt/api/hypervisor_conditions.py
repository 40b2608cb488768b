"""Types and reasons of the conditions on a Hypervisor.

Source: openstack-hypervisor-operator, api/v1/hypervisor_types.go.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from hypercobalt.api.transitions import Transitions


class HypervisorConditionType(StrEnum):
    """Types of the conditions on a Hypervisor."""

    ONBOARDING = "Onboarding"
    READY = "Ready"
    TERMINATING = "Terminating"
    TAINTED = "Tainted"
    TRAITS_UPDATED = "TraitsUpdated"
    AGGREGATES_UPDATED = "AggregatesUpdated"
    AGENT_PODS_EVICTED = "AgentPodsEvicted"
    HYPERVISOR_DISABLED = "HypervisorDisabled"
    HYPERVISOR_RE_ENABLED = "HypervisorReEnabled"  # declared by upstream, never set
    EVICTING = "Evicting"
    INCOMING_MIGRATIONS_SETTLED = "IncomingMigrationsSettled"
    OFFBOARDED = "Offboarded"
    HA_ENABLED = "HaEnabled"
    LIBVIRT_CONNECTION = "LibVirtConnection"
    LIBVIRTD_SERVICE = "libvirtd.service"
    OPENVSWITCH_SERVICE = "openvswitch-switch.service"
    OPERATING_SYSTEM_UPDATE = "OperatingSystemUpdate"
    TLS_CERTIFICATE_INSTALLED = "TLSCertificateInstalled"
    NODE_HEALTHY = "NodeHealthy"  # ours
    ACCEPTS_NEW_INSTANCES = "AcceptsNewInstances"  # ours
    REGISTERED = "Registered"  # ours
    COMPUTE_SERVICE_UP = "ComputeServiceUp"  # ours
    SPEC_FROZEN = "SpecFrozen"  # ours
    IDENTITY_ACCEPTED = "IdentityAccepted"  # ours
    AGENT_REPORTING = "AgentReporting"  # ours
    HA_CONFIG_VALID = "HaConfigValid"  # ours
    AUTOSTART_OFF = "AutostartOff"  # ours
    FENCED = "Fenced"  # ours
    RECOVERY_BLOCKED = "RecoveryBlocked"  # ours
    NETWORK_HEALTHY = "NetworkHealthy"  # ours
    FENCE_DEVICES_PROVEN = "FenceDevicesProven"  # ours
    DEFINITIONS_STORED = "DefinitionsStored"  # ours
    OPERATOR_REPORTING = "OperatorReporting"  # ours


NODE_AGENT_TYPES: Final = (
    HypervisorConditionType.LIBVIRT_CONNECTION,  # Unknown by the operator while the agent is silent
    HypervisorConditionType.HA_CONFIG_VALID,
    HypervisorConditionType.AUTOSTART_OFF,
    HypervisorConditionType.OPERATING_SYSTEM_UPDATE,
    HypervisorConditionType.TLS_CERTIFICATE_INSTALLED,
    HypervisorConditionType.DEFINITIONS_STORED,
    HypervisorConditionType.OPERATOR_REPORTING,
)
"""Types that the node agent writes, besides those of units; every other one is the operator's, or
that of an HA service."""

UNIT_TYPE: Final = (
    "^[A-Za-z0-9][-A-Za-z0-9_.]*[.]"
    "(service|socket|target|mount|automount|swap|timer|path|slice|scope|device)$"
)
"""What a type that is a systemd unit's looks like. No other type ends like that."""

OPERATOR_TYPES: Final = frozenset(
    type_
    for type_ in HypervisorConditionType
    if type_ not in NODE_AGENT_TYPES
    and type_
    not in {HypervisorConditionType.HA_ENABLED, HypervisorConditionType.HYPERVISOR_RE_ENABLED}
    and not re.search(UNIT_TYPE, type_)
)
"""Types that the operator writes; `HaEnabled` apart, never over another writer's."""

MOST_UNITS: Final = 32
"""Units with a condition; more would leave no room for the operator's conditions."""


class OnboardingReason(StrEnum):
    """Reasons of `Onboarding`."""

    INITIAL = "Initial"
    TESTING = "Testing"
    HANDOVER = "Handover"
    ABORTED = "Aborted"
    SUCCEEDED = "Succeeded"


ONBOARDING_STAGES: Final = Transitions(
    "reason of Onboarding on a Hypervisor",
    first=(OnboardingReason.INITIAL, OnboardingReason.HANDOVER, OnboardingReason.ABORTED),
    after={
        OnboardingReason.INITIAL: (
            OnboardingReason.TESTING,
            OnboardingReason.HANDOVER,
            OnboardingReason.ABORTED,
        ),
        OnboardingReason.TESTING: (OnboardingReason.HANDOVER, OnboardingReason.ABORTED),
        OnboardingReason.HANDOVER: (OnboardingReason.SUCCEEDED, OnboardingReason.ABORTED),
        OnboardingReason.SUCCEEDED: (OnboardingReason.ABORTED,),
        OnboardingReason.ABORTED: (OnboardingReason.INITIAL, OnboardingReason.HANDOVER),
    },
)
"""A host that has servers goes to Handover at once; an aborted onboarding begins again."""


class ReadyReason(StrEnum):
    """Reasons of `Ready`: the state of the host as one value."""

    READY = "Ready"
    OFFBOARDED = "Offboarded"
    TERMINATING = "Terminating"
    ONBOARDING = "Onboarding"
    EVICTING = "Evicting"
    EVICTED = "Evicted"
    MAINTENANCE = "Maintenance"
    CLAIMED = "Claimed"  # ours, as all below
    AGENT_SILENT = "AgentSilent"
    NODE_UNREACHABLE = "NodeUnreachable"
    NODE_NOT_READY = "NodeNotReady"
    LIBVIRT_UNAVAILABLE = "LibvirtUnavailable"


class AgentReportingReason(StrEnum):
    """Reasons of `AgentReporting`."""

    REPORTING = "Reporting"
    AGENT_SILENT = "AgentSilent"  # its Lease ran out
    AGENT_STOPPED = "AgentStopped"  # its Lease was released
    NEVER_REPORTED = "NeverReported"  # no Lease was ever seen


class TaintedReason(StrEnum):
    """Reasons of `Tainted`: whether the object is edited by hand."""

    KUBECTL = "Kubectl"
    NO_KUBECTL = "NoKubectl"


class SyncReason(StrEnum):
    """Reasons of `TraitsUpdated` and `Evicting`."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class IncomingReason(StrEnum):
    """Reasons of `IncomingMigrationsSettled`, which is there during a maintenance.

    Upstream also has `Aborting`: here moves to the host go on, and what they bring leaves again.
    """

    SETTLED = "Settled"
    WAITING = "Waiting"
    NOT_READ = "NotRead"  # ours: the compute service does not list them


class DisabledReason(StrEnum):
    """Reasons of `HypervisorDisabled`."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    BY_OTHERS = "DisabledByOthers"  # ours: it is left to them


class AggregatesReason(StrEnum):
    """Reasons of `AggregatesUpdated`."""

    SUCCEEDED = "Succeeded"
    TEST_AGGREGATES = "TestAggregates"
    WAITING_FOR_TRAITS = "WaitingForTraits"
    EVICTION_IN_PROGRESS = "EvictionInProgress"
    TERMINATING = "Terminating"
    FAILED = "Failed"


class AgentPodsReason(StrEnum):
    """Reasons of `AgentPodsEvicted`."""

    NO_AGENT_PODS = "NoAgentPods"
    AGENT_PODS_RUNNING = "AgentPodsRunning"
    NOT_OFFBOARDING = "NotOffboarding"  # ours: the host stays after all
    NOT_READ = "NotRead"  # ours: the pods cannot be listed


class OffboardedReason(StrEnum):
    """Reasons of `Offboarded`."""

    OFFBOARDING = "Offboarding"
    OFFBOARDED = "Offboarded"


class TerminatingReason(StrEnum):
    """Reasons of `Terminating`."""

    TERMINATING = "Terminating"
    NOT_TERMINATING = "NotTerminating"  # ours: the Node stays after all


class NodeHealthyReason(StrEnum):
    """Reasons of `NodeHealthy`."""

    HEALTHY = "Healthy"
    NOT_READY = "NotReady"
    UNREACHABLE = "Unreachable"
    DISK_PRESSURE = "DiskPressure"
    MEMORY_PRESSURE = "MemoryPressure"
    NOT_REPORTED = "NotReported"


class AcceptsReason(StrEnum):
    """Reasons of `AcceptsNewInstances`."""

    NODE_HEALTHY = "NodeHealthy"
    NODE_UNHEALTHY = "NodeUnhealthy"
    NETWORK_BROKEN = "NetworkBroken"
    MEMORY_FAILED = "MemoryFailed"


class NetworkHealthyReason(StrEnum):
    """Reasons of `NetworkHealthy`: what the host's OVSNode shows of its switch."""

    HEALTHY = "Healthy"
    BRIDGE_DOWN = "BridgeDown"  # the integration bridge
    SWITCH_NOT_RESPONDING = "SwitchNotResponding"
    OVN_DISCONNECTED = "OVNDisconnected"  # from the southbound database, which all hosts share
    OVN_CONTROLLER_FAILED = "OVNControllerFailed"
    DEGRADED = "Degraded"
    AGENT_SILENT = "AgentSilent"
    NOT_REPORTED = "NotReported"


NETWORK_BROKEN: Final = frozenset(
    {NetworkHealthyReason.BRIDGE_DOWN, NetworkHealthyReason.SWITCH_NOT_RESPONDING}
)
"""Reasons of `NetworkHealthy` False that close a host: no port can be added to its switch."""

PORTS_UNBOUND: Final = frozenset(
    {NetworkHealthyReason.OVN_DISCONNECTED, NetworkHealthyReason.OVN_CONTROLLER_FAILED}
)
"""Reasons of `NetworkHealthy` False though the switch works: OVN binds no port meanwhile."""


class SpecFrozenReason(StrEnum):
    """Reasons of `SpecFrozen`."""

    NODE_DIFFERS = "NodeDiffers"
    IN_STEP = "InStep"


class IdentityReason(StrEnum):
    """Reasons of `IdentityAccepted`."""

    ACCEPTED = "Accepted"
    ADDRESS_CLAIMED = "AddressClaimed"
    UUID_CLAIMED = "HostUUIDClaimed"


class RegisteredReason(StrEnum):
    """Reasons of `Registered`."""

    REGISTERED = "Registered"
    NOT_REGISTERED = "NotRegistered"
    CLAIMED = "Claimed"  # by another Hypervisor
    UNREACHABLE = "Unreachable"  # the compute service does not answer
    FAILED = "Failed"


class ComputeServiceReason(StrEnum):
    """Reasons of `ComputeServiceUp`."""

    UP = "Up"
    DOWN = "Down"  # it has not reported for longer than the compute service waits
    FORCED_DOWN = "ForcedDown"  # declared down: by the HA service, or a person
    NOT_READ = "NotRead"


class HaEnabledReason(StrEnum):
    """Reasons of `HaEnabled`."""

    SUCCEEDED = "Succeeded"
    EVICTED = "Evicted"
    ONBOARDING = "Onboarding"
    FAILED = "Failed"
    AGENT_SILENT = "AgentSilent"  # ours


class HaConfigReason(StrEnum):
    """Reasons of `HaConfigValid`."""

    VALID = "Valid"
    DEFAULTS = "Defaults"  # there is no ConfigMap
    INVALID = "Invalid"  # the last valid one counts
    NONE_VALID = "NoneValid"  # and no valid one is known: nothing is recovered
    NOT_READ = "NotRead"  # since the agent started: nothing is recovered


class AutostartReason(StrEnum):
    """Reasons of `AutostartOff`."""

    NOT_ENABLED = "NotEnabled"
    LIBVIRT_GUESTS = "LibvirtGuestsEnabled"
    SYSTEMD_UNREACHABLE = "SystemdUnreachable"


class FencedReason(StrEnum):
    """Reasons of `Fenced`."""

    PROVEN = "Proven"
    ATTEMPTING = "Attempting"
    FAILED = "Failed"
    REFUSED = "Refused"  # failed, and a person has to correct the cause
    RETURNING = "Returning"  # it was proven dead, and reports another boot
    RELEASED = "Released"


class FenceDevicesReason(StrEnum):
    """Reasons of `FenceDevicesProven`."""

    PROVEN = "Proven"
    NOT_PROVEN = "NotProven"  # not yet, and the document requires it
    UNVERIFIED = "Unverified"  # a device does not tell, and the document allows that
    OTHER_HOST = "OtherHost"  # the device reports the UUID of another system
    SHARED = "Shared"  # with another host
    NOT_SET_UP = "NotSetUp"


class OperatorReportingReason(StrEnum):
    """Reasons of `OperatorReporting`."""

    RENEWED = "Renewed"
    SILENT = "Silent"  # its Lease has run out
    NO_LEADER = "NoLeader"  # its Lease is released


class RecoveryBlockedReason(StrEnum):
    """Reasons of `RecoveryBlocked`."""

    GATES_PASSED = "GatesPassed"
    GATES_CLOSED = "GatesClosed"
    MANY_HOSTS = "ManyHosts"  # one of those that are closed is about many hosts at once
    CRASH_LOOP = "CrashLoop"
    AWAITS_REBOOT = "AwaitsReboot"  # it was fenced wrongly: a person has to reboot it
    NOT_NEEDED = "NotNeeded"


class LibvirtConnectionReason(StrEnum):
    """Reasons of `LibVirtConnection`."""

    CONNECTED = "Connected"
    CONNECT_FAILED = "ConnectFailed"
    SERVICE_NOT_RUNNING = "LibVirtServiceNotRunning"
    PROCESS_FAILED = "ProcessFailed"
    AGENT_SILENT = "AgentSilent"  # ours, written by the operator


class ServiceReason(StrEnum):
    """Reasons of the conditions that are named after a systemd unit."""

    RUNNING = "Running"
    STOPPED = "Stopped"
    FAILED = "Failed"
    ACTIVATING = "Activating"
    DEACTIVATING = "Deactivating"
    RELOADING = "Reloading"
    REFRESHING = "Refreshing"
    MAINTENANCE = "Maintenance"
    NOT_FOUND = "NotFound"
    MASKED = "Masked"
    NOT_LOADABLE = "NotLoadable"  # its unit file has an error
    SYSTEMD_UNREACHABLE = "SystemdUnreachable"
    UNKNOWN = "Unknown"  # a state that systemd has learnt since


class UpdateReason(StrEnum):
    """Reasons of `OperatingSystemUpdate`."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    STOPPED = "Stopped"


class DefinitionsStoredReason(StrEnum):
    """Reasons of `DefinitionsStored`: whether the instances could be started elsewhere."""

    STORED = "Stored"
    LEFT_OUT = "LeftOut"  # no room for some of them, or libvirt refuses their documents
    NO_KEY = "NoKey"  # the operator has published none
    NOT_STORED = "NotStored"  # the API, libvirt or the key is in the way
