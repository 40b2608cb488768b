"""The procedures of libvirt's remote protocol that we use, and their structs.

A procedure's number and structs never change once they are released; newer daemons have more of
them. Streams, file descriptors and SASL are no part of this: nothing that we call needs them.

Source: libvirt's src/remote/remote_protocol.x, qemu_protocol.x and src/rpc/virkeepaliveprotocol.x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from hypercobalt.adapters.libvirt.rpc.xdr import (
    Int,
    TypedParameter,
    UHyper,
    UInt,
    Uuid,
    fixed,
)

Arguments = TypeVar("Arguments", bound=tuple[Any, ...])
Result = TypeVar("Result", bound=tuple[Any, ...])

REMOTE: Final = 0x20008086
QEMU: Final = 0x20008087
KEEPALIVE: Final = 0x6B656570
VERSION: Final = 1  # of each of them
PING: Final = 1
PONG: Final = 2


class Void(NamedTuple):
    """No arguments, or no result."""


class DomainRef(NamedTuple):
    """remote_nonnull_domain; its id is -1 while it is off."""

    name: str
    uuid: Uuid
    id: Int = -1

    @property
    def uuid_text(self) -> str:
        return str(UUID(bytes=self.uuid))

    @property
    def readable_name(self) -> str:
        """The name; the uuid if that is not UTF-8."""
        try:
            self.name.encode()
        except UnicodeEncodeError:
            return self.uuid_text
        return self.name


class NetworkRef(NamedTuple):
    """remote_nonnull_network."""

    name: str
    uuid: Uuid


class PoolRef(NamedTuple):
    """remote_nonnull_storage_pool."""

    name: str
    uuid: Uuid


class VolumeRef(NamedTuple):
    """remote_nonnull_storage_vol."""

    pool: str
    name: str
    key: str


class Error(NamedTuple):
    """remote_error."""

    code: Int
    domain: Int
    message: str | None
    level: Int
    dom: DomainRef | None
    str1: str | None
    str2: str | None
    str3: str | None
    int1: Int
    int2: Int
    net: NetworkRef | None


# Arguments and results, each as remote_…_args and remote_…_ret have it.


class Types(NamedTuple):
    types: tuple[Int, ...]


class Open(NamedTuple):
    name: str | None
    flags: UInt = 0


class Number(NamedTuple):
    number: Int


class Version(NamedTuple):
    version: UHyper


class Text(NamedTuple):
    text: str


class NodeInfo(NamedTuple):
    model: Annotated[bytes, fixed(32 * 4)]  # `char model[32]`: a word for each
    memory_kib: UHyper
    cpus: Int
    mhz: Int
    nodes: Int
    sockets: Int
    cores: Int
    threads: Int


class Capabilities(NamedTuple):
    emulator: str | None = None
    arch: str | None = None
    machine: str | None = None
    virt_type: str | None = None
    flags: UInt = 0


class ListDomains(NamedTuple):
    need_results: Int = 1
    flags: UInt = 0


class Domains(NamedTuple):
    domains: tuple[DomainRef, ...]
    total: UInt


class AllStats(NamedTuple):
    domains: tuple[DomainRef, ...]
    stats: UInt
    flags: UInt


class StatsRecord(NamedTuple):
    domain: DomainRef
    parameters: tuple[TypedParameter, ...]


class StatsRecords(NamedTuple):
    records: tuple[StatsRecord, ...]


class ByUuid(NamedTuple):
    uuid: Uuid


class OneDomain(NamedTuple):
    domain: DomainRef


class DomainFlags(NamedTuple):
    domain: DomainRef
    flags: UInt = 0


class State(NamedTuple):
    state: Int
    reason: Int


class Info(NamedTuple):
    state: UInt
    maximum_kib: UHyper
    memory_kib: UHyper
    vcpus: UInt
    cpu_ns: UHyper


class Control(NamedTuple):
    state: UInt
    details: UInt
    milliseconds: UHyper


class GetDiskErrors(NamedTuple):
    domain: DomainRef
    most: UInt
    flags: UInt = 0


class DiskError(NamedTuple):
    disk: str
    error: Int


class DiskErrors(NamedTuple):
    errors: tuple[DiskError, ...]
    total: Int


class AgentCommand(NamedTuple):
    domain: DomainRef
    command: str
    seconds: Int
    flags: UInt = 0


class AgentAnswer(NamedTuple):
    answer: str | None


class Job(NamedTuple):
    type: Int
    parameters: tuple[TypedParameter, ...]


class SetMetadata(NamedTuple):
    domain: DomainRef
    type: Int
    metadata: str | None
    key: str | None
    uri: str | None
    flags: UInt = 0


class GetMetadata(NamedTuple):
    domain: DomainRef
    type: Int
    uri: str | None
    flags: UInt = 0


class Autostart(NamedTuple):
    domain: DomainRef
    autostart: Int


class Downtime(NamedTuple):
    domain: DomainRef
    milliseconds: UHyper
    flags: UInt = 0


class Perform(NamedTuple):
    domain: DomainRef
    destination: str | None
    parameters: tuple[TypedParameter, ...]
    cookie: bytes
    flags: UInt


class Cookie(NamedTuple):
    cookie: bytes


class Document(NamedTuple):
    document: str
    flags: UInt = 0


class OnePool(NamedTuple):
    pool: PoolRef


class PoolFlags(NamedTuple):
    pool: PoolRef
    flags: UInt = 0


class PoolDocument(NamedTuple):
    pool: PoolRef
    document: str
    flags: UInt = 0


class PoolName(NamedTuple):
    pool: PoolRef
    name: str


class OneVolume(NamedTuple):
    volume: VolumeRef


class VolumeFlags(NamedTuple):
    volume: VolumeRef
    flags: UInt = 0


class Subscribe(NamedTuple):
    event: Int
    domain: DomainRef | None = None


class SubscribeQemu(NamedTuple):
    domain: DomainRef | None
    event: str | None
    flags: UInt = 0


@dataclass(frozen=True, slots=True)
class Procedure(Generic[Arguments, Result]):
    """A call that the daemon answers.

    Args:
        number: in its program.
        arguments: struct that is sent.
        result: struct that is answered.
        program: REMOTE or QEMU.
    """

    number: int
    arguments: type[Arguments]
    result: type[Result]
    program: int = REMOTE


OPEN: Final = Procedure(1, Open, Void)
GET_TYPE: Final = Procedure(3, Void, Text)
GET_VERSION: Final = Procedure(4, Void, Version)
NODE_GET_INFO: Final = Procedure(6, Void, NodeInfo)
GET_CAPABILITIES: Final = Procedure(7, Void, Text)
DOMAIN_CREATE: Final = Procedure(9, OneDomain, Void)
DOMAIN_DESTROY: Final = Procedure(12, OneDomain, Void)
DOMAIN_GET_XML_DESC: Final = Procedure(14, DomainFlags, Text)
DOMAIN_GET_AUTOSTART: Final = Procedure(15, OneDomain, Number)
DOMAIN_GET_INFO: Final = Procedure(16, OneDomain, Info)
DOMAIN_LOOKUP_BY_UUID: Final = Procedure(24, ByUuid, OneDomain)
DOMAIN_REBOOT: Final = Procedure(27, DomainFlags, Void)
DOMAIN_RESUME: Final = Procedure(28, OneDomain, Void)
DOMAIN_SET_AUTOSTART: Final = Procedure(29, Autostart, Void)
DOMAIN_SUSPEND: Final = Procedure(34, OneDomain, Void)
SUPPORTS_FEATURE: Final = Procedure(60, Number, Number)
AUTH_LIST: Final = Procedure(66, Void, Types)
AUTH_POLKIT: Final = Procedure(70, Void, Number)
POOL_CREATE_XML: Final = Procedure(76, Document, OnePool)
POOL_CREATE: Final = Procedure(78, PoolFlags, Void)
POOL_REFRESH: Final = Procedure(83, PoolFlags, Void)
VOLUME_CREATE_XML: Final = Procedure(93, PoolDocument, OneVolume)
VOLUME_DELETE: Final = Procedure(94, VolumeFlags, Void)
VOLUME_LOOKUP_BY_NAME: Final = Procedure(95, PoolName, OneVolume)
POOL_IS_ACTIVE: Final = Procedure(154, OnePool, Number)
GET_LIB_VERSION: Final = Procedure(157, Void, Version)
DOMAIN_ABORT_JOB: Final = Procedure(164, OneDomain, Void)
DOMAIN_SET_MAX_DOWNTIME: Final = Procedure(166, Downtime, Void)
DOMAIN_CREATE_FLAGS: Final = Procedure(196, DomainFlags, OneDomain)  # …_CREATE_WITH_FLAGS
DOMAIN_GET_STATE: Final = Procedure(212, DomainFlags, State)
DOMAIN_GET_CONTROL_INFO: Final = Procedure(229, DomainFlags, Control)
DOMAIN_UNDEFINE_FLAGS: Final = Procedure(231, DomainFlags, Void)
DOMAIN_DESTROY_FLAGS: Final = Procedure(234, DomainFlags, Void)
DOMAIN_RESET: Final = Procedure(245, DomainFlags, Void)
DOMAIN_SHUTDOWN: Final = Procedure(258, DomainFlags, Void)  # …_SHUTDOWN_FLAGS
DOMAIN_GET_DISK_ERRORS: Final = Procedure(263, GetDiskErrors, DiskErrors)
DOMAIN_SET_METADATA: Final = Procedure(264, SetMetadata, Void)
DOMAIN_GET_METADATA: Final = Procedure(265, GetMetadata, Text)
LIST_ALL_DOMAINS: Final = Procedure(273, ListDomains, Domains)
DOMAIN_GET_JOB_STATS: Final = Procedure(298, DomainFlags, Job)
DOMAIN_MIGRATE_PERFORM: Final = Procedure(305, Perform, Cookie)  # …_PERFORM3_PARAMS
EVENT_REGISTER: Final = Procedure(316, Subscribe, Number)  # …_DOMAIN_EVENT_CALLBACK_REGISTER_ANY
GET_DOMAIN_CAPABILITIES: Final = Procedure(342, Capabilities, Text)
GET_ALL_DOMAIN_STATS: Final = Procedure(344, AllStats, StatsRecords)
DOMAIN_DEFINE_XML: Final = Procedure(350, Document, OneDomain)  # …_XML_FLAGS
POOL_LOOKUP_BY_TARGET_PATH: Final = Procedure(391, Text, OnePool)
QEMU_AGENT_COMMAND: Final = Procedure(3, AgentCommand, AgentAnswer, QEMU)
QEMU_EVENT_REGISTER: Final = Procedure(4, SubscribeQemu, Number, QEMU)
