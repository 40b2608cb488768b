"""Parts of the status that go out together."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.nodes import ready
from hypercobalt.operator.shared.status_writer import Part, StatusWriter, compose, owned
from hypercobalt.runtime import Kube
from hypercobalt.runtime.write_cache import WriteCache

MINE = condition("Onboarding", "True", "Initial")
THEIRS = condition("LibVirtConnection", "True", "Connected")


def is_ready(found: Hypervisor) -> tuple[Condition, ...]:
    return (ready.condition(found, NOW),)


def of(*conditions: Condition, spec: HypervisorSpec | None = None) -> Hypervisor:
    status = HypervisorStatus(internalIp="192.0.2.1", numInstances=3, conditions=conditions)
    return hypervisor(spec=spec or HypervisorSpec(lifecycleEnabled=True), status=status)


def test_only_what_the_operator_owns_is_written() -> None:
    given = of(MINE, THEIRS, condition("HaEnabled", "True", "Succeeded"))
    status = compose(given, [], is_ready)
    assert [c.type for c in status.conditions] == ["Onboarding", "Ready"]
    assert (status.internalIp, status.numInstances) == ("192.0.2.1", None)


def test_parts_of_several_controllers_become_one_write() -> None:
    taint, done = condition("Tainted", "False"), condition("Onboarding", "False", "Succeeded")
    parts = [
        Part(frozenset({"Tainted"}), (taint,)),
        Part(frozenset({"Onboarding"}), (done,), {"serviceId": "s1"}),
    ]
    status = compose(of(MINE, THEIRS), parts, is_ready)
    assert {c.type: c.reason for c in status.conditions} == {
        "Onboarding": "Succeeded",
        "Tainted": "Some",
        "Ready": "Ready",
    }
    assert (status.serviceId, status.internalIp) == ("s1", "192.0.2.1")


def test_condition_that_its_owner_drops_is_removed() -> None:
    evicting = condition("Evicting", "False", "Succeeded")
    status = compose(of(MINE, evicting), [Part(frozenset({"Evicting"}))], is_ready)
    assert [c.type for c in status.conditions] == ["Onboarding", "Ready"]


def test_unchanged_status_is_not_written() -> None:
    given = of(MINE, THEIRS)
    first = compose(given, [], is_ready)
    stored = replace(given, status=replace(given.status, conditions=(THEIRS, *first.conditions)))
    assert compose(stored, [Part(frozenset({"Onboarding"}), (MINE,))], is_ready) == owned(stored)


@pytest.mark.parametrize(("mode", "ours"), [("ha", False), ("auto", True), (None, True)])
def test_in_mode_ha_the_ha_service_decides_whether_the_host_is_disabled(
    mode: str | None, ours: bool
) -> None:
    given = of(
        condition("HypervisorDisabled", "True"),
        spec=HypervisorSpec(lifecycleEnabled=True, maintenance=mode),
    )
    part = Part(frozenset({"HypervisorDisabled"}), (condition("HypervisorDisabled", "False"),))
    for parts in ([], [part]):
        types = {c.type for c in compose(given, parts, is_ready).conditions}
        assert ("HypervisorDisabled" in types) is ours


class Empty:
    """Neither an API server nor a Hypervisor; takes no write."""

    def as_manager(self, _name: str) -> Empty:
        return self

    def get(self, _name: str) -> None:
        """There is none."""


async def test_object_that_left_the_selection_is_not_written() -> None:
    none, stored = Empty(), of(MINE)
    writer = StatusWriter(cast("Kube", none), cast("WriteCache[Hypervisor]", none), is_ready)
    part = Part(frozenset({"Onboarding"}), (condition("Onboarding", "False", "Succeeded"),))
    assert await writer.put(stored, part) is stored
