"""What the guest sees of a machine: features, processor, clock."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import Entry, Rule, element
from hypercobalt.adapters.libvirt.documents.portable.table.devices import SIZE
from hypercobalt.adapters.libvirt.documents.portable.values import (
    BIG,
    CPUS,
    NUMBER,
    ON_OFF,
    SMALL,
    TYPE,
    UNIT,
    YES_NO,
    form,
    one_of,
)

_STATE: Final = element(state=ON_OFF)
_HYPERV: Final = (
    "relaxed vapic vpindex runtime synic reset frequencies reenlightenment tlbflush ipi evmcs avic "
    "emsr_bitmap xmm_input"
)
FEATURES: Final = element(
    {
        "acpi": Rule(),
        "apic": element(eoi=ON_OFF),
        "pae": Rule(),
        "hap": _STATE,
        "viridian": Rule(),
        "privnet": Rule(),
        "hyperv": element(
            {
                **dict.fromkeys(_HYPERV.split(), _STATE),
                "spinlocks": element(state=ON_OFF, retries=NUMBER),
                "stimer": element({"direct": _STATE}, state=ON_OFF),
                "vendor_id": element(
                    state=ON_OFF,
                    value=form("up to 12 characters", r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,11}"),
                ),
            },
            mode=one_of("custom passthrough"),
        ),
        "kvm": element(
            {
                "hidden": _STATE,
                "hint-dedicated": _STATE,
                "poll-control": _STATE,
                "pv-ipi": _STATE,
            }
        ),
        "pvspinlock": _STATE,
        "pmu": _STATE,
        "vmport": _STATE,
        "ps2": _STATE,
        "gic": element(version=one_of("2 3 host")),
        "smm": element({"tseg": SIZE}, state=ON_OFF),
        "ioapic": element(driver=one_of("kvm qemu"), required="driver"),
        "vmcoreinfo": _STATE,
        "msrs": element(unknown=one_of("ignore fault"), required="unknown"),
    }
)

_TOPOLOGY: Final = element(sockets=SMALL, dies=SMALL, clusters=SMALL, cores=SMALL, threads=SMALL)
_CELL: Final = element(
    {
        "distances": element({"sibling": element(id=SMALL, value=SMALL, most=256)}),
    },
    id=SMALL,
    cpus=CPUS,
    memory=BIG,
    unit=UNIT,
    memAccess=one_of("shared private"),
    discard=YES_NO,
    required="memory",
    most=256,
)
CPU: Final = element(
    {
        "model": element(
            text=TYPE,
            fallback=one_of("allow forbid"),
            vendor_id=form("12 characters", r"[ !-+\--~]{12}"),
        ),
        "vendor": element(text=TYPE),
        "topology": _TOPOLOGY,
        "cache": element(
            mode=one_of("emulate passthrough disable"), level=SMALL, required="mode", most=4
        ),
        "maxphysaddr": element(mode=one_of("emulate passthrough"), bits=SMALL, limit=SMALL),
        "feature": element(
            policy=one_of("force require optional disable forbid"),
            name=TYPE,
            required="name",
            most=1000,
        ),
        "numa": element({"cell": _CELL}),
    },
    mode=one_of("custom host-model host-passthrough maximum"),
    match=one_of("minimum exact strict"),
    check=one_of("none partial full"),
    migratable=ON_OFF,
)

_ZONE: Final = form(
    "a time zone", r"[A-Za-z0-9][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9][A-Za-z0-9_+-]{0,31}){0,2}"
)
_TIMERS: Final[dict[str, Entry]] = {"catchup": element(threshold=NUMBER, slew=NUMBER, limit=NUMBER)}
CLOCK: Final = element(
    {
        "timer": element(
            _TIMERS,
            name=TYPE,
            present=YES_NO,
            tickpolicy=one_of("delay catchup merge discard"),
            track=one_of("boot guest wall realtime"),
            mode=TYPE,
            frequency=NUMBER,
            required="name",
            most=16,
        )
    },
    offset=one_of("utc localtime timezone variable absolute"),
    adjustment=form("reset, or a number", r"reset|-?[0-9]{1,12}"),
    basis=one_of("utc localtime"),
    timezone=_ZONE,
    start=BIG,
)
