"""Conditions of an agent, and of its reports, by its Lease."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.operator.agents.leases import LeaseSighting, LeaseState
from hypercobalt.operator.agents.reporting import decide, initial, look_again, unknown, worth_a_pass

LEASE, AT = "agents/node-agent-kvm-a", "2026-11-22T10:00:00.000000Z"
REPORTING = condition("AgentReporting", "True", "Reporting")
SILENT = condition("AgentReporting", "False", "AgentSilent")
STOPPED = condition("AgentReporting", "False", "AgentStopped")
NEVER = condition("AgentReporting", "Unknown", "NeverReported")


def seen(state: LeaseState, *, released: bool = False, left: int = 0) -> LeaseSighting:
    return LeaseSighting(state, LEASE, "7", released, AT, left=timedelta(seconds=left))


ABSENT = LeaseSighting(LeaseState.ABSENT)
STILL_ABSENT = LeaseSighting(LeaseState.ABSENT, left=timedelta(seconds=9))
GONE = seen(LeaseState.EXPIRED, released=True)


@pytest.mark.parametrize(
    ("stored", "lease", "expected"),
    [
        pytest.param(None, seen(LeaseState.RENEWED), "True/Reporting", id="renews"),
        pytest.param(SILENT, seen(LeaseState.RENEWED), "True/Reporting", id="is back"),
        pytest.param(NEVER, seen(LeaseState.RENEWED), "True/Reporting", id="is new"),
        pytest.param(REPORTING, seen(LeaseState.EXPIRED), "False/AgentSilent silent", id="died"),
        pytest.param(None, seen(LeaseState.EXPIRED), "False/AgentSilent silent", id="was dead"),
        pytest.param(
            REPORTING, seen(LeaseState.RELEASED, released=True), "False/AgentStopped", id="stopped"
        ),
        pytest.param(STOPPED, GONE, "False/AgentStopped silent", id="stopped and stays away"),
        pytest.param(None, ABSENT, "Unknown/NeverReported", id="no Lease ever"),
        pytest.param(NEVER, ABSENT, "Unknown/NeverReported", id="still no Lease"),
        pytest.param(REPORTING, ABSENT, "False/AgentSilent silent", id="its Lease is gone"),
        pytest.param(REPORTING, STILL_ABSENT, "", id="its Lease may be made again"),
        pytest.param(SILENT, ABSENT, "", id="silent, and its Lease is gone"),
        pytest.param(REPORTING, seen(LeaseState.UNRENEWED), "", id="restart: not judged yet"),
        pytest.param(SILENT, seen(LeaseState.UNRENEWED), "", id="restart: stays silent"),
        pytest.param(None, seen(LeaseState.UNRENEWED), "", id="never judged"),
    ],
)
def test_condition_follows_the_lease(
    stored: Condition | None, lease: LeaseSighting, expected: str
) -> None:
    found = decide(stored, lease)
    state = f"{found.status}/{found.reason}{' silent' * found.silent}" if found else ""
    assert state == expected


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (seen(LeaseState.EXPIRED), ("has not renewed", LEASE, "40 s", AT)),
        (GONE, ("stopped", "released", LEASE, AT)),
        (seen(LeaseState.RENEWED), (LEASE,)),
        (replace(GONE, renewed_at=""), (f"released its Lease {LEASE}",)),
    ],
)
def test_message_names_the_lease_and_its_last_renewal(
    lease: LeaseSighting, words: tuple[str, ...]
) -> None:
    found = decide(REPORTING, lease)
    assert found is not None
    assert [word for word in words if word not in found.message] == []
    assert ("last renewed" in found.message) is (AT in words)


@pytest.mark.parametrize(
    ("stored", "lease", "again"),
    [
        (REPORTING, STILL_ABSENT, timedelta(seconds=9)),
        (REPORTING, ABSENT, None),
        (NEVER, STILL_ABSENT, None),
        (REPORTING, seen(LeaseState.UNRENEWED, left=9), None),
        (SILENT, STILL_ABSENT, None),
        (None, STILL_ABSENT, None),
    ],
)
def test_only_a_lease_that_is_missing_is_looked_for_again(
    stored: Condition | None, lease: LeaseSighting, again: timedelta | None
) -> None:
    assert look_again(stored, lease) == again


@pytest.mark.parametrize(
    ("found", "lease", "taken"),
    [
        (condition("LibVirtConnection", "True", "Connected"), seen(LeaseState.EXPIRED), True),
        (condition("LibVirtConnection", "False", "ConnectFailed"), seen(LeaseState.EXPIRED), True),
        (condition("LibVirtConnection", "Unknown", "AgentSilent"), seen(LeaseState.EXPIRED), False),
        (condition("LibVirtConnection", "True", "Connected"), GONE, True),
        (
            condition("LibVirtConnection", "True", "Connected"),
            seen(LeaseState.RELEASED, released=True),
            False,
        ),
        (None, seen(LeaseState.EXPIRED), False),
    ],
)
def test_libvirt_condition_of_a_silent_agent_is_unknown(
    found: Condition | None, lease: LeaseSighting, taken: bool
) -> None:
    verdict = decide(REPORTING, lease)
    assert verdict is not None
    made = unknown(found, verdict, NOW + timedelta(hours=1))
    assert (made is not None) is taken
    if made is not None:
        assert (made.status, made.reason) == ("Unknown", "AgentSilent")
        assert made.lastTransitionTime == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("stored", "lease", "given"),
    [
        pytest.param((), seen(LeaseState.RENEWED), ["Reporting"], id="reports"),
        pytest.param((), ABSENT, ["NeverReported"], id="has no Lease"),
        pytest.param((), seen(LeaseState.EXPIRED), [], id="silent: more than this follows"),
        pytest.param((), seen(LeaseState.UNRENEWED), [], id="not judged yet"),
        pytest.param((), None, [], id="not known yet"),
        pytest.param((NEVER,), seen(LeaseState.RENEWED), [], id="the controller's from then on"),
    ],
)
def test_first_status_of_a_host_takes_the_condition_along(
    stored: tuple[Condition, ...], lease: LeaseSighting | None, given: list[str]
) -> None:
    assert [one.reason for one in initial(hypervisor(*stored), lease, NOW)] == given


def test_new_host_has_no_pass_of_its_own() -> None:
    assert worth_a_pass(hypervisor(REPORTING), None)
    assert not worth_a_pass(None, hypervisor())
    assert worth_a_pass(None, hypervisor(REPORTING))
    assert worth_a_pass(hypervisor(REPORTING), hypervisor(SILENT))
    assert not worth_a_pass(
        hypervisor(REPORTING), hypervisor(REPORTING, condition("Ready", "True"))
    )
