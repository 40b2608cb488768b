"""One pass over a pod of this host: observe, decide, act.

A pod is known by its UID: another one of the same name is another pod, and what is here of a pod
that the API does not have belongs to none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.workloads import Pod, PodStatus
from hypercobalt.lab.pods.running.decide import decide
from hypercobalt.lab.pods.running.host import PodHost
from hypercobalt.lab.pods.running.launch import Launch, launch_of
from hypercobalt.lab.pods.running.model import PodAct, PodFacts, PodPlan
from hypercobalt.lab.pods.running.status import shows
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Cache, Clock, Kube, NotFoundError, Recorder, Result
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

NAME: Final = "pods"
MANAGER: Final = "kubelet"
"""Owner of the fields that are written."""
BY_UID: Final = "uid"
_MOST_STEPS: Final = 4
_ACTION: Final = "Running"


class PodReconciler:
    """Makes the passes.

    Args:
        kube: writes as a kubelet.
        pods: of this host, indexed by `BY_UID`.
        written: the same with this process' own writes: a pod whose end was reported stays ended.
        host: what there is of them here.
        address: of this host.
        events: for people.
        clock: the time.
    """

    def __init__(
        self,
        kube: Kube,
        pods: Cache[Pod],
        written: WriteCache[Pod],
        host: PodHost,
        *,
        address: str,
        events: Recorder,
        clock: Clock,
    ) -> None:
        self._kube, self._pods, self._written, self._host = kube, pods, written, host
        self._address, self._events, self._clock = address, events, clock

    async def reconcile(self, key: str, /) -> Result:
        pod, plan = self._newest(key), PodPlan(again=True)
        for _ in range(_MOST_STEPS):
            facts = await self._observe(key, pod)
            plan = decide(facts)
            await self._act(key, facts, plan)
            pod = await self._report(pod, plan)
            if not plan.again:
                break
            # A start takes a while, in which the pod's readiness gates are written.
            pod = self._newest(key) if pod is not None else None
        return Result(plan.look_again)

    def _newest(self, uid: str) -> Pod | None:
        pod = next(iter(self._pods.find(BY_UID, uid)), None)
        if pod is None:
            return None
        newest = self._written.get(pod.metadata.name, pod.metadata.namespace)
        return newest if newest is not None and newest.metadata.uid == uid else pod

    async def _observe(self, uid: str, pod: Pod | None) -> PodFacts:
        wanted = launch_of(pod) if pod is not None else None
        directories = self._host.directories
        return PodFacts(
            now=self._clock.now(),
            host=self._address,
            pod=pod,
            wanted=wanted,
            run=await self._host.run_of(uid),
            stopping=self._host.stopping(uid),
            begun=directories.begun(uid),
            traces=await self._host.has(uid),
            missing=directories.missing(wanted.mounts) if isinstance(wanted, Launch) else (),
            ip=await self._host.ip(uid),
        )

    async def _act(self, uid: str, facts: PodFacts, plan: PodPlan) -> None:
        if plan.act is not PodAct.NOTHING:
            log.info("acting_on_pod", pod=uid, act=plan.act.name.lower())
        match plan.act:
            case PodAct.START if isinstance(facts.wanted, Launch):
                await self._host.start(facts.wanted)
            case PodAct.STOP:
                await self._host.stop(uid)
            case PodAct.KILL:
                await self._host.kill(uid)
            case PodAct.CLEAR:
                await self._host.clear(uid)
            case _:
                pass

    async def _report(self, pod: Pod | None, plan: PodPlan) -> Pod | None:
        if pod is None:
            return None
        if plan.status is not None and not shows(pod.status, plan.status):
            pod = await self._write(pod, plan.status)
            if pod is None:
                return None
        if plan.event is not None:
            event = plan.event
            self._events.record(pod, "Warning", event.reason, event.note, action=_ACTION)
        if plan.delete:
            meta = pod.metadata
            await self._kube.delete(Pod, meta.name, meta.namespace, uid=meta.uid, grace=timedelta())
        return pod

    async def _write(self, pod: Pod, status: PodStatus) -> Pod | None:
        meta = pod.metadata
        named = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        shown = Pod(metadata=named, status=status)
        try:
            written = await self._kube.apply(shown, force=True, subresource="status")
        except NotFoundError:
            self._written.missing(pod)
            return None  # the watch is about to report it
        return self._written.wrote(written)
