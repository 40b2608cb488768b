"""What a kubelet reports of a pod."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace
from tests.unit.lab.pods.running.objects import GATE, NOW, SECOND, exited, launcher_pod, unit_run

from hypercobalt.api.core import NodeCondition
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.lab.pods.running import status
from hypercobalt.vmi.launcher_pods import stage_of
from hypercobalt.vmi.phases import PodStage

HOST, IP = "10.77.0.1", "10.244.1.5"


def running(pod: Pod, ip: str = IP) -> PodStatus:
    return status.running(pod, unit_run(), ip=ip, host=HOST, now=NOW)


def ready(shown: PodStatus) -> NodeCondition:
    return next(one for one in shown.conditions if one.type == "Ready")


def gated(value: str) -> Pod:
    return launcher_pod(status=PodStatus(conditions=(NodeCondition(type=GATE, status=value),)))


def test_running_pod_is_what_the_controller_waits_for() -> None:
    pod = launcher_pod()
    shown = replace(pod, spec=replace(pod.spec, nodeName="a"), status=running(pod))
    assert stage_of(shown) is PodStage.READY
    assert (shown.status.hostIP, shown.status.podIP) == (HOST, IP)
    assert [one.ip for one in shown.status.podIPs] == [IP]
    assert shown.status.startTime == SECOND


def test_pod_is_ready_once_its_gates_are_open() -> None:
    assert ready(running(launcher_pod())).status == "False"
    closed = ready(running(gated("False")))
    assert (closed.status, closed.reason) == ("False", "ReadinessGatesNotReady")
    assert GATE in closed.message
    assert ready(running(gated("True"))).status == "True"


def test_conditions_of_others_are_not_reported() -> None:
    assert {one.type for one in running(gated("True")).conditions} == {
        "Initialized", "ContainersReady", "Ready",
    }  # fmt: skip


def test_transition_time_moves_with_the_status_only() -> None:
    before = running(launcher_pod())
    later = status.running(
        launcher_pod(status=before), unit_run(), ip=IP, host=HOST, now=NOW + timedelta(minutes=1)
    )
    assert [one.lastTransitionTime for one in later.conditions] == [SECOND] * 3
    assert later.startTime == SECOND


def test_report_that_the_pod_shows_is_not_written_again() -> None:
    before = running(launcher_pod())
    pod = launcher_pod(status=before)
    assert status.shows(pod.status, running(pod))
    assert not status.shows(pod.status, running(pod, ip="10.244.1.6"))
    assert not status.shows(pod.status, status.ended(pod, exited(), host=HOST, now=NOW))
    assert not status.shows(PodStatus(), before)


def test_end_has_exit_code_or_signal() -> None:
    pod = launcher_pod()
    cases = ((exited(), 0, 0, "Succeeded"), (exited(3), 3, 0, "Failed"),
             (unit_run(active="failed", sub="failed", signal=9), 137, 9, "Failed"))  # fmt: skip
    for run, code, signal, phase in cases:
        shown = status.ended(pod, run, host=HOST, now=NOW)
        (container,) = shown.containerStatuses
        ended = container.state.terminated
        assert ended is not None
        assert (ended.exitCode, ended.signal, shown.phase) == (code, signal, phase)
        assert ready(shown).status == "False"
        assert container.ready is False


def test_end_that_nobody_saw_is_a_failure_that_says_so() -> None:
    shown = status.ended(launcher_pod(), None, host=HOST, now=NOW)
    (container,) = shown.containerStatuses
    assert container.state.terminated is not None
    assert container.state.terminated.reason == "ContainerStatusUnknown"
    assert shown.phase == "Failed"


def test_end_keeps_the_address_that_the_pod_had() -> None:
    pod = launcher_pod(status=running(launcher_pod()))
    assert status.ended(pod, exited(), host=HOST, now=NOW).podIP == IP
