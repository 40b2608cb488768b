"""Reads the facts of a pass: the VMI's own pod, and what is known of its launcher."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from hypercobalt.api.kubevirt.names import NODE_NAME
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.runtime import Cache, Clock, key_of
from hypercobalt.virt.handler.links import FollowedLauncher, Launchers
from hypercobalt.virt.handler.memory import killed_at_limit
from hypercobalt.virt.handler.model import CallRecord, Contact, HandlerFacts, LauncherView
from hypercobalt.vmi.launcher_pods import controller_of, controlling_vmi, has_ended, owns

BY_VMI: Final = "vmi"
"""Index of the pods by the UID of the VMI that controls them."""
BY_KEY: Final = "key"
"""Index of the pods by the key of that VMI."""


def uid_of_vmi(pod: Pod) -> tuple[str, ...]:
    """Index function of `BY_VMI`."""
    uid = controller_of(pod)
    return (uid,) if uid else ()


def key_of_vmi(pod: Pod) -> tuple[str, ...]:
    """Index function of `BY_KEY`."""
    owner = controlling_vmi(pod)
    return (f"{pod.metadata.namespace}/{owner.name}",) if owner is not None else ()


class HandlerObserver:
    """Reads the facts of VMIs.

    Args:
        node: of this handler.
        pods: cache of the node's pods with the index `BY_VMI`.
        launchers: of the node.
        clock: the time.
    """

    def __init__(self, node: str, pods: Cache[Pod], launchers: Launchers, clock: Clock) -> None:
        self._node, self._pods, self._launchers, self._clock = node, pods, launchers, clock

    def is_ours(self, vmi: VirtualMachineInstance) -> bool:
        """Whether a VMI is on this node, by label or status, and by neither on another one."""
        names = {vmi.metadata.labels.get(NODE_NAME, ""), vmi.status.nodeName} - {""}
        return names == {self._node}

    def pod(self, vmi: VirtualMachineInstance) -> Pod | None:
        """The VMI's pod on this node, by the VMI's own record."""
        meta = vmi.metadata
        for pod in self._pods.find(BY_VMI, meta.uid):
            here = pod.spec.nodeName == self._node and pod.metadata.namespace == meta.namespace
            if here and owns(vmi, pod):
                return pod
        return None

    def left(self, key: str) -> tuple[Pod, ...]:
        """Pods on this node that go, whose VMI had a key and is not known any more.

        A VMI that was removed by force takes its pod with it. Its launcher is followed already,
        unless this process has been started since.
        """
        known = self._launchers.get(key)
        followed = known.pod_uid if known is not None else ""
        return tuple(
            pod
            for pod in self._pods.find(BY_KEY, key)
            if pod.metadata.deletionTimestamp is not None
            and pod.spec.nodeName == self._node
            and not has_ended(pod)
            and pod.metadata.uid != followed
        )

    def look(self, vmi: VirtualMachineInstance) -> HandlerFacts:
        """Return the facts, and begin to follow the VMI's launcher where it has one."""
        pod, key = self.pod(vmi), key_of(vmi)
        known = self._launchers.get(key)
        if known is not None and known.vmi.metadata.uid != vmi.metadata.uid:
            self._launchers.set_apart(key)  # another VMI of that name
            known = None
        if pod is not None:
            known = self._launchers.follow(key, vmi, pod.metadata.uid)
        return self._facts(vmi, pod, known)

    def orphan(self, launcher: FollowedLauncher) -> HandlerFacts:
        """Facts of a launcher whose VMI is gone."""
        return self._facts(launcher.vmi, self.pod(launcher.vmi), launcher)

    def _facts(
        self, vmi: VirtualMachineInstance, pod: Pod | None, launcher: FollowedLauncher | None
    ) -> HandlerFacts:
        now = self._clock.now()
        if launcher is None:
            return HandlerFacts(vmi, pod, LauncherView(now, Contact.UNKNOWN), now, {})
        step = now - self._launchers.now()  # of the clock that people read
        view, stopping = launcher.link.view, launcher.stopping
        return HandlerFacts(
            vmi,
            pod,
            replace(view, since=view.since + step),
            now,
            {call: _moved(record, step) for call, record in launcher.calls.items()},
            stopping + step if stopping is not None else None,
            launcher.unconnectable,
            out_of_memory=_out_of_memory(launcher),
        )


def _moved(record: CallRecord, step: timedelta) -> CallRecord:
    return replace(record, sent=record.sent + step) if record.sent is not None else record


def _out_of_memory(launcher: FollowedLauncher) -> bool:
    """Whether a guest that has ended did so at its pod's memory limit; counted kills stay."""
    link = launcher.link
    if link.view.contact is not Contact.CONNECTED or link.view.alive:
        return False
    return killed_at_limit(launcher.pod_uid, link.process)
