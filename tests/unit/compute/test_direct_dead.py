"""Servers of hosts that are proven dead, from Hypervisors, marks and stored definitions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as with_fields
from tests.records import recorded

from hypercobalt.adapters.libvirt.documents.domain import parse
from hypercobalt.adapters.libvirt.documents.portable.allowed import Allowed
from hypercobalt.adapters.libvirt.model import Devices, Disk, Domain, DomainState, Evacuated
from hypercobalt.adapters.libvirt.vocabulary import ShutoffReason
from hypercobalt.api.conditions import Condition
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.api.fencing import Fencing, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.direct import servers
from hypercobalt.compute.direct.carrying import Carrying
from hypercobalt.compute.direct.dead import DeadDomain
from hypercobalt.compute.direct.definitions import (
    NotStored,
    ParsedDomains,
    StoredByAgents,
    stored_domain,
    stored_domains,
)
from hypercobalt.compute.direct.directory import Place, place
from hypercobalt.compute.direct.obstacles import waits_for_host
from hypercobalt.compute.direct.outcome import HostView, MoveOutcome, decide, ended_here
from hypercobalt.compute.direct.remains import has_left
from hypercobalt.compute.direct.returning import is_leftover
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.direct.starts import StartsInMemory, StartsUnderWay

HOST = Place("kvm-1", "id", "", "", fenced=True, fenced_boot="boot-1")
MARK = Evacuated("kvm-1", "boot-1")
PENDING = Evacuated("kvm-1", "boot-1", pending=True)
EARLIER = Evacuated("kvm-1", "boot-0")
ELSEWHERE = Evacuated("kvm-9", "boot-1")


# -- the mark in a definition ----------------------------------------------------------------------

UUID = "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"
METADATA = (
    '<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">'
    "<nova:name>a &lt;metadata&gt;</nova:name></nova:instance>"
)


@pytest.mark.parametrize(
    "more", ["", f"<metadata>{METADATA}</metadata>", "<metadata></metadata>", "<metadata/>"]
)
def test_mark_is_read_as_written_and_replaced_by_the_next(more: str) -> None:
    xml = (
        f"<domain type='kvm'><name>a</name><uuid>{UUID}</uuid>{more}"
        "<memory>1</memory><vcpu>2</vcpu></domain>\n"
    )
    carrying = Carrying(Allowed())
    assert parse(xml).evacuated is None
    once = carrying.written(xml, UUID, mark=PENDING)
    assert (parse(once).evacuated, parse(once).vcpus, parse(once).problem) == (PENDING, 2, None)
    assert once.count("<metadata") == 1
    twice = carrying.written(once, UUID, mark=Evacuated("kvm-2 \"'&<", "boot-7"))
    assert parse(twice).evacuated == Evacuated("kvm-2 \"'&<", "boot-7")
    assert twice.count("<hypercobalt:evacuated") == 1
    assert parse(twice).earlier == (), "a pending one is of no host that it was on"
    assert (METADATA in twice) == (METADATA in more)


def test_marks_of_the_hosts_before_are_kept() -> None:
    """The first host may be back last."""
    xml = f"<domain type='kvm'><name>a</name><uuid>{UUID}</uuid><memory>1</memory></domain>"
    carrying, marks = (
        Carrying(Allowed()),
        [Evacuated(f"kvm-{n}", "b", seal="a" * 64) for n in range(9)],
    )
    for mark in marks:
        xml = carrying.written(xml, UUID, mark=mark)
    assert parse(xml).evacuated == marks[8]
    assert parse(xml).earlier == tuple(reversed(marks[1:8]))
    assert parse(carrying.written(xml, UUID)).earlier == parse(xml).earlier
    assert [one.seal for one in parse(xml).earlier] == ["a" * 64] * 7
    again = carrying.written(xml, UUID, mark=Evacuated("kvm-5", "c"))
    assert [one.host for one in parse(again).earlier].count("kvm-5") == 0


# -- where a domain of a dead host is --------------------------------------------------------------


def copy(
    evacuated: Evacuated | None = None, *, active: bool = False, reason: ShutoffReason | int = 0
) -> Domain:
    state = DomainState.RUNNING if active else DomainState.SHUTOFF
    return Domain("u", "a", active, state, evacuated=evacuated, reason=int(reason))


@pytest.mark.parametrize(
    ("found", "moved_to", "left"),
    [
        pytest.param(None, "", False, id="no copy"),
        pytest.param(None, "kvm-2", False, id="no copy where it was moved to"),
        pytest.param(copy(active=True), "", False, id="one that runs"),
        pytest.param(copy(active=True), "kvm-3", False, id="one that runs elsewhere"),
        pytest.param(copy(active=True), "kvm-2", True, id="one that runs where it was moved to"),
        pytest.param(copy(), "", False, id="one that is off"),
        pytest.param(copy(), "kvm-2", True, id="off where it was moved to"),
        pytest.param(copy(reason=ShutoffReason.MIGRATED), "kvm-2", False, id="moved on from there"),
        pytest.param(copy(reason=ShutoffReason.DESTROYED), "", False, id="ended there"),
        pytest.param(copy(reason=ShutoffReason.SHUTDOWN), "", False, id="ended by its guest"),
        pytest.param(copy(MARK), "", True, id="evacuated"),
        pytest.param(replace(copy(ELSEWHERE), earlier=(MARK,)), "", True, id="twice"),
        pytest.param(copy(EARLIER), "", False, id="evacuated from an earlier boot"),
        pytest.param(copy(PENDING), "", False, id="not started"),
        pytest.param(copy(PENDING, reason=ShutoffReason.FAILED), "", False, id="failed to start"),
        pytest.param(copy(PENDING, active=True), "", True, id="started a moment ago"),
    ],
)
def test_domain_of_a_dead_host_has_left_it(found: Domain | None, moved_to: str, left: bool) -> None:
    copies = {"kvm-2": found} if found else {}
    assert has_left(HOST, copies=copies, moved_to=moved_to) is left


@pytest.mark.parametrize(
    ("elsewhere", "leftover"),
    [
        ([], False),
        ([copy()], False),
        ([copy(active=True)], False),
        ([copy(PENDING)], False),
        ([copy(PENDING, active=True)], True),
        ([copy(EARLIER, active=True)], False),
        ([copy(), copy(MARK)], True),
        ([replace(copy(ELSEWHERE), earlier=(MARK,))], True),
    ],
)
def test_stored_definition_of_a_host_that_is_back_is_ignored(
    elsewhere: list[Domain], leftover: bool
) -> None:
    assert is_leftover(HOST, elsewhere) is leftover


@pytest.mark.parametrize(
    ("found", "ended"),
    [
        (copy(reason=ShutoffReason.SHUTDOWN), True),
        (copy(reason=ShutoffReason.DESTROYED), True),
        (copy(reason=ShutoffReason.MIGRATED), False),
        (copy(), False),
        (copy(active=True, reason=ShutoffReason.SHUTDOWN), False),  # the number of another reason
    ],
)
def test_domain_has_ended_where_it_is_off_and_was_seen_to_end(found: Domain, ended: bool) -> None:
    assert ended_here(found) is ended


def test_document_of_a_dead_domain_is_in_no_log() -> None:
    dead = DeadDomain(copy(), HOST, "<domain>secret</domain>", "mark", autostart=False)
    assert "secret" not in repr(dead)


# -- a move whose host has died --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "outcome"),
    [
        (HostView.FENCED, HostView.RUNS, MoveOutcome.ARRIVED),
        (HostView.FENCED, HostView.ABSENT, MoveOutcome.LOST),
        (HostView.FENCED, HostView.OFF, MoveOutcome.LOST),
        (HostView.FENCED, HostView.FENCED, MoveOutcome.LOST),
        (HostView.FENCED, HostView.HELD, MoveOutcome.LOST),
        (HostView.FENCED, HostView.ARRIVES, MoveOutcome.UNKNOWN),  # libvirt ends it
        (HostView.FENCED, HostView.SILENT, MoveOutcome.UNKNOWN),
        (HostView.RUNS, HostView.FENCED, MoveOutcome.STAYED),
        (
            HostView.HELD,
            HostView.FENCED,
            MoveOutcome.LOST,
        ),  # its memory may be older than its disks
        (HostView.LEAVES, HostView.FENCED, MoveOutcome.UNDER_WAY),
        (HostView.SILENT, HostView.FENCED, MoveOutcome.UNKNOWN),
    ],
)
def test_move_whose_host_is_proven_dead_ends(
    source: HostView, target: HostView, outcome: MoveOutcome
) -> None:
    assert decide(source, target) is outcome


# -- hosts by their Hypervisors --------------------------------------------------------------------

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def _true(type_: str) -> Condition:
    return Condition(
        type=type_, status="True", lastTransitionTime=_THEN, reason="Test", message="as it is"
    )


@pytest.mark.parametrize(
    ("phase", "boot", "fenced", "fenced_boot", "since"),
    [
        (FencingPhase.ATTEMPTING, "boot-1", False, "", {}),
        (FencingPhase.FAILED, "boot-1", False, "", {}),
        (FencingPhase.FENCED, "boot-1", True, "boot-1", {}),
        (FencingPhase.FENCED, "boot-2", False, "boot-1", {}),
        (FencingPhase.RELEASED, "boot-1", False, "", {"forcedDownAt": _THEN}),
        (FencingPhase.FENCED, "boot-1", False, "boot-1", {"livesSince": _THEN}),
        (FencingPhase.FAILED, "boot-1", False, "boot-1", {"forcedDownAt": _THEN}),
    ],
)
def test_host_is_dead_for_the_boot_that_was_fenced(
    phase: FencingPhase, boot: str, fenced: bool, fenced_boot: str, since: dict[str, datetime]
) -> None:
    shown = Hypervisor(
        metadata=ObjectMeta(name="kvm-1"),
        status=HypervisorStatus(
            internalIp="192.0.2.1",
            hostUUID="11111111-1111-4111-8111-111111111111",
            bootID=boot,
            fencing=with_fields(Fencing(phase=phase, bootID="boot-1"), **since),
            conditions=(_true("Ready"), _true("LibVirtConnection")),
        ),
    )
    by_itself = place(shown, DirectSettings())
    assert (by_itself.fenced, by_itself.fenced_boot, by_itself.closed) == (False, "", "")
    found = place(recorded(shown), DirectSettings())
    assert (found.fenced, found.fenced_boot) == (fenced, fenced_boot)
    assert ("not back in service" in found.closed) is bool(fenced_boot)


DISK = Disk("vda", path="/shared/a.img")


@pytest.mark.parametrize(
    ("disks", "one_word", "waits"),
    [
        pytest.param((DISK,), "bmc", False, id="a disk on the storage"),
        pytest.param((Disk("vda"),), "bmc", False, id="one on the network, without a path"),
        pytest.param((Disk("sda", "lun", "/dev/sdx", block=True),), "bmc", False, id="a LUN"),
        pytest.param((), "bmc", True, id="none"),
        pytest.param((replace(DISK, readonly=True),), "bmc", True, id="one that it only reads"),
        pytest.param((Disk("sda", "cdrom"), Disk("fda", "floppy")), "bmc", True, id="drives"),
        pytest.param((), "", False, id="none, and its host is proven off by two ways"),
    ],
)
def test_server_without_a_lock_waits_while_one_word_alone_has_its_host_dead(
    disks: tuple[Disk, ...], one_word: str, waits: bool
) -> None:
    """A BMC may lie, and a host that is cut off from its storage may run on what needs none."""
    domain = replace(copy(active=True), devices=Devices(disks=disks))
    found = waits_for_host(domain, lambda _: True, one_word=one_word)
    assert bool(found) is waits
    there = servers.server(domain, "kvm-1", lambda _: True, one_word=one_word)
    assert there.waits_for_host == found


STORAGE_ONLY = "its host is cut off from its storage only: it may run on; make sure that"
BMC_ONLY = "bmc 192.0.2.1 alone reports that its host is off: it may run on; make sure that"


@pytest.mark.parametrize(
    ("method", "boot", "second", "one_word"),
    [
        (FencingMethod.STORAGE, "boot-1", None, STORAGE_ONLY),
        (FencingMethod.STORAGE, "boot-1", "a person", ""),
        (FencingMethod.STORAGE, "boot-2", None, ""),
        (FencingMethod.BMC, "boot-1", None, BMC_ONLY),
        (FencingMethod.BMC, "boot-1", "pdu 4 reports that the power is off, too", ""),
        (FencingMethod.AGENT, "boot-1", None, ""),
        (FencingMethod.EXTERNAL, "boot-1", None, ""),
        (None, "boot-1", None, ""),
    ],
)
def test_host_is_dead_by_one_word_until_another_way_confirms_it(
    method: FencingMethod | None, boot: str, second: str | None, one_word: str
) -> None:
    fenced = Fencing(
        phase=FencingPhase.FENCED,
        bootID="boot-1",
        method=method,
        device="bmc 192.0.2.1",
        confirmedBy=second,
    )
    status = HypervisorStatus(bootID=boot, fencing=fenced if method else None)
    host = recorded(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status))
    found = place(host, DirectSettings()).one_word
    assert found.startswith(one_word) if one_word else not found
    assert not found or found.endswith("kvm.cloud.sap/fenced=boot-1 of the Hypervisor")


def test_boot_id_that_a_captured_agent_chose_is_no_command() -> None:
    boot = "b1 $(id)"
    fenced = Fencing(phase=FencingPhase.FENCED, bootID=boot, method=FencingMethod.STORAGE)
    status = HypervisorStatus(bootID=boot, fencing=fenced)
    host = recorded(Hypervisor(metadata=ObjectMeta(name="kvm-1"), status=status))
    assert "kvm.cloud.sap/fenced='b1 $(id)' of" in place(host, DirectSettings()).one_word


def test_disabled_host_takes_nothing_also_after_a_restart_of_the_operator() -> None:
    conditions = (_true("Ready"), _true("LibVirtConnection"), _true("HypervisorDisabled"))
    status = HypervisorStatus(
        internalIp="192.0.2.1",
        hostUUID="11111111-1111-4111-8111-111111111111",
        conditions=conditions,
    )
    found = place(Hypervisor(metadata=ObjectMeta(name="h"), status=status), DirectSettings())
    assert found.closed == "it is disabled: as it is"


# -- what agents have stored ----------------------------------------------------------------------

STORED = HostDefinitions("boot-1", "mark", {"u": DomainDefinition("a", "<domain/>", active=True)})


async def test_definitions_of_a_host_are_read_once_for_all_its_servers() -> None:
    now, reads = 0.0, list[str]()

    class Read:
        starts: StartsUnderWay = StartsInMemory()

        async def of(self, host: str) -> HostDefinitions:
            reads.append(host)
            return STORED

        async def mark_keys(self) -> tuple[bytes, ...]:
            reads.append("keys")
            return (b"key",)

    stored = StoredByAgents(Read(), lambda: now)
    assert [await stored.of("kvm-1") for _ in range(20)] == [STORED] * 20
    assert reads == ["kvm-1"]
    now = 6.0
    assert await stored.of("kvm-1") == STORED
    assert reads == ["kvm-1", "kvm-1"]
    assert [await stored.mark_keys() for _ in range(20)] == [(b"key",)] * 20
    assert reads == ["kvm-1", "kvm-1", "keys"]


async def test_domains_of_a_large_host_are_those_of_a_small_one() -> None:
    xml = f"<domain><name>a</name><description>{'x' * 10_000}</description></domain>"
    large = HostDefinitions(
        domains={f"u{n}": DomainDefinition(f"vm-{n}", xml, active=bool(n % 2)) for n in range(40)}
    )
    found = await stored_domains(large)
    assert found == tuple(stored_domain(large, uuid) for uuid in large.domains)
    assert [one.active for one in found[:2]] == [False, True]


@pytest.mark.parametrize(
    ("stored", "runs"),
    [
        pytest.param(DomainDefinition("a", "<domain/>", active=True), True, id="ran"),
        pytest.param(DomainDefinition("a", "<domain/>", crashed=True), True, id="had crashed"),
        pytest.param(DomainDefinition("a", "<domain/>"), False, id="was stopped"),
        pytest.param(
            DomainDefinition("a", "<domain/>", active=True, halted=True), False, id="was suspended"
        ),
    ],
)
def test_instance_that_was_not_stopped_runs_again_once_its_host_is_dead(
    stored: DomainDefinition, *, runs: bool
) -> None:
    assert stored_domain(HostDefinitions(domains={"u": stored}), "u").active is runs


def _stored(version: str, characters: int = 10) -> HostDefinitions:
    xml = f"<domain><name>a</name><description>{'x' * characters}</description></domain>"
    return HostDefinitions(domains={"u": DomainDefinition("vm", xml)}, version=version)


async def test_stored_domains_are_parsed_once_for_each_version() -> None:
    parsed = ParsedDomains()
    (first,) = await parsed.of(_stored("u/1"))
    assert (await parsed.of(_stored("u/1")))[0] is first
    assert (await parsed.of(_stored("u/2")))[0] is not first
    assert (await parsed.of(_stored("u/1")))[0] is first


async def test_domains_of_an_unknown_version_are_parsed_each_time() -> None:
    parsed = ParsedDomains()
    (first,) = await parsed.of(_stored(""))
    (second,) = await parsed.of(_stored(""))
    assert (first is second, first) == (False, second)


async def test_stored_domains_that_were_used_last_are_kept() -> None:
    parsed, large = ParsedDomains(), 15 * 1024**2
    (first,) = await parsed.of(_stored("u/1", large))
    (second,) = await parsed.of(_stored("u/2", large))
    assert (await parsed.of(_stored("u/1", large)))[0] is first
    await parsed.of(_stored("u/3", large))
    assert (await parsed.of(_stored("u/1", large)))[0] is first
    assert (await parsed.of(_stored("u/2", large)))[0] is not second


async def test_several_waiting_for_stored_domains_parse_them_once() -> None:
    parsed, large = ParsedDomains(), _stored("u/1", 300_000)
    found = await asyncio.gather(*(parsed.of(large) for _ in range(5)))
    assert all(one[0] is found[0][0] for one in found)


async def test_definitions_of_several_dead_hosts_are_kept_as_far_as_there_is_room() -> None:
    reads = list[str]()

    class Read(NotStored):
        async def of(self, host: str) -> HostDefinitions:
            reads.append(host)
            return _stored("u/1", 15 * 1024**2)

    stored = StoredByAgents(Read(), lambda: 0.0)
    for host in ("kvm-1", "kvm-2", "kvm-1", "kvm-2", "kvm-3", "kvm-2", "kvm-1"):
        await stored.of(host)
    assert reads == ["kvm-1", "kvm-2", "kvm-3", "kvm-1"]
