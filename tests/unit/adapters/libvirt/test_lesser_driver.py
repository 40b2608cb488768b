"""A driver that has fewer calls and events than QEMU's, as Cloud Hypervisor's has."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import libvirt
import pytest

from hypercobalt.adapters.libvirt import inventory
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCell,
    Versions,
)
from hypercobalt.adapters.libvirt.subscriptions import Subscriptions

UUID = "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"


class Refused(libvirt.libvirtError):
    def __init__(self, code: int) -> None:
        Exception.__init__(self, f"error {code}")
        self._code = code

    def get_error_code(self) -> int | None:
        return self._code


class Handle:
    def __init__(self, owner: Driver, *, gone: bool = False) -> None:
        self._owner = owner
        self._gone = gone

    def UUIDString(self) -> str:  # noqa: N802
        return UUID

    def ID(self) -> int:  # noqa: N802
        return 4

    def name(self) -> str:
        return "cloud"

    def connect(self) -> Driver:
        return self._owner

    def state(self) -> tuple[int, int]:
        if self._gone:
            raise Refused(libvirt.VIR_ERR_NO_DOMAIN)
        return 1, 1

    def info(self) -> tuple[int, int, int, int, int]:
        self.state()
        return 1, 2048, 1024, 3, 5_000_000

    def XMLDesc(self) -> str:  # noqa: N802
        return self._owner.document()

    def jobStats(self, _flags: int = 0) -> dict[str, int]:  # noqa: N802
        raise Refused(libvirt.VIR_ERR_NO_SUPPORT)


class Driver:
    """Refuses everything that Cloud Hypervisor's driver of libvirt 9 does not have."""

    def __init__(self, *, events: frozenset[int] = frozenset(), alive: bool = True) -> None:
        self.events = events
        self.alive = alive
        self.dropped: list[int] = []
        self.handles = [Handle(self, gone=True), Handle(self)]
        self.document: Callable[[], str] = lambda: "<domain><memory>1024</memory></domain>"

    def isAlive(self) -> int:  # noqa: N802
        return int(self.alive)

    def getLibVersion(self) -> int:  # noqa: N802
        return 10_002_003

    def getVersion(self) -> int:  # noqa: N802
        raise Refused(libvirt.VIR_ERR_NO_SUPPORT)

    def getType(self) -> str:  # noqa: N802
        return "CH"

    def getInfo(self) -> tuple[str, int, int]:  # noqa: N802
        return "x86_64", 512, 2

    def getCapabilities(self) -> str:  # noqa: N802
        return "<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>"

    def getAllDomainStats(self, *_: int) -> list[object]:  # noqa: N802
        raise Refused(libvirt.VIR_ERR_NO_SUPPORT)

    def getDomainCapabilities(self, *_: object) -> str:  # noqa: N802
        raise Refused(libvirt.VIR_ERR_NO_SUPPORT)

    def listAllDomains(self, flags: int = 0) -> list[Handle]:  # noqa: N802
        if flags == libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE:
            raise Refused(libvirt.VIR_ERR_INVALID_ARG)
        return self.handles

    def lookupByUUIDString(self, _uuid: str) -> Handle:  # noqa: N802
        return self.handles[1]

    def domainEventRegisterAny(self, _domain: None, event: int, *_: object) -> int:  # noqa: N802
        if event not in self.events:
            raise Refused(libvirt.VIR_ERR_NO_SUPPORT)
        return 100 + event

    def domainEventDeregisterAny(self, callback: int) -> None:  # noqa: N802
        self.dropped.append(callback)
        raise Refused(libvirt.VIR_ERR_INVALID_ARG)


def connection(driver: Driver) -> libvirt.virConnect:
    return cast("libvirt.virConnect", driver)


def test_what_is_not_there_is_said_in_words() -> None:
    described = inventory.describe(connection(Driver()))

    assert described.versions == Versions("10.2.3", "unknown")
    assert described.missing == (
        "bulk statistics",
        "domain capabilities",
        "the version of the hypervisor",
    )


def test_events_that_are_not_there_are_named_once_and_the_others_had() -> None:
    driver = Driver(events=frozenset({libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE}))
    subscriptions = Subscriptions(connection(driver))

    missing = subscriptions.make(lambda _: None)
    subscriptions.end()

    assert "lifecycle events" not in missing
    assert "migration-iteration events" in missing
    assert missing.count("device-changed events") == 1
    assert driver.dropped == [100]


def test_a_connection_that_breaks_meanwhile_is_not_a_lack() -> None:
    with pytest.raises(libvirt.libvirtError):
        Subscriptions(connection(Driver(alive=False))).make(lambda _: None)


def test_domains_are_asked_one_by_one() -> None:
    listed = inventory.domains(connection(Driver()), Definitions(), jobs=True)

    assert listed == (
        Domain(
            UUID,
            "cloud",
            active=True,
            state=DomainState.RUNNING,
            memory_bytes=1024**2,
            vcpus=1,
        ),
    )


def test_counters_are_what_the_domain_info_says() -> None:
    (counted,) = inventory.counters(connection(Driver()))

    assert (counted.uuid, counted.name, counted.vcpu_count) == (UUID, "cloud", 3)
    assert (counted.memory_bytes, counted.memory_maximum_bytes) == (1024**2, 2 * 1024**2)


def test_there_is_no_job_without_the_call() -> None:
    assert inventory.job(connection(Driver()), UUID, completed=False) is None


def test_a_host_without_topology_is_one_cell() -> None:
    host = inventory.host_capabilities(connection(Driver()))

    assert host.cells == (HostCell(0, 512 * 1024**2, frozenset({0, 1}), 2),)


def test_without_domain_capabilities_architecture_and_driver_are_known() -> None:
    assert inventory.domain_capabilities(connection(Driver())) == DomainCapabilities("x86_64", "ch")


@pytest.mark.parametrize(
    ("code", "problem"),
    [(libvirt.VIR_ERR_RPC, "libvirt does not give the document: error 39"), (None, "not UTF-8")],
)
def test_a_document_that_is_not_given_is_a_problem_of_its_domain(
    code: int | None, problem: str
) -> None:
    def document() -> str:
        if code is None:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        raise Refused(code)

    driver = Driver()
    driver.document = document
    (domain,) = inventory.domains(connection(driver), Definitions(), jobs=True)

    assert domain.problem
    assert problem in domain.problem


def test_a_domain_that_goes_while_it_is_read_is_not_listed() -> None:
    def document() -> str:
        raise Refused(libvirt.VIR_ERR_NO_DOMAIN)

    driver = Driver()
    driver.document = document

    assert inventory.domains(connection(driver), Definitions(), jobs=True) == ()
