"""`cobalt network check`, `bridges` and `bonds` on a real API server."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import SWITCHES
from tests.integration.operator.switches import OVSAgent

from hypercobalt.api.conditions import set_condition
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.ovsnode import (
    Bond,
    Interfaces,
    NodeReference,
    OVNController,
    OVSNode,
    OVSNodeSpec,
    OVSNodeStatus,
    PhysicalInterface,
)
from hypercobalt.cli.network import FOUND, NOT_CHECKED, bonds, bridges, check
from hypercobalt.runtime import Kube, SystemClock

pytestmark = pytest.mark.asyncio(loop_scope="session")

BONDED = Interfaces(
    physical=(
        PhysicalInterface(name="eth0", status="Up", speed="25Gbps", bond="bond0"),
        PhysicalInterface(name="eth1", status="Down", speed="25Gbps", bond="bond0"),
        PhysicalInterface(name="eth2", status="Up"),
    ),
    bonds=(Bond(name="bond0", mode="balance-tcp", status="Degraded", members=2, activeMembers=1),),
)


async def report(kube: Kube, name: str, status: OVSNodeStatus) -> None:
    """Add to what the OVS agent of a host has reported."""
    spec = OVSNodeSpec(nodeRef=NodeReference(name=name))
    meta = ObjectMeta(name=name, namespace=SWITCHES)
    made = OVSNode(metadata=meta, spec=spec, status=status)
    await kube.as_manager("more").apply(made, force=True, subresource="status")


def chassis(number: int, **fields: object) -> OVSNodeStatus:
    controller = OVNController(chassisId=f"c{number}", encapIP=f"192.0.2.{number}")
    return OVSNodeStatus(ovnController=replace(controller, **fields))


async def test_a_fleet_is_compared_and_the_exit_code_is_the_verdict(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(check, kubeconfig=kubeconfig) == NOT_CHECKED
    assert "there are no OVSNodes" in capsys.readouterr().err
    names = [f"{name}-{number}" for number in range(1, 4)]
    for number, one in enumerate(names, 1):
        await OVSAgent(kube, one).appears()
        await report(kube, one, chassis(number))
    assert await asyncio.to_thread(check, kubeconfig=kubeconfig) == 0
    assert capsys.readouterr().out == "3 hosts, 0 findings\n"

    await report(kube, names[2], chassis(3, encapIP="192.0.2.1"))
    assert await asyncio.to_thread(check, kubeconfig=kubeconfig) == FOUND
    out = capsys.readouterr().out
    assert f"EncapAddressTaken   {names[0]}, {names[2]} have the encap address 192.0.2.1" in out
    assert out.endswith("3 hosts, 1 finding\n")
    assert await asyncio.to_thread(check, output="json", kubeconfig=kubeconfig) == FOUND
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["code"], found["hosts"]) == ("EncapAddressTaken", [names[0], names[2]])


async def test_bridges_and_bonds_of_a_host_are_printed(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await OVSAgent(kube, name).appears()
    await report(kube, name, OVSNodeStatus(interfaces=BONDED))
    assert await asyncio.to_thread(bridges, name, kubeconfig=kubeconfig) == 0
    assert capsys.readouterr().out == (
        "NAME     STATUS   DATAPATH   PORTS   FLOWS\nbr-int   Active              ?       ?\n"
    )
    counted = SystemClock().now() - timedelta(seconds=290)
    await report(kube, name, OVSNodeStatus(interfaces=BONDED, lastProbeTime=counted))
    assert await asyncio.to_thread(bridges, name, kubeconfig=kubeconfig) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"Counted 4m5\ds ago", last), last
    assert await asyncio.to_thread(bonds, name, kubeconfig=kubeconfig) == 0
    assert capsys.readouterr().out == (
        "NAME    STATUS     MODE          ACTIVE   MEMBERS\n"
        "bond0   Degraded   balance-tcp   1/2      eth0 (Up),eth1 (Down)\n"
    )
    assert await asyncio.to_thread(bonds, name, output="json", kubeconfig=kubeconfig) == 0
    assert json.loads(capsys.readouterr().out)[0]["activeMembers"] == 1


async def test_last_report_of_a_silent_agent_is_shown_as_that(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await OVSAgent(kube, name).appears()
    now = SystemClock().now()
    silent = set_condition((), "Ready", "Unknown", "AgentSilent", "no renewal", now=now)
    await report(kube, name, OVSNodeStatus(conditions=silent))
    assert await asyncio.to_thread(bridges, name, kubeconfig=kubeconfig) == 0
    shown = capsys.readouterr()
    assert "br-int" in shown.out
    assert f"{name} is shown as it was reported last: no renewal" in shown.err
    assert await asyncio.to_thread(check, kubeconfig=kubeconfig) == FOUND
    assert f"AgentSilent   {name} is not checked: no renewal" in capsys.readouterr().out


async def test_host_that_is_not_there_is_an_invalid_request(
    kube: Kube, kubeconfig: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await OVSAgent(kube, name).appears()
    assert await asyncio.to_thread(bonds, "absent", kubeconfig=kubeconfig) == 2
    assert f"there is no OVSNode absent; there are: {name}" in capsys.readouterr().err
