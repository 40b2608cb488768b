"""Codes and flags of libvirt's API that mean something to us.

Source: libvirt's include/libvirt/*.h; virErrorNumber in virterror.h.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final


class ErrorCode(IntEnum):
    """virErrorNumber, those that mean something to us."""

    NO_SUPPORT = 3
    INVALID_ARG = 8
    SYSTEM_ERROR = 38
    RPC = 39
    NO_DOMAIN = 42
    NO_STORAGE_POOL = 49
    NO_STORAGE_VOL = 50
    OPERATION_INVALID = 55
    CONFIG_UNSUPPORTED = 67
    ARGUMENT_UNSUPPORTED = 74
    NO_DOMAIN_METADATA = 80
    OPERATION_UNSUPPORTED = 84
    AGENT_UNRESPONSIVE = 86
    XML_INVALID_SCHEMA = 92


class Auth(IntEnum):
    """remote_auth_type."""

    NONE = 0
    SASL = 1
    POLKIT = 2


class DomainStat(IntFlag):
    """virDomainStatsTypes."""

    STATE = 1
    BALLOON = 4
    VCPU = 8
    INTERFACE = 16
    BLOCK = 32


class ListFlag(IntFlag):
    """virConnectListAllDomainsFlags."""

    ACTIVE = 1
    MANAGED_SAVE = 1 << 8


class StatsFlag(IntFlag):
    """virConnectGetAllDomainStatsFlags."""

    ACTIVE = 1
    NOWAIT = 1 << 29


class JobFlag(IntFlag):
    """virDomainGetJobStatsFlags."""

    COMPLETED = 1
    KEEP_COMPLETED = 2


class DocumentFlag(IntFlag):
    """virDomainXMLFlags."""

    SECURE = 1
    INACTIVE = 2
    MIGRATABLE = 8


class MigrateFlag(IntFlag):
    """virDomainMigrateFlags."""

    LIVE = 1
    PEER2PEER = 2
    PERSIST_DEST = 8
    UNDEFINE_SOURCE = 16
    NON_SHARED_DISK = 64
    AUTO_CONVERGE = 1 << 13
    TLS = 1 << 16


class StartFlag(IntFlag):
    """virDomainCreateFlags."""

    PAUSED = 1


class DestroyFlag(IntFlag):
    """virDomainDestroyFlagsValues."""

    GRACEFUL = 1  # SIGTERM alone: QEMU writes out what it holds of its disks


METADATA_ELEMENT: Final = 2  # VIR_DOMAIN_METADATA_ELEMENT
DEFINE_VALIDATE: Final = 1  # VIR_DOMAIN_DEFINE_VALIDATE
KEEP_NVRAM: Final = 8  # VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
WITH_BUILD: Final = 1  # VIR_STORAGE_POOL_CREATE_WITH_BUILD
FEATURE_KEEPALIVE: Final = 10  # VIR_DRV_FEATURE_PROGRAM_KEEPALIVE
