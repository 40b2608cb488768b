"""`HaEnabled`, where no outside service writes it."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import cast

import pytest
from msgspec.structs import replace
from tests.unit.operator.lifecycle.facts import ON, facts, state_of
from tests.unit.operator.samples import condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.ha_switch import HA_ENABLED
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.lifecycle.ha_enabled import (
    ENABLED,
    FencingReadiness,
    HaEnabledSync,
    decide,
)
from hypercobalt.operator.lifecycle.step import LifecycleFacts
from hypercobalt.operator.shared.ha_mode import HaMode
from hypercobalt.runtime import ConflictError, Kube
from hypercobalt.runtime.client.errors import Status
from hypercobalt.runtime.write_cache import WriteCache

WANTED = replace(ON, highAvailability=True)
OURS = condition("HaEnabled", "True", "Succeeded", ENABLED)
DONE = condition("Onboarding", "False", "Succeeded")
LIBVIRT = condition("LibVirtConnection", "True", "Connected")
VALID = condition("HaConfigValid", "True", "Valid")
STAYS_OFF = condition("AutostartOff", "True", "Off")
STARTS = condition("AutostartOff", "False", "LibvirtGuestsEnabled")
UNREAD = condition("HaConfigValid", "Unknown", "NotRead")
INVALID = condition("HaConfigValid", "False", "Invalid")


def given(*conditions: Condition, wanted: bool = True) -> LifecycleFacts:
    return facts(OURS, *conditions, spec=WANTED if wanted else ON)


def switched(known: LifecycleFacts, wish: str) -> LifecycleFacts:
    """The same, with what another controller wants."""
    meta = replace(known.hypervisor.metadata, annotations={HA_ENABLED: wish})
    return dataclasses.replace(known, hypervisor=replace(known.hypervisor, metadata=meta))


@pytest.mark.parametrize(
    ("known", "state"),
    [
        pytest.param(given(DONE, LIBVIRT), "True/Succeeded", id="in service"),
        pytest.param(
            given(condition("Onboarding", "True", "Handover"), LIBVIRT),
            "True/Succeeded",
            id="handed over",
        ),
        pytest.param(given(DONE, LIBVIRT, wanted=False), "False/Succeeded", id="not wanted"),
        pytest.param(
            given(DONE, LIBVIRT, condition("Evicting", "False", "Succeeded")),
            "False/Evicted",
            id="empty",
        ),
        pytest.param(
            given(condition("Onboarding", "True", "Testing"), LIBVIRT),
            "False/Onboarding",
            id="in its test",
        ),
        pytest.param(
            given(condition("Onboarding", "False", "Aborted"), LIBVIRT),
            "False/Onboarding",
            id="aborted",
        ),
        pytest.param(given(DONE), "Unknown/Failed", id="a failure would go undetected"),
        pytest.param(
            given(DONE, LIBVIRT, condition("AgentReporting", "False", "AgentSilent")),
            "Unknown/AgentSilent",
            id="the agent is silent",
        ),
        pytest.param(given(LIBVIRT), "", id="before an onboarding"),
    ],
)
def test_reasons_are_those_of_the_existing_controller(known: LifecycleFacts, state: str) -> None:
    found = decide(known)
    assert (f"{found[0]}/{found[1]}" if found else "") == state


@pytest.mark.parametrize(
    ("ha", "conditions", "unfenced", "state"),
    [
        pytest.param(HaMode.OFF, (LIBVIRT,), "", "False/Succeeded", id="off for all hosts"),
        pytest.param(HaMode.INTERNAL, (LIBVIRT,), "", "True/Succeeded", id="all is set up"),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT, VALID), "", "True/Succeeded", id="with its configuration"
        ),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT, STAYS_OFF), "", "True/Succeeded", id="it starts no guests"
        ),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT, STARTS), "", "Unknown/Failed", id="it starts guests at boot"
        ),
        pytest.param(
            HaMode.EXTERNAL, (LIBVIRT, STARTS), "", "True/Succeeded", id="not ours to evacuate"
        ),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT, INVALID), "", "Unknown/Failed", id="which is not valid"
        ),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT, UNREAD), "", "Unknown/Failed", id="cannot read its ConfigMap"
        ),
        pytest.param(
            HaMode.INTERNAL, (LIBVIRT,), "no device", "Unknown/Failed", id="cannot be fenced"
        ),
        pytest.param(
            HaMode.EXTERNAL, (LIBVIRT, INVALID), "no device", "True/Succeeded", id="not ours to do"
        ),
    ],
)
def test_own_service_needs_its_configuration_and_a_fence_device(
    ha: HaMode, conditions: tuple[Condition, ...], unfenced: str, state: str
) -> None:
    found = decide(given(DONE, *conditions), ha, unfenced)
    assert found is not None
    assert f"{found[0]}/{found[1]}" == state


@pytest.mark.parametrize(
    ("ha", "libvirt", "state"),
    [
        pytest.param(HaMode.EXTERNAL, (), "", id="no condition means that it is off"),
        pytest.param(HaMode.EXTERNAL, (LIBVIRT,), "True", id="it is on from now"),
        pytest.param(HaMode.INTERNAL, (), "Unknown", id="our own service shows why"),
    ],
)
def test_missing_condition_is_set_by_mode_and_libvirt(
    ha: HaMode, libvirt: tuple[Condition, ...], state: str
) -> None:
    found = decide(facts(DONE, *libvirt, spec=WANTED), ha)
    assert (found[0] if found else "") == state


SILENT_AGENT = condition("AgentReporting", "False", "AgentSilent")


@pytest.mark.parametrize("ha", [HaMode.INTERNAL, HaMode.EXTERNAL])
@pytest.mark.parametrize(
    ("wish", "conditions", "wanted", "state"),
    [
        pytest.param(None, (DONE, LIBVIRT), True, "True/Succeeded", id="no wish"),
        pytest.param("true", (DONE, LIBVIRT), True, "True/Succeeded", id="on"),
        pytest.param("maybe", (DONE, LIBVIRT), True, "True/Succeeded", id="no value"),
        pytest.param("false", (DONE, LIBVIRT), True, "False/Succeeded", id="off"),
        pytest.param("true", (DONE, LIBVIRT), False, "False/Succeeded", id="on against the spec"),
        pytest.param("true", (DONE,), True, "Unknown/Failed", id="on, and nothing reports"),
        pytest.param("false", (DONE, SILENT_AGENT), True, "False/Succeeded", id="off and silent"),
        pytest.param(
            "false",
            (DONE, condition("Evicting", "False", "Succeeded")),
            True,
            "False/Evicted",
            id="off and empty",
        ),
        pytest.param(
            "false",
            (condition("Onboarding", "True", "Testing"),),
            True,
            "False/Onboarding",
            id="off in its test",
        ),
    ],
)
def test_annotation_and_spec_must_both_allow_ha(
    ha: HaMode, wish: str | None, conditions: tuple[Condition, ...], wanted: bool, state: str
) -> None:
    known = given(*conditions, wanted=wanted)
    found = decide(known if wish is None else switched(known, wish), ha)
    assert found is not None
    assert f"{found[0]}/{found[1]}" == state


def test_message_names_the_annotation_to_remove() -> None:
    found = decide(switched(given(DONE, LIBVIRT), "false"), HaMode.INTERNAL)
    assert found is not None
    assert f"the annotation {HA_ENABLED} is false" in found[2]


class Cluster:
    """An API server that takes the condition, or refuses it as another manager's."""

    def __init__(self) -> None:
        self.refuses = False
        self.shows: Hypervisor | None = None
        self.tried: list[str] = []
        self.written: list[Hypervisor] = []

    def turn(self, _name: str) -> asyncio.Lock:
        return asyncio.Lock()

    def wrote(self, obj: Hypervisor) -> None:
        self.written.append(obj)

    def as_manager(self, name: str) -> Cluster:
        assert name == "ha"
        return self

    async def apply(self, obj: Hypervisor, *, subresource: str) -> Hypervisor:
        assert (obj.metadata.name, subresource) == ("kvm-a", "status")
        self.tried.append(obj.conditions[0].status)
        if self.refuses:
            raise ConflictError("another manager owns it", Status(code=409))
        return self.shows or obj


def step(cluster: Cluster, ha: HaMode = HaMode.EXTERNAL, unfenced: str = "") -> HaEnabledSync:
    hypervisors = cast("WriteCache[Hypervisor]", cluster)
    return HaEnabledSync(
        cast("Kube", cluster), hypervisors, ha, FencingReadiness(lambda _: unfenced, ())
    )


THEIRS = condition("HaEnabled", "False", "Succeeded", "off for the night")


async def test_condition_is_written_and_shown_to_the_next_step() -> None:
    cluster = Cluster()
    done = await step(cluster).run(facts(DONE, LIBVIRT, spec=WANTED))
    assert (cluster.tried, len(cluster.written)) == (["True"], 1)
    assert state_of(done.facts, "HaEnabled") == "True/Succeeded"


@pytest.mark.parametrize(
    "known",
    [given(DONE, LIBVIRT), given(LIBVIRT)],
    ids=["as it is already", "before an onboarding"],
)
async def test_unchanged_condition_is_not_written(known: LifecycleFacts) -> None:
    cluster = Cluster()
    assert (await step(cluster).run(known)).facts is known
    assert cluster.tried == []


async def test_host_that_cannot_be_fenced_shows_it() -> None:
    done = await step(Cluster(), HaMode.INTERNAL, "no device").run(given(DONE, LIBVIRT))
    shown = done.facts.condition("HaEnabled")
    assert shown is not None
    assert shown.message == "The host cannot be fenced: no device"


async def test_condition_of_an_outside_service_is_not_tried_again_until_it_changes() -> None:
    cluster = Cluster()
    cluster.refuses = True
    theirs = facts(DONE, LIBVIRT, THEIRS, spec=WANTED)
    availability = step(cluster)
    for _ in range(2):
        assert (await availability.run(theirs)).facts is theirs
    assert len(cluster.tried) == 1

    cluster.refuses = False
    changed = condition("HaEnabled", "Unknown", "Failed", "they have gone")
    await availability.run(facts(DONE, LIBVIRT, changed, spec=WANTED))
    await availability.run(theirs)
    assert len(cluster.tried) == 3


async def test_conflict_over_a_condition_that_was_not_seen_is_tried_again() -> None:
    cluster = Cluster()
    cluster.refuses = True
    availability = step(cluster)
    for _ in range(2):
        await availability.run(facts(DONE, LIBVIRT, spec=WANTED))
    assert len(cluster.tried) == 2


async def test_condition_on_the_api_server_goes_first() -> None:
    cluster = Cluster()
    cluster.shows = hypervisor(THEIRS)
    known = facts(DONE, LIBVIRT, spec=WANTED)
    assert (await step(cluster).run(known)).facts is known
