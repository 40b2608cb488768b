"""A driver that has fewer calls and events than QEMU's, as Cloud Hypervisor's has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from tests.unit.adapters.libvirt.made_up import Answer, MadeUpDaemon, connected, error

from hypercobalt.adapters.libvirt import inventory, probes
from hypercobalt.adapters.libvirt.definitions import Definitions
from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainState,
    HostCell,
    Versions,
)
from hypercobalt.adapters.libvirt.rpc import event_types, numbers, protocol
from hypercobalt.adapters.libvirt.rpc.client import Client
from hypercobalt.adapters.libvirt.rpc.errors import ClosedError
from hypercobalt.adapters.libvirt.rpc.numbers import ErrorCode
from hypercobalt.adapters.libvirt.rpc.protocol import DomainRef, Procedure
from hypercobalt.adapters.libvirt.subscriptions import subscribe
from hypercobalt.adapters.libvirt.vocabulary import RunningReason

Both = tuple[MadeUpDaemon, Client]

CLOUD = "8c7d4ba7-3b07-43c6-9a25-a2b6ba2e3b1e"
GONE = "00000000-0000-0000-0000-000000000001"
NO_SUPPORT = error(ErrorCode.NO_SUPPORT, "this function is not supported")
NO_DOMAIN = error(ErrorCode.NO_DOMAIN, "Domain not found")


def ref(name: str, uuid: str, id_: int) -> DomainRef:
    return DomainRef(name, UUID(uuid).bytes, id_)


def of(answer: Answer, arguments: protocol.DomainFlags | protocol.OneDomain) -> Answer:
    """The answer for the domain that is there."""
    return answer if arguments.domain == REFS[1] else NO_DOMAIN


REFS = (ref("gone", GONE, 3), ref("cloud", CLOUD, 4))


@pytest.fixture
async def both() -> AsyncIterator[Both]:
    """A daemon that refuses what Cloud Hypervisor's driver of libvirt 9 does not have."""
    async with connected() as (daemon, client):
        plain: dict[Procedure[Any, Any], Answer] = {
            protocol.GET_LIB_VERSION: protocol.Version(10_002_003),
            protocol.GET_VERSION: NO_SUPPORT,
            protocol.GET_TYPE: protocol.Text("CH"),
            protocol.NODE_GET_INFO: protocol.NodeInfo(bytes(128), 512 * 1024, 2, 0, 1, 1, 2, 1),
            protocol.GET_CAPABILITIES: protocol.Text(
                "<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>"
            ),
            protocol.GET_ALL_DOMAIN_STATS: NO_SUPPORT,
            protocol.GET_DOMAIN_CAPABILITIES: NO_SUPPORT,
            protocol.DOMAIN_LOOKUP_BY_UUID: protocol.OneDomain(REFS[1]),
            protocol.DOMAIN_GET_CONTROL_INFO: NO_SUPPORT,
            protocol.DOMAIN_GET_JOB_STATS: NO_SUPPORT,
            protocol.EVENT_REGISTER: NO_SUPPORT,
        }
        daemon.answers |= {procedure.number: answer for procedure, answer in plain.items()}
        daemon.when(
            protocol.LIST_ALL_DOMAINS,
            lambda arguments: (
                protocol.Domains(REFS, 2)
                if arguments.flags != numbers.ListFlag.MANAGED_SAVE
                else error(ErrorCode.INVALID_ARG, "unsupported flags")
            ),
        )
        of_cloud: dict[Procedure[Any, Any], Answer] = {
            protocol.DOMAIN_GET_STATE: protocol.State(1, 1),
            protocol.DOMAIN_GET_INFO: protocol.Info(1, 2048, 1024, 3, 5_000_000),
            protocol.DOMAIN_GET_XML_DESC: protocol.Text("<domain><memory>1024</memory></domain>"),
        }
        for procedure, answer in of_cloud.items():
            daemon.when(procedure, partial(of, answer))
        yield daemon, client


async def test_calls_that_the_driver_lacks_are_listed(both: Both) -> None:
    described = await inventory.describe(both[1])

    assert described.versions == Versions("10.2.3", "unknown")
    assert described.missing == (
        "bulk statistics",
        "domain capabilities",
        "the version of the hypervisor",
    )


async def test_events_that_are_not_there_are_named_once_and_the_others_had(both: Both) -> None:
    daemon, client = both
    daemon.when(
        protocol.EVENT_REGISTER,
        lambda arguments: (
            protocol.Number(0) if arguments.event == event_types.LIFECYCLE.id else NO_SUPPORT
        ),
    )
    missing = await subscribe(client, lambda _: None)

    assert "lifecycle events" not in missing
    assert "migration-iteration events" in missing
    assert missing.count("device-changed events") == 1


async def test_a_connection_that_breaks_meanwhile_is_not_a_lack(both: Both) -> None:
    daemon, client = both
    daemon.hang_up()

    with pytest.raises(ClosedError):
        await subscribe(client, lambda _: None)


async def test_domains_are_read_one_by_one(both: Both) -> None:
    listed = await inventory.domains(both[1], Definitions(), jobs=True)

    assert listed == (
        Domain(
            CLOUD,
            "cloud",
            active=True,
            state=DomainState.RUNNING,
            memory_bytes=1024**2,
            vcpus=1,
            reason=RunningReason.BOOTED,
            id=4,
        ),
    )


async def test_counters_are_those_of_the_domain_info(both: Both) -> None:
    (counted,) = await inventory.counters(both[1])

    assert (counted.uuid, counted.name, counted.vcpu_count) == (CLOUD, "cloud", 3)
    assert counted.memory_bytes == 1024**2


async def test_there_is_no_job_without_the_call(both: Both) -> None:
    assert await inventory.job(both[1], CLOUD, completed=False) is None


async def test_value_that_the_driver_does_not_offer_is_unknown(both: Both) -> None:
    daemon, client = both
    for procedure in (
        protocol.DOMAIN_GET_CONTROL_INFO,
        protocol.DOMAIN_GET_DISK_ERRORS,
        protocol.QEMU_AGENT_COMMAND,
    ):
        daemon.answers[procedure.number] = NO_SUPPORT

    assert await probes.control_info(client, CLOUD) is None
    assert await probes.block_stats(client, CLOUD) is None
    assert await probes.disk_errors(client, CLOUD) == ()
    assert await probes.agent_answers(client, CLOUD) is None


async def test_a_host_without_topology_is_one_cell(both: Both) -> None:
    host = await inventory.host_capabilities(both[1])

    assert host.cells == (HostCell(0, 512 * 1024**2, frozenset({0, 1}), 2),)


async def test_without_domain_capabilities_architecture_and_driver_are_known(both: Both) -> None:
    assert await inventory.domain_capabilities(both[1]) == DomainCapabilities("x86_64", "ch")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (error(ErrorCode.RPC, "error 39"), "libvirt does not give the document: error 39"),
        (protocol.Text("<domain>\udcff</domain>"), "not UTF-8"),
    ],
)
async def test_a_document_that_is_not_given_is_a_problem_of_its_domain(
    both: Both, document: protocol.Error | protocol.Text, problem: str
) -> None:
    daemon, client = both
    daemon.answers[protocol.DOMAIN_GET_XML_DESC.number] = document
    (domain,) = await inventory.domains(client, Definitions(), jobs=True)

    assert domain.problem
    assert problem in domain.problem


async def test_a_domain_that_goes_while_it_is_read_is_not_listed(both: Both) -> None:
    daemon, client = both
    daemon.answers[protocol.DOMAIN_GET_XML_DESC.number] = NO_DOMAIN

    assert await inventory.domains(client, Definitions(), jobs=True) == ()
