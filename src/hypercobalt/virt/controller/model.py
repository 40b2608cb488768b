"""Facts of a pass over a VMI, and what it decides. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.workloads import Pod
from hypercobalt.vmi.conditions import Aspect
from hypercobalt.vmi.events import VMIEvent
from hypercobalt.vmi.launcher_pods import owns

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # those of names that API servers complete
_SUFFIX: Final = 5
_LONGEST_BASE: Final = 58  # characters, as where API servers cut a generateName


def launcher_name(vmi: VirtualMachineInstance) -> str:
    """Name of the VMI's first pod, which follows from its UID.

    So a second create, of another process or after a lost answer, finds the first one in its way.
    """
    number = int.from_bytes(hashlib.sha256(vmi.metadata.uid.encode()).digest()[:8])
    suffix = ""
    for _ in range(_SUFFIX):
        number, letter = divmod(number, len(_LETTERS))
        suffix += _LETTERS[letter]
    return f"virt-launcher-{vmi.metadata.name}-"[:_LONGEST_BASE] + suffix


def is_deleted(name: str) -> str:
    """Why there is no pod yet where an earlier one has its name."""
    return f"an earlier pod {name}, which is not recorded, is being deleted"


@dataclass(frozen=True, slots=True)
class CreateError:
    """A pod that could not be created.

    Args:
        message: for people.
        lasts: trying again cannot help before the VMI changes.
    """

    message: str
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class VMIFacts:
    """What a pass knows.

    Args:
        vmi: as read.
        pods: all that name the VMI as their controller, whoever made them.
        now: time of the pass.
        created: UIDs of pods that this process has created and the VMI does not record yet.
        failure: of this pass' attempt to create the pod.
    """

    vmi: VirtualMachineInstance
    pods: tuple[Pod, ...]
    now: datetime
    created: frozenset[str] = frozenset()
    failure: CreateError | None = None

    @property
    def own(self) -> tuple[Pod, ...]:
        """Pods of the VMI: recorded, or created by this process just now."""
        return tuple(
            pod for pod in self.pods if owns(self.vmi, pod) or pod.metadata.uid in self.created
        )

    @property
    def strays(self) -> tuple[Pod, ...]:
        """Pods that only claim to be the VMI's, or that a process created and did not record."""
        own = self.own
        return tuple(pod for pod in self.pods if pod not in own)

    @property
    def pod(self) -> Pod | None:
        """The VMI's present pod: that on its node, where it has several."""
        own, node = self.own, self.vmi.status.nodeName
        here = (pod for pod in own if node and pod.spec.nodeName == node)
        return next(here, own[0] if own else None)


@dataclass(frozen=True, slots=True)
class VMIPlan:
    """What is done.

    Args:
        vmi: the object as it should be.
        create: the pod has to be created; then it is decided again.
        delete: pods to delete.
        gate: what the pod's readiness gate has to show; None: it does already.
        events: recorded once the object is written.
    """

    vmi: VirtualMachineInstance
    create: bool = False
    delete: tuple[Pod, ...] = ()
    gate: Aspect | None = None
    events: tuple[VMIEvent, ...] = ()

    def acts_on(self, vmi: VirtualMachineInstance) -> bool:
        """Whether there is anything to do, for an object as it is."""
        return self.create or bool(self.delete) or self.gate is not None or self.vmi != vmi
