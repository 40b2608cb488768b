"""A captured host lists another one's address, or reports its host UUID: the other one keeps it.

What counts is whether `--compute direct` reaches the hosts, and what their certificates may name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cert_manager import request_of_agent
from tests.integration.operator.approvals import ISSUING, PLACE, verdict
from tests.integration.operator.conftest import (
    add_node,
    operator,
    ready,
    reason,
    set_node_status,
    until,
)
from tests.integration.operator.lifecycle import message, warnings
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.certificate import CertificateRequest
from hypercobalt.api.core import Node, NodeAddress, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.direct.directory import HypervisorDirectory, Place
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

A_ADDRESS, B_ADDRESS, FREE = "198.51.100.1", "198.51.100.2", "198.51.100.3"
A_UUID, B_UUID = "aaaaaaaa-1111-4111-8111-111111111111", "bbbbbbbb-2222-4222-8222-222222222222"
C_UUID = "cccccccc-3333-4333-8333-333333333333"


async def lists(kube: Kube, node: str, *addresses: str) -> None:
    """What a kubelet writes into its own Node."""
    found = tuple(NodeAddress(type="InternalIP", address=one) for one in addresses)
    await set_node_status(kube, node, NodeStatus(addresses=found, conditions=ready()))


async def reports(kube: Kube, host: str, uuid: str) -> None:
    """What a node agent writes into the status of its own Hypervisor."""
    patch = {"status": {"hostUUID": uuid}}
    await kube.merge_patch(Hypervisor, host, patch, subresource="status")


async def places(kube: Kube, *hosts: str) -> list[Place]:
    """The hosts as `--compute direct` has them."""
    found = [await kube.get(Hypervisor, host) for host in hosts]
    directory = HypervisorDirectory(lambda: [one for one in found if one], DirectSettings())
    return list(directory.places())


async def two_hosts(kube: Kube, name: str) -> tuple[str, str]:
    """Names of the host that will be captured, and of the other; both in order."""
    a, b = f"{name}-a", f"{name}-b"
    for host, address, uuid in ((b, B_ADDRESS, B_UUID), (a, A_ADDRESS, A_UUID)):
        await add_node(kube, host, addresses=(address,))
        await until(kube, Hypervisor, host, _shows(address))
        await reports(kube, host, uuid)

    async def are_hosts() -> bool:
        known = await kube.get(Hypervisor, a), await kube.get(Hypervisor, b)
        return all(one is not None and one.metadata.annotations.get(_UUID) for one in known)

    await eventually(are_hosts)
    return a, b


_UUID = "kvm.cloud.sap/held-uuid"


def _shows(address: str) -> Callable[[Hypervisor], bool]:
    return lambda hypervisor: hypervisor.status.internalIp == address


def is_accepted(hypervisor: Hypervisor) -> bool:
    return reason(hypervisor, "IdentityAccepted") in {"", "True/Accepted"}


def is_refused(why: str) -> Callable[[Hypervisor], bool]:
    return lambda hypervisor: reason(hypervisor, "IdentityAccepted") == f"False/{why}"


async def test_address_of_another_host_takes_nothing_from_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        a, b = await two_hosts(kube, name)
        before = await kube.get(Hypervisor, b)
        await lists(kube, a, B_ADDRESS)
        refused = await until(kube, Hypervisor, a, is_refused("AddressClaimed"))

        async def is_warned() -> bool:
            return any(a in note or b in note for note in await warnings(kube, a))

        await eventually(is_warned)
        captured, other = await places(kube, a, b)
        after = await kube.get(Hypervisor, b)
        noted = await warnings(kube, b)

    assert other.control == f"qemu+tls://{B_ADDRESS}/system"
    assert (other.refused, other.unidentified) == ("", "")
    assert captured.control == f"qemu+tls://{A_ADDRESS}/system"  # looked at, where it was
    assert f"host {b} holds the address {B_ADDRESS}" in message(refused, "IdentityAccepted")
    assert f"`kubectl delete node {b}`" in message(refused, "IdentityAccepted")
    assert noted == set()
    assert before is not None
    assert after is not None
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_new_host_with_the_address_of_another_is_refused_alone(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        _, b = await two_hosts(kube, name)
        new = f"{name}-c"
        await add_node(kube, new, addresses=(B_ADDRESS,))
        await until(kube, Hypervisor, new, is_refused("AddressClaimed"))

        async def is_a_refused_place() -> bool:
            return len(await places(kube, new)) == 1

        await eventually(is_a_refused_place)
        captured, other = await places(kube, new, b)

    assert f"host {b} holds the address" in captured.refused
    assert (other.refused, other.unidentified) == ("", "")


async def test_host_uuid_of_another_host_takes_nothing_from_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        a, b = await two_hosts(kube, name)
        await reports(kube, a, B_UUID.upper())
        refused = await until(kube, Hypervisor, a, is_refused("HostUUIDClaimed"))
        captured, other = await places(kube, a, b)
        await reports(kube, a, A_UUID)
        await until(kube, Hypervisor, a, is_accepted)
        again, _ = await places(kube, a, b)

    assert (other.refused, other.unidentified) == ("", "")
    assert f"host {b} holds the host UUID {B_UUID}" in captured.unidentified
    assert f"host {b} holds the host UUID {B_UUID}" in message(refused, "IdentityAccepted")
    assert again.unidentified == ""


async def test_claims_that_are_made_while_no_operator_runs_take_nothing(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        a, b = await two_hosts(kube, name)
    await lists(kube, a, B_ADDRESS)
    await reports(kube, a, B_UUID)
    stolen = {"status": {"internalIp": B_ADDRESS}}  # as where no policy guards the status
    await kube.merge_patch(Hypervisor, a, stolen, subresource="status")
    meanwhile = await places(kube, a, b)
    async with operator(kubeconfig):
        await until(kube, Hypervisor, a, is_refused("AddressClaimed"))
        found = await places(kube, a, b)

    for captured, other in (meanwhile, found):
        assert (other.refused, other.unidentified) == ("", "")
        assert captured.refused or captured.unidentified
    assert found[0].control == f"qemu+tls://{A_ADDRESS}/system"


async def test_address_and_uuid_pass_over_when_the_holder_has_others(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        a, b = await two_hosts(kube, name)
        await lists(kube, a, B_ADDRESS)
        await reports(kube, a, B_UUID)
        await until(kube, Hypervisor, a, is_refused("AddressClaimed"))
        await lists(kube, b)  # an absence proves nothing
        await lists(kube, b, FREE)
        await until(kube, Hypervisor, b, _shows(FREE))
        await reports(kube, b, C_UUID)
        await until(kube, Hypervisor, a, _shows(B_ADDRESS))
        await until(kube, Hypervisor, a, is_accepted)
        found = await places(kube, a, b)

    assert [one.control for one in found] == [
        f"qemu+tls://{B_ADDRESS}/system",
        f"qemu+tls://{FREE}/system",
    ]
    assert [(one.refused, one.unidentified) for one in found] == [("", ""), ("", "")]


async def test_renamed_host_takes_over_once_the_old_node_is_deleted(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        _, old = await two_hosts(kube, name)
        new = f"{name}-renamed"
        await add_node(kube, new, addresses=(B_ADDRESS,))
        await until(kube, Hypervisor, new, is_refused("AddressClaimed"))
        await reports(kube, new, B_UUID)
        await kube.delete(Node, old)
        await kube.delete(Hypervisor, old)
        await until(kube, Hypervisor, new, is_accepted)
        (found,) = await places(kube, new)

    assert found.control == f"qemu+tls://{B_ADDRESS}/system"
    assert (found.refused, found.unidentified) == ("", "")


async def test_host_whose_node_is_deleted_and_created_again_is_itself_again(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig):
        a, b = await two_hosts(kube, name)
        await kube.delete(Node, b)
        await kube.delete(Hypervisor, b)
        await add_node(kube, b, addresses=(B_ADDRESS,))
        await until(kube, Hypervisor, b, _shows(B_ADDRESS))
        await reports(kube, b, B_UUID)
        await until(kube, Hypervisor, b, lambda hv: hv.metadata.annotations.get(_UUID) == B_UUID)
        found = await places(kube, a, b)

    assert [(one.refused, one.unidentified) for one in found] == [("", ""), ("", "")]


async def test_certificate_with_a_held_address_is_its_holders(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, issuing=ISSUING):
        a, b = await two_hosts(kube, name)
        await lists(kube, a, B_ADDRESS)
        await until(kube, Hypervisor, a, is_refused("AddressClaimed"))
        texts: list[str] = []
        for host in (a, b):
            made = await kube.create(request_of_agent(host, B_ADDRESS))
            found = await until(
                kube,
                CertificateRequest,
                made.metadata.name,
                lambda it: bool(verdict(it)),
                namespace=PLACE,
            )
            texts.append(verdict(found))
        for old in (await kube.list(CertificateRequest, PLACE)).items:
            await kube.delete(CertificateRequest, old.metadata.name, PLACE)

    assert f"host {b} holds {B_ADDRESS}" in texts[0]
    assert texts[0].startswith("Denied")
    assert texts[1].startswith("Approved")
