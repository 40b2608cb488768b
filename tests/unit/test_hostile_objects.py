"""No Node, Hypervisor or stored definitions hold the loop of the operator, raise, or stay.

A kubelet that was taken over writes its Node as it likes, and a node agent what it stores.
Short as it stands; `HOSTILE_OBJECTS=1000` and -s give the figures of docs/security.md.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import inspect
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
import pytest
from tests.contracts.direct import A, B
from tests.cost import grown, on_loop, resident_mib, turns
from tests.unit.compute.memory import C, Memory, identity

from hypercobalt.adapters.libvirt.model import Devices, Domain, DomainState
from hypercobalt.api.core import Node
from hypercobalt.api.definitions import DomainDefinition, HostDefinitions
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import Object, ObjectMeta
from hypercobalt.api.sealed_definitions import SealedDefinitions
from hypercobalt.api.sealing import KeyRing, Owner, PrivateKey
from hypercobalt.compute.direct import port_claims
from hypercobalt.compute.direct.directory import distinct, place
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.ha.host_failure.census import census
from hypercobalt.operator.agents import reporting
from hypercobalt.operator.definitions.reader import DefinitionsUnreadableError, opened
from hypercobalt.operator.eviction.observing.networks import network_of
from hypercobalt.operator.ha.devices.check import host_changed
from hypercobalt.operator.ha.observing import fleet
from hypercobalt.operator.ha.observing.fleet import state
from hypercobalt.operator.ha.observing.peers import choose
from hypercobalt.operator.metrics import Overview
from hypercobalt.operator.nodes import gardener, hypervisor, ready
from hypercobalt.operator.nodes.contested import identity_changed, identity_of
from hypercobalt.operator.nodes.from_node import first
from hypercobalt.operator.nodes.shared_storage import storages_of
from hypercobalt.operator.shared.hypervisors import INDEXES
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    COPIED_LABELS,
    HYPERVISOR_LABEL,
    TRAITS_ANNOTATION,
)
from hypercobalt.operator.shared.node_names import claims, names_of
from hypercobalt.runtime import Cache
from hypercobalt.runtime.client.collection import Page, read_page

KEY, OWNER = PrivateKey.make(), Owner("kvm-a", "uid")
OBJECTS = int(os.environ.get("HOSTILE_OBJECTS", "60"))
HELD_MS = 600
LEAK_MIB = 10
NOW = datetime(2026, 11, 21, tzinfo=UTC)
# Once, as the operator does, whichever other tests are collected: see `tests/unit/messages.py`.
decide, signal = inspect.unwrap(hypervisor.decide), inspect.unwrap(gardener.decide)
T = TypeVar("T", bound=Object)
Json = Any
Chance = random.Random
ODD: tuple[Json, ...] = (None, True, -1, 2**64, 1e300, "", "x" * 300, "\0", "\ud7ff", [], {}, [[]])


def many(chance: Chance, size: int, make: Callable[[int], Json]) -> list[Json]:
    """Return as many as fill the size, or a few."""
    count = size // len(msgspec.json.encode(make(0)))
    return [make(number) for number in range(min(count, chance.choice([1, 5, 10**6])))]


def alone(chance: Chance, size: int) -> str:
    """A text that no other object has; one character of it makes all take four bytes."""
    return f"{chance.random()} \U0001f600 {'b' * size}"


def node(chance: Chance, size: int) -> Json:
    share = size // 5
    address = chance.choice(
        ["192.0.2.{}", "kvm-a.{}.example.org", "fd00::{:x}", "10.0.0.1/system?{}"]
    )
    kind = chance.choice(["InternalIP", "Hostname", "x"])
    type_ = chance.choice(["Ready", "Terminating", "DiskPressure", "{}"])
    listed = many(chance, share, lambda n: {"type": kind, "address": address.format(n % 250)})
    conditions = many(
        chance,
        share,
        lambda n: {"type": type_.format(n), "status": "True", "reason": "A", "message": "b" * 90},
    )
    conditions.append({"type": "x", "status": "True", "message": alone(chance, size)})
    taints = many(chance, share, lambda n: {"key": f"a{n}", "effect": "NoExecute"})
    text = (
        "," * share if chance.random() < 0.3 else ",".join(many(chance, share, "CUSTOM_{}".format))
    )
    labels = dict.fromkeys(many(chance, share, "example.org/{}".format), "x" * 63)
    return {
        "metadata": {
            "name": "kvm-a",
            "labels": {HYPERVISOR_LABEL: "", **labels},
            "annotations": {TRAITS_ANNOTATION: text, AGGREGATES_ANNOTATION: text},
            "finalizers": many(chance, share, "example.org/{}".format),
        },
        "spec": {"taints": taints},
        "status": {"addresses": listed, "conditions": conditions},
    }


def stored(chance: Chance, size: int) -> Json:
    """Definitions that an attacker on a host may store: the host's own, well sealed."""
    text = chance.choice(["<domain/>", "<" * 99, "\\u0000", "x" * (size // 9)])
    line = msgspec.json.encode({"uuid": "a{}", "name": "vm", "xml": text}).decode()
    lines = ["{}", *many(chance, size, lambda n: line.replace("{}", str(n)))]
    data = gzip.compress("\n".join(lines).encode())
    sealed = base64.b64encode(KEY.public.seal(data, OWNER)).decode()
    sealed = chance.choice([sealed, sealed, sealed[:-4], "A" * size])
    spec = {"key": KEY.public.id, "hypervisorUID": OWNER.uid, "sealed": sealed}
    return {"metadata": {"name": "kvm-a", "namespace": "monsoon3"}, "spec": spec}


AMOUNTS = ("64Gi", "1e999999999", "1e400", "1e1.5", "-5", "100E", "9" * 900, ".", "1" + "0" * 30)
TIMES = (
    "2026-11-21T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    # Beyond every time in UTC, and what no clock shows: a schema takes both.
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-11-21T00:00:00+23:59",
    "0000-01-01T00:00:00Z",
    "2026-11-21T00:00:00+99:99",
)


def reported(chance: Chance, size: int) -> Json:
    """A Hypervisor whose status a captured node agent has written."""
    share, at = size // 2, chance.choice(TIMES)

    def amounts() -> Json:
        return {key: chance.choice(AMOUNTS) for key in ("cpu", "memory")}

    def condition(type_: str, message: str = "b" * 90) -> Json:
        reason = chance.choice(["AgentSilent", "Healthy", "x"])
        status = chance.choice(["True", "True", "False", "Unknown"])
        about = {"reason": reason, "message": message, "lastTransitionTime": at}
        return {"type": type_, "status": status, **about}

    known = ("Ready", "AgentReporting", "NodeHealthy", "LibVirtConnection", "DefinitionsStored")
    status = {
        "hostUUID": chance.choice(["11111111-1111-4111-8111-111111111111", "x"]),
        "internalIp": chance.choice(["10.0.0.1", "fd00::1%x", "x" * 99]),
        "bootedAt": at,
        "recentBoots": [at] * chance.choice([0, 3]),
        "numInstances": chance.choice([0, -1, 2**62]),
        "instances": many(
            chance, share, lambda n: {"id": f"a{n}", "name": "x" * 63, "active": n % 2 == 0}
        ),
        "capacity": amounts(),
        "effectiveCapacity": amounts(),
        "allocation": amounts(),
        "conditions": [
            *map(condition, known),
            condition("y", alone(chance, size)),
            *many(chance, share, lambda n: condition(f"x{n}")),
        ],
    }
    return {"metadata": {"name": "kvm-a", "uid": "u-a"}, "spec": {}, "status": status}


def damaged(chance: Chance, value: Json) -> Json:
    """A copy with one place in it changed."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(ODD)
    key = chance.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
    changed = value.copy()
    changed[key] = damaged(chance, value[key])
    return changed


def page(seed: int, make: Callable[[Chance, int], Json]) -> bytes:
    """A list of a hostile object, up to thrice as large as etcd takes, and one that is in order."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    made = make(chance, int(2 ** chance.uniform(10, 21.5)))
    for part in chance.choice([(), (), ("spec",), ("status", "spec")]):
        if part in made:
            made[part] = damaged(chance, made[part])
    return msgspec.json.encode({"items": [made, {"metadata": {"name": "kvm-b"}}]})


def followed(data: bytes, kind: type[T], cache: Cache[Any]) -> Page[T]:
    """A list of objects, as an informer takes them in."""
    listed = read_page(data, kind)
    for found in listed.items:
        cache.put(found)
    return listed


def operate(data: bytes, cache: Cache[Any]) -> None:
    """What the operator makes of a list of Nodes."""
    listed = followed(data, Node, cache)
    assert listed.items[-1].metadata.name == "kvm-b"
    assert len(listed.items) + len(listed.unreadable) == 2
    for found in listed.items:
        made = first(found, COPIED_LABELS)
        names_of(found, lambda _: listed.items)
        list(claims(found))
        decide(found, made, None, COPIED_LABELS, NOW)
        signal(
            found,
            Hypervisor(metadata=made.metadata, spec=HypervisorSpec()),
            "image",
            "kube-system",
            signalled=True,
        )


def judge(data: bytes, cache: Cache[Any]) -> None:
    """What the operator makes of all hosts when one of them has died."""
    listed = followed(data, Hypervisor, cache)
    assert listed.items[-1].metadata.name == "kvm-b"
    hosts, node = listed.items, Node(metadata=ObjectMeta(name="kvm-a"))
    states = [state(one, node, None, (), NOW, counted=fleet.instances) for one in hosts]
    assert census(states).total == len(hosts)
    choose("kvm-b", hosts)
    distinct(tuple(place(one, DirectSettings()) for one in hosts))
    for index in (*INDEXES.values(), identity_of, network_of, storages_of):
        for one in hosts:
            list(index(one))
    for changed in (host_changed, ready.worth_a_pass, reporting.worth_a_pass, identity_changed):
        for one in hosts:
            changed(hosts[-1], one)
    tuple(Overview(lambda: hosts, lambda: ()).collect())


def recover(data: bytes, cache: Cache[Any]) -> None:
    """What the operator makes of stored definitions, on a thread: here to be measured."""
    listed = followed(data, SealedDefinitions, cache)
    for found in listed.items:
        with suppress(DefinitionsUnreadableError):
            opened(found, OWNER, KeyRing(KEY))


@pytest.mark.parametrize(
    ("kind", "make", "use"),
    [
        ("Nodes", node, operate),
        ("definitions", stored, recover),
        ("Hypervisors", reported, judge),
    ],
)
@pytest.mark.timeout(120 + OBJECTS)
def test_hostile_objects_neither_hold_the_loop_nor_stay_in_memory(
    kind: str, make: Callable[[Chance, int], Json], use: Callable[[bytes, Cache[Any]], None]
) -> None:
    cache: Cache[Any] = Cache()
    longest, worst, largest, resident = 0.0, 0, 0, list[float]()
    for seed in range(OBJECTS):
        data = page(seed, make)
        held = on_loop(partial(use, data, cache))
        for key in cache.keys():  # noqa: SIM118 - a cache is iterated by object
            cache.drop(key)
        longest, worst = max((longest, worst), (held, seed))
        assert held < HELD_MS, f"seed {seed}: {held:.0f} ms"
        largest = max(largest, len(data))
        if seed % max(1, OBJECTS // 10) == 0:
            resident.append(resident_mib())
    growth = grown(resident)
    sys.stdout.write(
        f"{OBJECTS} {kind} of up to {largest / 2**20:.1f} MiB: "
        f"{longest:.0f} ms at most (seed {worst}), grown by {growth:.1f} MiB\n"
    )
    assert growth < LEAK_MIB, resident
    assert largest > 2**20


DISK = "<disk type='file'><source file='/shared/vms/{}.img'/><target dev='vda'/></disk>"


def definitions(domains: int, disks: int) -> HostDefinitions:
    """As many as a captured host stores in a few hundred KiB, before it dies."""
    kept = dict[str, DomainDefinition]()
    for number in range(domains):
        listed = "".join(DISK.format(f"{number}-{disk}") for disk in range(disks))
        xml = f"<domain><name>vm</name><devices>{listed}</devices></domain>"
        kept[identity(f"hostile-{number}")] = DomainDefinition(f"vm-{number}", xml, active=True)
    return HostDefinitions("boot", "mark", kept, version="u/1")


@pytest.mark.timeout(120)
async def test_stored_definitions_of_one_dead_host_hold_no_recovery_of_another_up() -> None:
    world = Memory()
    for host in (A, C):
        await world.lose(host)
    world.stored[C] = definitions(2000, 25)
    guest = Domain(
        identity("victim"), "victim", True, DomainState.RUNNING, devices=Devices(ports=("port",))
    )
    async with world.service() as made, turns() as seen:
        site = made.moves._site
        places = site.hosts.all_places()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(site.everywhere(places))
                group.create_task(port_claims.bind(site, guest, (B,)))
        assert await made.moves.server(identity("none")) is None
        assert len(await made.moves.servers(C)) == 2000
        (first, *_), (again, *_) = [(await site.everywhere(places))[C] for _ in range(2)]
    sys.stdout.write(f"stored definitions: {seen.longest_ms:.0f} ms at most\n")
    assert seen.longest_ms < HELD_MS
    assert first is again
