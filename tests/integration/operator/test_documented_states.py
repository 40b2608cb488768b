"""What the existing operator documents of `Ready`, on Hypervisors made by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import operator, reason, until
from tests.integration.operator.documented import IN_SERVICE, MANAGED, UNMANAGED, by_hand
from tests.integration.operator.lifecycle import message

from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

IDS = {"hypervisorId": "hypervisor", "serviceId": "service"}
LIBVIRT = "LibVirtConnection=True/Connected"
TESTING = "Onboarding=True/Testing"
ABORTED, FAILED = "Onboarding=False/Aborted", "Onboarding=False/Handover"


@dataclass(frozen=True)
class Given:
    """A Hypervisor: its mode, conditions, ids and whether its lifecycle is on."""

    mode: str = ""
    conditions: tuple[str, ...] = ()
    ids: dict[str, str] = field(default_factory=lambda: IDS)
    lifecycle: bool = True


READY = {
    "in-service": (Given("", (IN_SERVICE, LIBVIRT)), "True/Ready"),
    "no-agent": (Given("", (IN_SERVICE,)), "False/LibvirtUnavailable"),
    "gone": (Given("", ("Offboarded=True", "Terminating=True")), "False/Offboarded"),
    "terminating": (Given("", ("Terminating=True", TESTING)), "False/Terminating"),
    "onboarding-beats-maintenance": (Given("auto", (TESTING,)), "False/Onboarding"),
    "evicting": (Given("auto", (IN_SERVICE, "Evicting=True")), "False/Evicting"),
    "evicted": (Given("auto", (IN_SERVICE, "Evicting=False")), "False/Evicted"),
    "not-evicted": (Given("auto", (IN_SERVICE, "Evicting=False/Failed")), "False/Maintenance"),
    "maintenance": (Given("ha", (IN_SERVICE,)), "False/Maintenance"),
    "maintenance-beats-not-started": (Given("ha"), "False/Maintenance"),
    "maintenance-beats-aborted": (Given("ha", (ABORTED,)), "False/Maintenance"),
    "maintenance-beats-failed": (Given("ha", (FAILED,)), "False/Maintenance"),
}

WORDS = {
    "message-of-the-onboarding": (Given("", (TESTING,)), "by hand"),
    "lifecycle-off": (Given(lifecycle=False), "lifecycle management is disabled"),
    "not-in-nova": (Given(ids={}), "waiting for nova-compute"),
    "not-started": (Given(), "Onboarding not started"),
    "aborted": (Given("", (ABORTED,)), "aborted"),
    "failed": (Given("", (FAILED,)), "not yet completed"),
}


async def judged(kube: Kube, kubeconfig: Path, given: dict[str, Given]) -> dict[str, Hypervisor]:
    """The Hypervisors of a table, once each has `Ready`."""
    for name, one in given.items():
        spec = MANAGED if one.lifecycle else UNMANAGED
        mode = Maintenance(one.mode) if one.mode else None
        await by_hand(kube, name, *one.conditions, spec=replace(spec, maintenance=mode), **one.ids)
    async with operator(kubeconfig):
        return {
            name: await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") != "")
            for name in given
        }


async def test_ready_has_the_first_reason_that_holds(kube: Kube, kubeconfig: Path) -> None:
    found = await judged(kube, kubeconfig, {name: given for name, (given, _) in READY.items()})
    assert {name: reason(one, "Ready") for name, one in found.items()} == {
        name: wanted for name, (_, wanted) in READY.items()
    }


async def test_ready_shows_what_an_onboarding_waits_for(kube: Kube, kubeconfig: Path) -> None:
    found = await judged(kube, kubeconfig, {name: given for name, (given, _) in WORDS.items()})
    assert {reason(one, "Ready") for one in found.values()} == {"False/Onboarding"}
    texts = {name: message(one, "Ready") for name, one in found.items()}
    assert [name for name, (_, words) in WORDS.items() if words not in texts[name]] == [], texts


async def test_ready_follows_status_and_maintenance(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    await by_hand(kube, name, IN_SERVICE, LIBVIRT, spec=MANAGED, **IDS)
    async with operator(kubeconfig):
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") == "True/Ready")
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": "ha"}})
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") == "False/Maintenance")
        await kube.merge_patch(Hypervisor, name, {"spec": {"maintenance": None}})
        await until(kube, Hypervisor, name, lambda hv: reason(hv, "Ready") == "True/Ready")
