"""Turns libvirt's typed parameters into counters and jobs.

Which parameters come depends on libvirt's version, on the driver and on the guest; each may be
missing.

Source: virConnectGetAllDomainStats and virDomainGetJobStats in libvirt-domain.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from hypercobalt.adapters.libvirt.model import DomainState, JobStats, JobType, JobValue

Parameters = Mapping[str, JobValue]


@dataclass(frozen=True, slots=True)
class VcpuStats:
    """Time that one vCPU has run."""

    vcpu: int
    time: timedelta


@dataclass(frozen=True, slots=True)
class BlockStats:
    """Counters of one disk since the domain's start."""

    device: str
    read_bytes: int = 0
    read_requests: int = 0
    write_bytes: int = 0
    write_requests: int = 0


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """Counters of one network interface since the domain's start."""

    device: str
    receive_bytes: int = 0
    receive_packets: int = 0
    receive_errors: int = 0
    receive_drops: int = 0
    transmit_bytes: int = 0
    transmit_packets: int = 0
    transmit_errors: int = 0
    transmit_drops: int = 0


@dataclass(frozen=True, slots=True)
class DomainStats:
    """One domain's line of virConnectGetAllDomainStats.

    Args:
        memory_bytes: balloon.current, the memory that the guest has now.
        memory_usage_bytes: what the guest uses by its balloon driver; 0 when it reports none.
    """

    uuid: str
    name: str
    state: DomainState
    vcpus: tuple[VcpuStats, ...] = ()
    vcpu_count: int = 0
    memory_bytes: int = 0
    memory_usage_bytes: int = 0
    blocks: tuple[BlockStats, ...] = ()
    interfaces: tuple[InterfaceStats, ...] = ()


# virDomainJobType
_TYPES = (
    JobType.NONE,
    JobType.BOUNDED,
    JobType.UNBOUNDED,
    JobType.COMPLETED,
    JobType.FAILED,
    JobType.CANCELLED,
)
# In the order of the fields of `BlockStats` and `InterfaceStats`.
_BLOCK = ("rd.bytes", "rd.reqs", "wr.bytes", "wr.reqs")
_INTERFACE = tuple(
    f"{way}.{key}" for way in ("rx", "tx") for key in ("bytes", "pkts", "errs", "drop")
)
# More than any domain has; a driver that counts wrongly must not cost memory.
_MAX_PARTS = 16 * 1024


def domain_state(number: int) -> DomainState:
    """The state with this number; one that is newer than this code is no state."""
    return DomainState(number) if 0 <= number < len(DomainState) else DomainState.NOSTATE


def domain_stats(uuid: str, name: str, values: Parameters) -> DomainStats:
    """One domain's record."""
    return DomainStats(
        uuid=uuid,
        name=name,
        state=domain_state(count(values, "state.state")),
        vcpus=tuple(
            VcpuStats(n, timedelta(microseconds=count(values, f"vcpu.{n}.time") // 1000))
            for n in range(min(count(values, "vcpu.maximum"), _MAX_PARTS))
            if f"vcpu.{n}.time" in values
        ),
        vcpu_count=count(values, "vcpu.current"),
        memory_bytes=count(values, "balloon.current") * 1024,
        memory_usage_bytes=_used(values) * 1024,
        blocks=block_stats(values),
        interfaces=tuple(
            _interface(values, prefix, name) for prefix, name in _parts(values, "net")
        ),
    )


def block_stats(values: Parameters) -> tuple[BlockStats, ...]:
    """The disks of one domain's record."""
    return tuple(_block(values, prefix, name) for prefix, name in _parts(values, "block"))


def job_of(values: Parameters) -> JobStats:
    """A job that virDomainGetJobStats gave: its `type` beside its parameters."""
    number = count(values, "type")
    kind = _TYPES[number] if number < len(_TYPES) else JobType.NONE
    return JobStats(kind, {key: value for key, value in values.items() if key != "type"})


def ended_job_of(values: Parameters) -> JobStats:
    """A job that virConnectDomainEventJobCompleted gave: it has `success` in place of a type."""
    if values.get("success", True):
        kind = JobType.COMPLETED
    elif "cancel" in str(values.get("errmsg", "")):
        kind = JobType.CANCELLED
    else:
        kind = JobType.FAILED
    return JobStats(kind, dict(values))


def _used(values: Parameters) -> int:
    """KiB that the guest cannot give away, by its balloon driver's own count."""
    if "balloon.available" not in values:
        return 0
    free = "balloon.usable" if "balloon.usable" in values else "balloon.unused"
    if free not in values:
        return 0
    return max(count(values, "balloon.available") - count(values, free), 0)


def _block(values: Parameters, prefix: str, device: str) -> BlockStats:
    return BlockStats(device, *(count(values, f"{prefix}.{key}") for key in _BLOCK))


def _interface(values: Parameters, prefix: str, device: str) -> InterfaceStats:
    return InterfaceStats(device, *(count(values, f"{prefix}.{key}") for key in _INTERFACE))


def _parts(values: Parameters, group: str) -> Iterator[tuple[str, str]]:
    for index in range(min(count(values, f"{group}.count"), _MAX_PARTS)):
        prefix = f"{group}.{index}"
        if isinstance(name := values.get(f"{prefix}.name"), str):
            yield prefix, name


def count(values: Parameters, key: str) -> int:
    """A parameter that is a number, not negative; 0 without it."""
    value = values.get(key, 0)
    return max(value, 0) if isinstance(value, int) else 0
