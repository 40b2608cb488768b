"""What hypercobalt and its tests use of libvirt-python."""

from collections.abc import Callable, Mapping
from typing import TypeVar

_Context = TypeVar("_Context")

VIR_CONNECT_CLOSE_REASON_EOF: int
VIR_CONNECT_CLOSE_REASON_ERROR: int
VIR_CONNECT_CLOSE_REASON_KEEPALIVE: int
VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE: int
VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT: int
VIR_CONNECT_LIST_DOMAINS_ACTIVE: int
VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE: int
VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE: int
VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE: int
VIR_DOMAIN_EVENT_ID_CONTROL_ERROR: int
VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: int
VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: int
VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON: int
VIR_DOMAIN_EVENT_ID_JOB_COMPLETED: int
VIR_DOMAIN_EVENT_ID_LIFECYCLE: int
VIR_DOMAIN_EVENT_ID_MEMORY_FAILURE: int
VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION: int
VIR_DOMAIN_EVENT_ID_REBOOT: int
VIR_DOMAIN_EVENT_ID_TUNABLE: int
VIR_DOMAIN_EVENT_ID_WATCHDOG: int
VIR_DOMAIN_JOB_STATS_COMPLETED: int
VIR_DOMAIN_JOB_STATS_KEEP_COMPLETED: int
VIR_DOMAIN_STATS_BALLOON: int
VIR_DOMAIN_STATS_BLOCK: int
VIR_DOMAIN_STATS_INTERFACE: int
VIR_DOMAIN_STATS_STATE: int
VIR_DOMAIN_STATS_VCPU: int
VIR_DOMAIN_UNDEFINE_KEEP_NVRAM: int
VIR_DOMAIN_XML_INACTIVE: int
VIR_DOMAIN_XML_SECURE: int
VIR_ERR_ARGUMENT_UNSUPPORTED: int
VIR_ERR_CONFIG_UNSUPPORTED: int
VIR_ERR_INVALID_ARG: int
VIR_ERR_NO_DOMAIN: int
VIR_ERR_NO_STORAGE_POOL: int
VIR_ERR_NO_STORAGE_VOL: int
VIR_ERR_NO_SUPPORT: int
VIR_ERR_OPERATION_INVALID: int
VIR_ERR_OPERATION_UNSUPPORTED: int
VIR_ERR_RPC: int
VIR_ERR_SYSTEM_ERROR: int

VIR_MIGRATE_AUTO_CONVERGE: int
VIR_MIGRATE_LIVE: int
VIR_MIGRATE_NON_SHARED_DISK: int
VIR_MIGRATE_PARAM_BANDWIDTH: str
VIR_MIGRATE_PARAM_MIGRATE_DISKS: str
VIR_MIGRATE_PARAM_URI: str
VIR_MIGRATE_PEER2PEER: int
VIR_MIGRATE_PERSIST_DEST: int
VIR_MIGRATE_TLS: int
VIR_MIGRATE_UNDEFINE_SOURCE: int
VIR_STORAGE_POOL_CREATE_WITH_BUILD: int

class libvirtError(Exception):  # noqa: N801
    def get_error_code(self) -> int | None: ...

class virDomain:  # noqa: N801
    def ID(self) -> int: ...  # noqa: N802
    def UUIDString(self) -> str: ...  # noqa: N802
    def XMLDesc(self, flags: int = 0) -> str: ...  # noqa: N802
    def abortJob(self) -> int: ...  # noqa: N802
    def autostart(self) -> int: ...
    def connect(self) -> virConnect: ...
    def create(self) -> int: ...
    def destroy(self) -> int: ...
    def hasManagedSaveImage(self, flags: int = 0) -> int: ...  # noqa: N802
    def info(self) -> tuple[int, int, int, int, int]: ...
    def isActive(self) -> int: ...  # noqa: N802
    def isPersistent(self) -> int: ...  # noqa: N802
    def jobStats(self, flags: int = 0) -> dict[str, int | bool | str | float]: ...  # noqa: N802
    def migrateSetMaxDowntime(self, milliseconds: int, flags: int = 0) -> int: ...  # noqa: N802
    def migrateToURI3(  # noqa: N802
        self, destination: str, parameters: Mapping[str, int | str | list[str]], flags: int = 0
    ) -> int: ...
    def name(self) -> str: ...
    def pinVcpu(self, vcpu: int, cpus: tuple[bool, ...]) -> int: ...  # noqa: N802
    def resume(self) -> int: ...
    def setAutostart(self, autostart: int) -> int: ...  # noqa: N802
    def state(self, flags: int = 0) -> tuple[int, int]: ...
    def suspend(self) -> int: ...
    def undefine(self) -> int: ...
    def undefineFlags(self, flags: int = 0) -> int: ...  # noqa: N802

class virStorageVol:  # noqa: N801
    def delete(self, flags: int = 0) -> int: ...

class virStoragePool:  # noqa: N801
    def create(self, flags: int = 0) -> int: ...
    def createXML(self, document: str, flags: int = 0) -> virStorageVol: ...  # noqa: N802
    def isActive(self) -> int: ...  # noqa: N802
    def refresh(self, flags: int = 0) -> int: ...
    def storageVolLookupByName(self, name: str) -> virStorageVol: ...  # noqa: N802

class virConnect:  # noqa: N801
    def close(self) -> int: ...
    def createXML(self, document: str, flags: int = 0) -> virDomain: ...  # noqa: N802
    def defineXML(self, document: str) -> virDomain: ...  # noqa: N802
    def domainEventDeregisterAny(self, callback: int) -> None: ...  # noqa: N802
    def domainEventRegisterAny(  # noqa: N802
        self,
        domain: virDomain | None,
        event: int,
        # libvirt calls it with the connection, the domain, the event's own arguments, the context.
        callback: Callable[..., None],
        context: _Context,
    ) -> int: ...
    def getAllDomainStats(  # noqa: N802
        self, stats: int = 0, flags: int = 0
    ) -> list[tuple[virDomain, dict[str, int | bool | str | float]]]: ...
    def getCapabilities(self) -> str: ...  # noqa: N802
    def getDomainCapabilities(  # noqa: N802
        self,
        emulator: str | None = None,
        arch: str | None = None,
        machine: str | None = None,
        virt_type: str | None = None,
        flags: int = 0,
    ) -> str: ...
    def getInfo(self) -> tuple[str, int, int, int, int, int, int, int]: ...  # noqa: N802
    def getLibVersion(self) -> int: ...  # noqa: N802
    def getType(self) -> str: ...  # noqa: N802
    def getVersion(self) -> int: ...  # noqa: N802
    def isAlive(self) -> int: ...  # noqa: N802
    def listAllDomains(self, flags: int = 0) -> list[virDomain]: ...  # noqa: N802
    def lookupByUUIDString(self, uuid: str) -> virDomain: ...  # noqa: N802
    def registerCloseCallback(  # noqa: N802
        self, callback: Callable[[virConnect, int, _Context], None], context: _Context
    ) -> int: ...
    def setKeepAlive(self, interval: int, count: int) -> int: ...  # noqa: N802
    def storagePoolCreateXML(  # noqa: N802
        self, document: str, flags: int = 0
    ) -> virStoragePool: ...
    def storagePoolLookupByTargetPath(self, path: str) -> virStoragePool: ...  # noqa: N802
    def unregisterCloseCallback(self) -> None: ...  # noqa: N802

def open(name: str | None = None) -> virConnect: ...
def registerErrorHandler(  # noqa: N802
    handler: Callable[[_Context, tuple[object, ...]], None], context: _Context
) -> int: ...
def virEventRegisterDefaultImpl() -> int: ...  # noqa: N802
def virEventRunDefaultImpl() -> int: ...  # noqa: N802
