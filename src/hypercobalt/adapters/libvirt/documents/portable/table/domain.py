"""The root, and all that is not a device."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents import evacuated
from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Inert,
    Named,
    Optional,
    Rule,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.common import LABEL
from hypercobalt.adapters.libvirt.documents.portable.table.devices import DEVICES
from hypercobalt.adapters.libvirt.documents.portable.table.processor import CLOCK, CPU, FEATURES
from hypercobalt.adapters.libvirt.documents.portable.values import (
    BIG,
    CPUS,
    DOMAIN_NAME,
    LINE,
    NUMBER,
    ON_OFF,
    SMALL,
    TEXT,
    THREADS,
    TYPE,
    UNIT,
    UUID,
    YES,
    YES_NO,
    form,
    one_of,
)

_BYTES: Final = element(text=BIG, unit=UNIT)
_MODE: Final = one_of("strict preferred interleave restrictive")
_QUOTA: Final = element(text=form("a number", r"-?[0-9]{1,19}"))

_HOST: Final = form("the name of a host", r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_MARK: Final = {
    "host": _HOST,
    "boot": form("the id of a boot", r"[A-Za-z0-9][A-Za-z0-9-]{0,63}"),
    "seal": form("a seal", r"[0-9a-f]{64}"),
}
_EVACUATED: Final = Optional(
    Rule(
        attributes={
            "xmlns:hypercobalt": form("the namespace", evacuated.NAMESPACE.replace(".", r"\.")),
            "pending": YES,
            **_MARK,
        },
        required=frozenset({"xmlns:hypercobalt", "host", "boot"}),
        children={
            evacuated.EARLIER: Rule(
                attributes=_MARK,
                required=frozenset({"host", "boot"}),
                most=evacuated.MOST_EARLIER,
            )
        },
    )
)
METADATA: Final = Rule(
    others_dropped=True,
    children={
        evacuated.TAG: _EVACUATED,
        "nova:instance": Inert(
            "nova",
            form("Nova's namespace", r"http://openstack\.org/xmlns/libvirt/nova/1\.[0-9]{1,2}"),
        ),
        "libosinfo:libosinfo": Inert(
            "libosinfo", form("its namespace", r"http://libosinfo\.org/xmlns/libvirt/domain/1\.0")
        ),
    },
)
"""libvirt keeps it and reads none of it; what other programs have left there is dropped."""

_CPUTUNE: Final = element(
    {
        "shares": element(text=NUMBER),
        **{
            name: _QUOTA
            for scope in ("", "global_", "emulator_", "iothread_")
            for name in (f"{scope}period", f"{scope}quota")
        },
        "vcpupin": element(vcpu=SMALL, cpuset=CPUS, required="vcpu cpuset", most=1024),
        "emulatorpin": element(cpuset=CPUS, required="cpuset"),
        "iothreadpin": element(iothread=SMALL, cpuset=CPUS, required="iothread cpuset", most=64),
    }
)
"""Without schedulers: a thread of real time can keep a host's CPUs from everything else."""

_NUMATUNE: Final = element(
    {
        "memory": element(mode=_MODE, nodeset=CPUS, placement=one_of("static auto")),
        "memnode": element(cellid=SMALL, mode=_MODE, nodeset=CPUS, required="cellid", most=256),
    }
)
_MEMTUNE: Final = element(
    dict.fromkeys(("hard_limit", "soft_limit", "swap_hard_limit", "min_guarantee"), _BYTES)
)
_BACKING: Final = element(
    {
        "hugepages": element(
            {"page": element(size=NUMBER, unit=UNIT, nodeset=CPUS, required="size", most=16)}
        ),
        "nosharepages": Rule(),
        "source": element(type=one_of("anonymous memfd"), required="type"),
        "access": element(mode=one_of("shared private"), required="mode"),
        "allocation": element(mode=one_of("immediate ondemand"), threads=THREADS),
        "discard": Rule(),
    }
)
"""Neither files nor locked memory of the host."""

_SOURCE: Final = element(file=Named.VARIABLES, required="file")


def _variables(source: Rule | None = None) -> Rule:
    """The firmware's variables: a file by the text, or, since libvirt 8.5, by a source."""
    return element(
        {"source": source} if source else None,
        {"type": one_of("file")} if source else None,
        text=None if source else Named.VARIABLES,
        required="type" if source else "",
        template=Named.FIRMWARE,
        templateFormat=one_of("raw"),
        format=one_of("raw"),
    )


_OS: Final = element(
    {
        "type": element(
            text=one_of("hvm"),
            arch=one_of("x86_64 i686 aarch64 s390x ppc64le riscv64"),
            machine=form("a machine type", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"),
        ),
        "firmware": element(
            {
                "feature": element(
                    enabled=YES_NO,
                    name=one_of("secure-boot enrolled-keys"),
                    required="enabled name",
                    most=2,
                )
            }
        ),
        "loader": element(
            text=Named.FIRMWARE,
            readonly=YES,  # what is written there boots every other guest of the host
            secure=YES_NO,
            stateless=YES_NO,
            type=one_of("rom pflash"),
            format=one_of("raw"),
            required="readonly type",
        ),
        "nvram": Choice("type", {"": _variables(), "file": _variables(_SOURCE)}, default=""),
        "kernel": element(text=Named.KERNEL),
        "initrd": element(text=Named.KERNEL),
        "cmdline": element(text=LINE),
        "boot": element(dev=one_of("hd fd cdrom network"), required="dev", most=4),
        "bootmenu": element(enable=YES_NO, timeout=NUMBER),
        "smbios": element(mode=one_of("emulate sysinfo"), required="mode"),
        "bios": element(useserial=YES_NO, rebootTimeout=form("a number", r"-?[0-9]{1,5}")),
    },
    firmware=one_of("bios efi"),
)
_ENTRY: Final = element(text=LINE, name=TYPE, required="name", most=16)
_SYSINFO: Final = element(
    {
        "bios": element({"entry": _ENTRY}),
        "system": element({"entry": _ENTRY}),
        "baseBoard": element({"entry": _ENTRY}),
        "chassis": element({"entry": _ENTRY}),
    },
    type=one_of("smbios"),
    required="type",
)
_SUSPEND: Final = element(enabled=YES_NO, required="enabled")
_EVENT: Final = element(text=one_of("destroy restart preserve rename-restart"))
"""Without core dumps: a guest would fill the host's disk by crashing."""

DOMAIN: Final = element(
    {
        "name": element(text=DOMAIN_NAME),
        "uuid": element(text=UUID),
        "genid": element(text=UUID),
        "title": element(text=LINE),
        "description": element(text=TEXT),
        "metadata": METADATA,
        "memory": element(text=BIG, unit=UNIT, dumpCore=ON_OFF),
        "currentMemory": _BYTES,
        "maxMemory": element(text=BIG, unit=UNIT, slots=SMALL),
        "memtune": _MEMTUNE,
        "memoryBacking": _BACKING,
        "blkiotune": element({"weight": element(text=SMALL)}),
        "vcpu": element(text=SMALL, placement=one_of("static auto"), cpuset=CPUS, current=SMALL),
        "vcpus": element(
            {
                "vcpu": element(
                    id=SMALL,
                    enabled=YES_NO,
                    hotpluggable=YES_NO,
                    order=SMALL,
                    required="id enabled",
                    most=1024,
                )
            }
        ),
        "iothreads": element(text=THREADS),
        "iothreadids": element(
            {
                "iothread": element(
                    id=SMALL,
                    thread_pool_min=THREADS,
                    thread_pool_max=THREADS,
                    required="id",
                    most=64,
                )
            }
        ),
        "cputune": _CPUTUNE,
        "numatune": _NUMATUNE,
        "resource": element({"partition": element(text=one_of("/machine"))}),
        "sysinfo": _SYSINFO,
        "os": _OS,
        "features": FEATURES,
        "cpu": CPU,
        "clock": CLOCK,
        "on_poweroff": _EVENT,
        "on_reboot": _EVENT,
        "on_crash": _EVENT,
        "on_lockfailure": element(text=one_of("poweroff restart pause ignore")),
        "pm": element({"suspend-to-mem": _SUSPEND, "suspend-to-disk": _SUSPEND}),
        "devices": DEVICES,
        "seclabel": LABEL,
    },
    type=one_of("kvm qemu"),
    required="type",
    dropped="id",
)
