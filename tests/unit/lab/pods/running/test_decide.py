"""The next step for a pod, as a table of what is there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.unit.lab.pods.running.objects import NOW, exited, launcher_pod, unit_run

from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.lab.pods.running.decide import decide
from hypercobalt.lab.pods.running.launch import launch_of
from hypercobalt.lab.pods.running.model import PodAct, PodFacts, PodPlan

LATER = NOW + timedelta(seconds=40)


def plan(pod: Pod | None, **fields: object) -> PodPlan:
    wanted = launch_of(pod) if pod is not None else None
    return decide(PodFacts(now=NOW, host="10.77.0.1", pod=pod, wanted=wanted, **fields))  # type: ignore[arg-type]


def deleted(pod: Pod, at: object = LATER) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletionTimestamp=at))


def foreign() -> Pod:
    return launcher_pod(ownerReferences=())


def over(phase: str = "Failed") -> Pod:
    return launcher_pod(status=PodStatus(phase=phase))


def phase(found: PodPlan) -> str:
    return found.status.phase if found.status is not None else ""


@pytest.mark.parametrize(
    ("pod", "facts", "act", "shown", "delete"),
    [
        pytest.param(launcher_pod(), {}, PodAct.START, "", False, id="new-one-is-started"),
        pytest.param(
            launcher_pod(), {"missing": ("linux",)}, PodAct.NOTHING, "Pending", False,
            id="without-its-image-it-waits",
        ),
        pytest.param(
            launcher_pod(), {"run": unit_run(), "begun": True, "traces": True},
            PodAct.NOTHING, "Running", False, id="running-is-reported",
        ),
        pytest.param(
            launcher_pod(), {"run": unit_run(started=None), "begun": True, "traces": True},
            PodAct.NOTHING, "", False, id="about-to-be-executed-is-waited-for",
        ),
        pytest.param(
            launcher_pod(),
            {"run": unit_run(started=None, active="inactive", sub="dead"), "begun": True,
             "traces": True},
            PodAct.NOTHING, "", False, id="one-whose-job-waits-has-not-ended",
        ),
        pytest.param(
            launcher_pod(), {"run": exited(), "begun": True, "traces": True},
            PodAct.NOTHING, "Succeeded", False, id="exit-0-is-a-success",
        ),
        pytest.param(
            launcher_pod(), {"run": exited(1), "begun": True, "traces": True},
            PodAct.NOTHING, "Failed", False, id="exit-1-is-a-failure",
        ),
        pytest.param(
            launcher_pod(), {"run": exited(1), "traces": True},
            PodAct.NOTHING, "Failed", False, id="that-ended-before-it-wrote-is-a-failure",
        ),
        pytest.param(
            over(), {"run": exited(1)}, PodAct.CLEAR, "", False,
            id="what-is-known-of-its-unit-goes-with-it",
        ),
        pytest.param(
            launcher_pod(), {"begun": True, "traces": True}, PodAct.NOTHING, "Failed", False,
            id="lost-by-a-reboot-is-a-failure-and-never-started-again",
        ),
        pytest.param(
            deleted(launcher_pod()),
            {"run": exited(), "begun": True, "traces": True, "stopping": True},
            PodAct.NOTHING, "Succeeded", False, id="end-is-reported-before-anything-is-removed",
        ),
        pytest.param(
            over(), {"begun": True, "traces": True}, PodAct.CLEAR, "", False,
            id="ended-one-is-cleared",
        ),
        pytest.param(over(), {}, PodAct.NOTHING, "", False, id="ended-one-is-not-started-again"),
        pytest.param(
            over(), {"run": unit_run(), "traces": True}, PodAct.KILL, "", False,
            id="ended-one-that-runs-is-killed",
        ),
        pytest.param(
            deleted(over()), {"begun": True, "traces": True}, PodAct.CLEAR, "", True,
            id="ended-and-deleted-one-is-cleared-and-goes",
        ),
        pytest.param(
            deleted(launcher_pod()), {}, PodAct.NOTHING, "", True,
            id="deleted-before-its-start-goes",
        ),
        pytest.param(
            deleted(launcher_pod()), {"run": unit_run(), "begun": True, "traces": True},
            PodAct.STOP, "", False, id="deleted-one-is-stopped",
        ),
        pytest.param(
            deleted(launcher_pod()),
            {"run": unit_run(), "begun": True, "traces": True, "stopping": True},
            PodAct.NOTHING, "", False, id="deleted-one-is-stopped-once",
        ),
        pytest.param(
            deleted(launcher_pod(), NOW),
            {"run": unit_run(), "begun": True, "traces": True, "stopping": True},
            PodAct.KILL, "", False, id="grace-is-over",
        ),
        pytest.param(
            None, {"run": unit_run(), "traces": True}, PodAct.KILL, "", False,
            id="without-an-object-it-is-killed",
        ),
        pytest.param(
            None, {"traces": True}, PodAct.CLEAR, "", False, id="what-is-left-of-it-is-removed",
        ),
        pytest.param(None, {}, PodAct.NOTHING, "", False, id="nothing-is-left"),
        pytest.param(foreign(), {}, PodAct.NOTHING, "", False, id="one-of-somebody-else-stays"),
        pytest.param(
            deleted(foreign()), {}, PodAct.NOTHING, "", True, id="one-of-somebody-else-goes",
        ),
        pytest.param(
            foreign(), {"run": unit_run(), "traces": True}, PodAct.KILL, "", False,
            id="one-that-has-lost-its-owner-is-killed",
        ),
        pytest.param(
            foreign(), {"run": exited(1), "begun": True, "traces": True},
            PodAct.NOTHING, "Failed", False, id="end-without-an-owner-is-reported",
        ),
        pytest.param(
            foreign(), {"traces": True}, PodAct.CLEAR, "", False,
            id="what-was-made-for-one-that-never-ran-goes-with-its-owner",
        ),
    ],
)  # fmt: skip
def test_next_step(
    pod: Pod | None, facts: dict[str, object], act: PodAct, shown: str, delete: bool
) -> None:
    found = plan(pod, **facts)
    assert (found.act, phase(found), found.delete) == (act, shown, delete)


def test_start_and_end_are_followed_by_another_look() -> None:
    assert plan(launcher_pod()).again
    assert plan(launcher_pod(), run=exited(), begun=True).again
    assert not plan(launcher_pod(), run=unit_run(), begun=True).again


def test_end_of_the_grace_is_looked_at_in_time() -> None:
    found = plan(deleted(launcher_pod()), run=unit_run(), begun=True)
    assert found.look_again == timedelta(seconds=40)


def test_missing_image_is_named_and_looked_for_again() -> None:
    found = plan(launcher_pod(), missing=("linux",))
    assert found.look_again is not None
    assert found.event is not None
    assert "linux" in found.event.note
    assert found.status is not None
    (container,) = found.status.containerStatuses
    assert container.state.waiting is not None
    assert container.state.waiting.reason == "ErrImagePull"


def test_pod_of_somebody_else_has_an_event_with_the_reason() -> None:
    found = plan(foreign())
    assert found.event is not None
    assert "VirtualMachineInstance" in found.event.note
