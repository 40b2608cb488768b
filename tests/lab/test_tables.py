"""What kubectl shows of real hosts and a real migration: the documented tables, real values."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypercobalt.api.conditions import is_true
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.migration import Migration
from hypercobalt.lab.agents import NAMESPACE, NODE_AGENT
from hypercobalt.lab.host import Host
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.runtime import Kube
from tests.lab.kit.served import served_lab
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)

KUBECTL = Path(sys.executable).with_name("kubectl")
DEADLINE_SECONDS = 30.0

HARDWARE = "PowerEdge R860"
OLD = ("NAME", "VERSION", "INSTANCES", "HARDWARE", "KERNEL", "AGE")  # NODE is NAME
NARROW = (
    *("NAME", "READY", "STATE", "TAINT", "LIFECYCLE", "HIGH AVAILABILITY", "SKIP TESTS"),
    *("VERSION", "IP", "INSTANCES", "AGE"),
)
WIDE = (
    *("NAME", "ZONE", "BUILDING BLOCK", "GROUP", "READY", "STATE", "TAINT", "LIFECYCLE"),
    *("HIGH AVAILABILITY", "SKIP TESTS", "VERSION", "IP", "INSTANCES", "HARDWARE", "KERNEL"),
    *("ONBOARDING", "SERVICE ID", "HYPERVISOR ID", "AGE", "BOOTED", "FENCED", "OPERATOR"),
)
MIGRATIONS = (
    *("NAME", "ORIGIN", "DESTINATION", "TYPE", "OPERATION", "STARTED", "ELAPSED", "DATA TOTAL"),
    *("DATA PROCESSED", "DATA REMAINING", "MEMORY TX", "MEMORY DIRTY RATE", "MEMORY ITERATION"),
)

AGE = r"\d+s|\d+m(\d+s)?"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SIZE = r"\d+ B|\d+\.\d [KMG]iB"
DURATION = r"\d+ms|(\d+m)?\d+(\.\d{1,3})?s"
RUNNING = {
    "NAME": rf"{UUID}-\d{{8}}-\d{{6}}",
    "STARTED": AGE,
    "ELAPSED": DURATION,
    **dict.fromkeys(("DATA TOTAL", "DATA PROCESSED", "DATA REMAINING"), SIZE),
    "MEMORY TX": rf"({SIZE})/s",
    "MEMORY DIRTY RATE": r"\d+/s",
    "MEMORY ITERATION": r"\d+",
}

Row = dict[str, str]


@pytest.fixture(scope="module")
def served(able_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two hosts in service."""
    yield from served_lab(tmp_path_factory.mktemp("tables"), hosts=2)


async def kubectl(lab: Lab, *arguments: str) -> str:
    home = lab.layout.data / "kubectl"
    child = await asyncio.create_subprocess_exec(
        *(str(KUBECTL), "--kubeconfig", str(lab.control.kubeconfig), "--cache-dir", str(home)),
        *arguments,
        env=os.environ | {"HOME": str(home)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        printed = (await child.communicate())[0].decode()
    assert child.returncode == 0, printed
    return printed


async def table(lab: Lab, *arguments: str) -> tuple[tuple[str, ...], list[Row]]:
    """The columns, and the rows by column."""
    head, *lines = (await kubectl(lab, *arguments)).splitlines()
    columns = list(re.finditer(r"\S+(?: \S+)*", head))
    starts = [column.start() for column in columns]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    names = tuple(column.group() for column in columns)
    return names, [
        {name: line[i:j].strip() for name, (i, j) in zip(names, spans, strict=True)}
        for line in lines
    ]


def misfits(row: Row, wanted: dict[str, str]) -> dict[str, str]:
    """Cells that are not of their column's form."""
    return {name: row[name] for name, form in wanted.items() if not re.fullmatch(form, row[name])}


async def truth_of(host: Host) -> Row:
    """The host's own values of what the table shows."""
    description = json.loads(await host.run("hostnamectl", "--json=short"))
    domains = await host.run("virsh", "-q", "list", "--all", "--name")
    return {
        "VERSION": description["OperatingSystemPrettyName"],
        "HARDWARE": description["HardwareModel"] or "",
        "KERNEL": (await host.run("uname", "-r")).strip(),
        "INSTANCES": str(len(domains.split())),
        "IP": host.address,
    }


async def test_hypervisors_and_migrations_look_as_documented(served: Lab) -> None:
    fleet = Fleet(served)
    async with served.control.client() as kube:
        await give_hardware(kube, served.host("kvm-1"))
        await fleet.add(
            VMRequest(name="stays", host="kvm-1", kind="boot", network=False),
            VMRequest(name="moved", host="kvm-1", network=False),
        )
        await until(lambda: shown(kube, {"kvm-1": 2, "kvm-2": 0}))
        await hypervisors(served)

        move = asyncio.create_task(fleet.move("moved", "kvm-2", mib_per_second=8))
        await until(lambda: migrates(kube, "unbounded"))
        names, (row,) = await table(served, "get", "migrations")
        assert names == MIGRATIONS
        assert (row["ORIGIN"], row["TYPE"], row["OPERATION"]) == (
            "kvm-1",
            "unbounded",
            "migration_out",
        )
        assert misfits(row, RUNNING) == {}

        await move
        await until(lambda: migrates(kube, "completed"))
        await until(lambda: shown(kube, {"kvm-1": 1, "kvm-2": 1}))
    names, (done,) = await table(served, "get", "migrations")
    assert names == MIGRATIONS
    assert misfits(done, RUNNING) == {}
    assert {
        name: done[name] for name in ("NAME", "ORIGIN", "DESTINATION", "TYPE", "OPERATION")
    } == {
        "NAME": row["NAME"],
        "ORIGIN": "kvm-1",
        "DESTINATION": "kvm-2",
        "TYPE": "completed",
        "OPERATION": "migration_out",
    }
    assert done["NAME"].startswith(str(fleet.id_of("moved")))
    assert done["DATA REMAINING"] == "0 B"
    await hypervisors(served)


async def give_hardware(kube: Kube, host: Host) -> None:
    """Have a host be of the documented make: a virtual machine's firmware names none."""
    await host.run("tee", "/etc/machine-info", stdin=f"HARDWARE_MODEL='{HARDWARE}'\n")
    await host.run("systemctl", "restart", "systemd-hostnamed.service", NODE_AGENT)

    async def is_shown() -> bool:
        found = await kube.get(Hypervisor, host.name)
        system = found.status.operatingSystem if found else None
        return system is not None and system.hardwareModel == HARDWARE

    await until(is_shown)


async def hypervisors(lab: Lab) -> None:
    names, rows = await table(lab, "get", "hv", "-o", "wide")
    assert names == WIDE
    assert set(OLD) <= set(names)
    assert [row["NAME"] for row in rows] == ["kvm-1", "kvm-2"]
    for row, zone in zip(rows, ("lab-a", "lab-b"), strict=True):
        truth = await truth_of(lab.host(row["NAME"]))
        assert {name: row[name] for name in truth} == truth
        assert row["NAME"] != "kvm-1" or row["HARDWARE"] == HARDWARE
        in_service = {
            "ZONE": zone,
            "BUILDING BLOCK": "lab",
            "GROUP": "lab",
            "READY": "True",
            "STATE": "Ready",
            "TAINT": "🟢",
            "LIFECYCLE": "true",
            "HIGH AVAILABILITY": "true",
            "SKIP TESTS": "false",
            "ONBOARDING": "Succeeded",
        }
        assert {name: row[name] for name in in_service} == in_service
        assert misfits(row, {"SERVICE ID": UUID, "HYPERVISOR ID": UUID, "AGE": AGE}) == {}
    names, narrow = await table(lab, "get", "hypervisors.kvm.cloud.sap")
    assert names == NARROW
    same = [name for name in NARROW if name != "AGE"]
    assert [[row[name] for name in same] for row in narrow] == [
        [row[name] for name in same] for row in rows
    ]


async def shown(kube: Kube, counts: dict[str, int]) -> bool:
    """Whether the hosts are in service with so many instances."""
    found = {hv.metadata.name: hv for hv in (await kube.list(Hypervisor)).items}
    return all(
        is_true(found[name].conditions, HypervisorConditionType.READY)
        and found[name].status.numInstances == count
        for name, count in counts.items()
    )


async def migrates(kube: Kube, type_: str) -> bool:
    """Whether there is a migration of this type, with all that is known of one."""
    found = (await kube.list(Migration, NAMESPACE)).items
    return any(
        one.status.type == type_
        and bool(one.status.memBps)
        and (type_ != "completed" or bool(one.status.destination))
        for one in found
    )
