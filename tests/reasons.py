"""The reasons of each condition of a Hypervisor, for tests of pages, advice and rules."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hypercobalt.api import hypervisor_conditions as of
from hypercobalt.api.host_certificate import CertificateReason
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType as Type

REASONS: Final[Mapping[Type, type[StrEnum]]] = {
    Type.READY: of.ReadyReason,
    Type.TERMINATING: of.TerminatingReason,
    Type.REGISTERED: of.RegisteredReason,
    Type.COMPUTE_SERVICE_UP: of.ComputeServiceReason,
    Type.IDENTITY_ACCEPTED: of.IdentityReason,
    Type.SPEC_FROZEN: of.SpecFrozenReason,
    Type.AGENT_REPORTING: of.AgentReportingReason,
    Type.ONBOARDING: of.OnboardingReason,
    Type.TRAITS_UPDATED: of.SyncReason,
    Type.AGGREGATES_UPDATED: of.AggregatesReason,
    Type.HYPERVISOR_DISABLED: of.DisabledReason,
    Type.EVICTING: of.SyncReason,
    Type.INCOMING_MIGRATIONS_SETTLED: of.IncomingReason,
    Type.AGENT_PODS_EVICTED: of.AgentPodsReason,
    Type.OFFBOARDED: of.OffboardedReason,
    Type.HA_ENABLED: of.HaEnabledReason,
    Type.NODE_HEALTHY: of.NodeHealthyReason,
    Type.NETWORK_HEALTHY: of.NetworkHealthyReason,
    Type.ACCEPTS_NEW_INSTANCES: of.AcceptsReason,
    Type.TAINTED: of.TaintedReason,
    Type.FENCED: of.FencedReason,
    Type.RECOVERY_BLOCKED: of.RecoveryBlockedReason,
    Type.FENCE_DEVICES_PROVEN: of.FenceDevicesReason,
    Type.HA_CONFIG_VALID: of.HaConfigReason,
    Type.AUTOSTART_OFF: of.AutostartReason,
    Type.DEFINITIONS_STORED: of.DefinitionsStoredReason,
    Type.LIBVIRT_CONNECTION: of.LibvirtConnectionReason,
    Type.TLS_CERTIFICATE_INSTALLED: CertificateReason,
    Type.OPERATING_SYSTEM_UPDATE: of.UpdateReason,
    Type.OPERATOR_REPORTING: of.OperatorReportingReason,
}
