"""Facts about a host, as the rules of its fencing see them: once read, handed on unchanged.

The operator's facts are these and what it knows beyond: so nothing is copied from one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.ha.host_failure.doubts import LatestReports, PowerReport
from hypercobalt.ha.host_failure.guard import Gate, is_open
from hypercobalt.ha.host_failure.node_failure import Dead, HostVerdict, RebootGrace, Suspected

_Type = HypervisorConditionType


@dataclass(frozen=True, slots=True)
class Means:
    """Fence devices of a host that cut it off from the same thing.

    Args:
        devices: for people; "" for none.
        lasts: how long an attempt with them may take, retries and all.
    """

    devices: str = ""
    lasts: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class FenceSetup:
    """Fence devices that are set up for a host.

    Args:
        power: devices that switch its power.
        storage: devices that cut it off from its storage.
        problem: why none can be used; "" where they can.
        version: of the devices' document and Secrets; "" where it was not read.
    """

    power: Means = field(default_factory=Means)
    storage: Means = field(default_factory=Means)
    problem: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about a host that is unwell, or was.

    Args:
        hypervisor: as just read; its boot ID is that of the boot to fence.
        verdict: what its signs mean.
        latest: its last reports.
        gates: every gate's answer.
        fence: fence devices that are set up for it.
        stopped: what shows that its agent has ended all its instances; "" for nothing.
        asserted: who asserts that its boot is dead, and how; "" for none. It counts only while
            nothing shows that the host lives.
        mine: deadline of the attempt that this process has recorded and not called yet.
        now: the only clock of a decision.
    """

    hypervisor: Hypervisor
    verdict: HostVerdict
    latest: LatestReports
    gates: tuple[Gate, ...]
    fence: FenceSetup
    stopped: str
    asserted: str
    mine: datetime | None
    now: datetime

    @property
    def boot(self) -> str:
        """ID of the boot that the node agent reported last; "" for none."""
        return self.hypervisor.status.bootID or ""

    @property
    def is_booted_since(self) -> bool:
        """Whether the kubelet reports another boot than the node agent has last."""
        boot = self.latest.node_boot
        return bool(boot) and boot != self.hypervisor.status.bootID

    @property
    def is_stopped(self) -> bool:
        """Whether the agent has ended all instances, and still runs to end any started later."""
        return bool(self.stopped) and self.latest.agent and not self.is_booted_since

    @property
    def is_silent(self) -> bool:
        """Whether nothing on the host answers, as far as is known."""
        return isinstance(self.verdict, Dead | Suspected | RebootGrace)

    @property
    def silence(self) -> tuple[str, ...]:
        """Texts for people that explain why the host counts as silent."""
        verdict = self.verdict
        return verdict.evidence if isinstance(verdict, Dead | Suspected | RebootGrace) else ()

    @property
    def is_dead(self) -> bool:
        """Whether the host has been silent for long enough, and all gates are open."""
        return isinstance(self.verdict, Dead) and is_open(self.gates)

    @property
    def reached_by(self) -> str:
        """The peer whose report keeps the host from being switched off; "" for none."""
        return self.verdict.reached_by if isinstance(self.verdict, Dead) else ""

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the device that has proven the host dead no longer reports its power."""
        return is_fenced(self.hypervisor) and self.latest.power is PowerReport.UNKNOWN


def healthy_since(hypervisor: Hypervisor) -> datetime | None:
    """Return since when Node, node agent and libvirt are in order; None while one is not."""
    types = (_Type.NODE_HEALTHY, _Type.AGENT_REPORTING, _Type.LIBVIRT_CONNECTION)
    conditions = [get_condition(hypervisor.conditions, type_) for type_ in types]
    times = [
        condition.lastTransitionTime
        for condition in conditions
        if condition is not None and condition.status == "True"
    ]
    return max(times) if len(times) == len(types) else None
