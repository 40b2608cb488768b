"""The next step for one pod of this host. Pure.

A pod is started once. If its unit is gone and it was begun, it has failed: its guest may have run,
and no guest runs twice. The report of an end is written before anything of the pod is removed.

Source: kubernetes, pkg/kubelet/pod_workers.go (the life of a pod worker).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.workloads import Pod
from hypercobalt.lab.pods.running import status
from hypercobalt.lab.pods.running.launch import Launch, NotRun
from hypercobalt.lab.pods.running.model import PodAct, PodEvent, PodFacts, PodPlan

IMAGE_AGAIN: Final = timedelta(seconds=10)
"""How often a directory is looked for that stands for an image; nothing reports it."""
NOT_RUN: Final = "FailedCreatePodSandBox"
"""Reason of the Event about a pod that is not run here, as a kubelet's."""
_NO_IMAGE: Final = "ErrImagePull"


def decide(facts: PodFacts) -> PodPlan:
    """Choose the next step."""
    pod = facts.pod
    if pod is None:
        return _orphan(facts)
    if pod.status.phase in status.FINAL:
        return _over(facts, pod)
    if isinstance(facts.wanted, NotRun):
        return _refused(facts, pod, facts.wanted)
    if facts.alive and facts.run is not None:
        if pod.metadata.deletionTimestamp is not None:
            return _ending(facts, pod)
        if facts.run.started is None:
            return PodPlan()  # systemd is about to execute it
        shown = status.running(pod, facts.run, ip=facts.ip, host=facts.host, now=facts.now)
        return PodPlan(status=shown)
    if facts.run is not None or facts.begun:
        return _ended(facts, pod)
    if pod.metadata.deletionTimestamp is not None:
        return _over(facts, pod)
    return _start(facts, pod)


def _orphan(facts: PodFacts) -> PodPlan:
    """A pod that the API has not, or not any more: nobody waits for its guest."""
    if facts.alive:
        return PodPlan(act=PodAct.KILL)
    return PodPlan(act=PodAct.CLEAR) if facts.traces else PodPlan()


def _over(facts: PodFacts, pod: Pod) -> PodPlan:
    """A pod that has ended for the API: remove what is left, then the object if it is deleted."""
    if facts.alive:
        return PodPlan(act=PodAct.KILL)
    deleted = pod.metadata.deletionTimestamp is not None
    act = PodAct.CLEAR if facts.traces or facts.run is not None else PodAct.NOTHING
    return PodPlan(act=act, delete=deleted)


def _ended(facts: PodFacts, pod: Pod) -> PodPlan:
    shown = status.ended(pod, facts.run, host=facts.host, now=facts.now)
    return PodPlan(status=shown, again=True)


def _refused(facts: PodFacts, pod: Pod, refused: NotRun) -> PodPlan:
    if not facts.alive and (facts.run is not None or facts.begun):
        return _ended(facts, pod)  # it ran until its owner was taken off
    if facts.alive or facts.traces or pod.metadata.deletionTimestamp is not None:
        return _over(facts, pod)
    note = f"Failed to create pod sandbox: {refused.reason}"
    return PodPlan(event=PodEvent(NOT_RUN, note))


def _ending(facts: PodFacts, pod: Pod) -> PodPlan:
    """A pod that runs and is deleted: its deletion timestamp is the end of its grace."""
    due = pod.metadata.deletionTimestamp or facts.now
    if facts.now >= due:
        return PodPlan(act=PodAct.KILL)
    act = PodAct.NOTHING if facts.stopping else PodAct.STOP
    return PodPlan(act=act, look_again=due - facts.now)


def _start(facts: PodFacts, pod: Pod) -> PodPlan:
    if not isinstance(facts.wanted, Launch):
        return PodPlan()
    if not facts.missing:
        return PodPlan(act=PodAct.START, again=True)
    listed = ", ".join(facts.missing)
    note = f"there is no directory for image {listed} among the images of this host"
    shown = status.waiting(pod, _NO_IMAGE, note, host=facts.host, now=facts.now)
    event = PodEvent("Failed", f"Failed to pull image: {note}")
    return PodPlan(status=shown, event=event, look_again=IMAGE_AGAIN)
