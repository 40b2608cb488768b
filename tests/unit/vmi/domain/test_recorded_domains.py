"""Our domain documents are KubeVirt's, but for a table of differences with reasons."""

from __future__ import annotations

import re
from functools import cache

from tests.unit.vmi.comparing import Difference, Facts, compare, domain_facts
from tests.unit.vmi.recordings import Recording, honoured, recordings
from tests.unit.vmi.reduced import reduced, replaced_volumes

from hypercobalt.vmi.domain import DomainContext, document
from hypercobalt.vmi.topology import topology

HOTPLUG = "CPUs and memory are not added to a running guest yet: it has no room for them"

DIFFERENCES = (
    Difference(r"/domain/(vcpu|vcpus/.*|cpu/topology/@sockets)", HOTPLUG),
    Difference(r"/domain/maxMemory.*|/domain/devices/memory.*|/domain/cpu/numa/.*", HOTPLUG),
    Difference(
        r"/domain/devices/serial/log/.*",
        "no virtlogd rotates that file: a guest could fill its host's disk",
    ),
    Difference(r"/domain/metadata/kubevirt/uid", "the recorded converter knows no UID"),
    Difference(r"/domain/features/apic/@eoi", "KubeVirt drops apic.endOfInterrupt"),
    Difference(r"/domain/clock/@offset", "utc, libvirt's default, which its schema wants"),
    Difference(r"/domain/cpu/feature\[.*\]/@policy", "the same: require"),
    Difference(r".*/sysinfo/system/entry\[(sku|version)\]/@name", "an entry without a value"),
    Difference(
        r"/domain/devices/interface\[.*\]/mac/@address",
        "libvirt reads a MAC address with colons only, KubeVirt's launcher mends it later",
    ),
)

NOT_HONOURED = (
    Difference(r"/domain/features/(hyperv|kvm|smm|pmu|pvspinlock).*", "features of that name"),
    Difference(r"/domain/os/(loader|nvram).*", "EFI"),
    Difference(r"/domain/devices/video/model/@(type|vram)", "EFI has another default"),
    Difference(r"/domain/(memoryBacking|cputune|numatune)/.*", "hugepages, dedicated CPUs"),
    Difference(r"/domain/devices/memballoon/@freePageReporting", "the same"),
    Difference(r"/domain/devices/(tpm|filesystem|redirdev|hostdev)/.*", "devices of that name"),
    Difference(r"/domain/devices/controller\[usb\]/@model", "clientPassthrough"),
    Difference(r"/domain/on_reboot", "rebootPolicy"),
)
"""Parts of a document that fields which are not honoured decide."""
_CONTENT = r"(@(type|device)|(source|backingStore|driver)/.*)"
_OTHER_BINDINGS = {"passtBinding", "sriov", "binding"}


@cache
def pairs() -> dict[str, tuple[Recording, Facts, Facts]]:
    """Recorded document and ours of each VMI, by its id; without what is not honoured."""
    return {
        one.id: (
            one,
            domain_facts(one.xml),
            domain_facts(document(reduced(one), DomainContext())),
        )
        for one in recordings()
        if one.xml is not None
    }


def test_documents_of_honoured_vmis_are_the_recorded_ones() -> None:
    compared = [one for one in honoured() if one.xml is not None]
    faults: dict[str, list[str]] = {}
    for one in compared:
        ours = domain_facts(document(one.typed, DomainContext()))
        found = compare(domain_facts(one.xml or ""), ours, DIFFERENCES)
        faults |= {one.id: found.unexplained} if found.unexplained else {}
    equal = len(compared) - len(faults)
    print(f"domains: {equal} of {len(compared)} as recorded")  # noqa: T201 - a rate
    assert faults == {}
    assert len(compared) == 61


def test_honoured_parts_of_all_other_documents_are_the_recorded_ones() -> None:
    """Fields that are not honoured are taken out, and what they decide is not compared."""
    used: set[Difference] = set()
    faults: dict[str, list[str]] = {}
    for one, recorded, ours in pairs().values():
        table = (*DIFFERENCES, *NOT_HONOURED, *_of_this(one))
        found = compare(recorded, ours, table)
        used |= found.used
        faults |= {one.id: found.unexplained} if found.unexplained else {}
    equal = len(pairs()) - len(faults)
    print(f"parts of domains: {equal} of {len(pairs())}")  # noqa: T201 - a rate
    assert faults == {}
    assert len(pairs()) == 240
    assert {*DIFFERENCES, *NOT_HONOURED} <= used, "a line of the table explains nothing"


def _of_this(one: Recording) -> list[Difference]:
    """Disks and interfaces whose volume or binding is not honoured."""
    devices = one.vmi["spec"]["domain"]["devices"]
    nics = [nic["name"] for nic in devices.get("interfaces", []) if set(nic) & _OTHER_BINDINGS]
    matched = [disk["name"] for disk in devices.get("disks", []) if "blockSize" in disk]
    return [
        *(
            Difference(rf"/domain/devices/disk\[ua-{name}\]/{_CONTENT}", "its volume")
            for name in replaced_volumes(one)
        ),
        *(
            Difference(rf"/domain/devices/interface\[ua-{name}\]/.*", "its binding")
            for name in nics
        ),
        *(Difference(rf".*disk\[ua-{name}\]/blockio/.*", "matchVolume") for name in matched),
    ]


def test_what_ours_says_and_the_recorded_one_leaves_out_is_the_default() -> None:
    for _, recorded, ours in pairs().values():
        for path, value in ours - recorded:
            if path == "/domain/clock/@offset":
                assert value == "utc"
            elif re.fullmatch(r"/domain/cpu/feature\[.*\]/@policy", path):
                assert value == "require"
        assert not [path for path, _ in recorded - ours if re.search("@offset|@policy", path)]


def test_guest_has_what_it_starts_with_and_no_room_for_more() -> None:
    """The recorded topology counts maxSockets, ours counts sockets; cores and threads agree."""
    for one, facts, _ in pairs().values():
        cpu, recorded = one.vmi["spec"]["domain"]["cpu"], dict(facts.keys())
        ours = topology(one.typed.spec.domain.cpu)
        most = max(cpu.get("maxSockets", 0), ours.sockets)
        assert recorded["/domain/cpu/topology/@sockets"] == str(most)
        assert recorded["/domain/vcpu"] == str(most * ours.cores * ours.threads)


def test_emulation_changes_the_type_alone() -> None:
    for one in honoured():
        if one.vmi["spec"]["domain"]["cpu"]["model"] == "host-passthrough":
            continue
        kvm = document(one.typed, DomainContext())
        emulated = document(one.typed, DomainContext(emulation=True))
        assert emulated == kvm.replace('<domain type="kvm"', '<domain type="qemu"', 1) != kvm
